package attempt

import "testing"

// TestTurns: an id that an agent was told keeps its meaning, whatever is tried again and however often the
// role runs.
func TestTurns(t *testing.T) {
	seen := map[string]bool{}
	for visit := 1; visit <= 3; visit++ {
		for try := 1; try <= 3; try++ {
			turn := turnOf(visit, try)
			for _, n := range []string{"-1", "-2", "-3"} {
				id := "cmd" + turn + n
				if seen[id] || !ownID.MatchString(id) {
					t.Errorf("%s of visit %d, try %d is given twice, or is not of the kind that is", id, visit, try)
				}
				seen[id] = true
			}
		}
	}
	if turnOf(1, 1) != "" {
		t.Errorf("the first turn is %q", turnOf(1, 1))
	}
}
