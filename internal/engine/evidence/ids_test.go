package evidence

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestTurns: an id that an agent was told keeps its meaning, whatever is tried again and however often the
// role runs.
func TestTurns(t *testing.T) {
	seen := map[string]bool{}
	for visit := 1; visit <= 3; visit++ {
		for try := 1; try <= 3; try++ {
			for _, n := range []string{"-1", "-2", "-3"} {
				id := "cmd" + string(TurnOf(visit, try)) + n
				if seen[id] || !numbered.MatchString(id) {
					t.Errorf("%s of visit %d, try %d is given twice, or is not of the kind that is", id, visit, try)
				}
				seen[id] = true
			}
		}
	}
	for turn, want := range map[Turn]string{TurnOf(1, 1): "", TurnOf(2, 1): "cmd-2-1, cmd-2-2, …",
		TurnOf(1, 2): "cmd-1-2-1, cmd-1-2-2, …"} {
		if said := turn.Announce(); !strings.Contains(said, want) || want == "" && said != "" {
			t.Errorf("turn %q is announced as %q", turn, said)
		}
	}
}

// TestNumber: occurrences are written KIND or KIND@TURN, in order.
func TestNumber(t *testing.T) {
	for _, tt := range []struct {
		name        string
		all         string
		last        Turn
		cited, used string
		want        string
	}{
		{name: "nothing"},
		{name: "each kind counts for itself", all: "cmd change cmd tool change", want: "cmd-1 change-1 cmd-2 tool-1 change-2"},
		{name: "each turn counts for itself", all: "cmd cmd cmd@-1-2", last: "-1-2", want: "cmd-1 cmd-2 cmd-1-2-1"},
		{name: "a second visit", all: "cmd@-2 tool@-2", last: "-2", want: "cmd-2-1 tool-2-1"},
		{name: "an earlier step has the id", all: "cmd cmd", used: "cmd-1", want: "cmd-2 cmd-3"},
		{name: "of the same visit", all: "cmd@-2", last: "-2", used: "cmd-2-1", want: "cmd-2-2"},
		{name: "counted from the last turn", all: "cmd@-1-2 cmd@-1-3", last: "-1-3", cited: "cmd-1",
			want: "cmd-1-2-1 cmd-1"},
		{name: "the last turn has fewer", all: "cmd@-1-2 cmd@-1-2 cmd@-1-3", last: "-1-3", cited: "cmd-1 cmd-2",
			want: "cmd-1-2-1 cmd-2 cmd-1"},
		{name: "the last turn has none", all: "cmd@-1-2", last: "-1-3", cited: "cmd-1", want: "cmd-1"},
		{name: "none of that kind", all: "cmd@-1-2 tool@-1-3", last: "-1-3", cited: "cmd-1", want: "cmd-1 tool-1-3-1"},
		{name: "the first turn has it", all: "cmd cmd@-1-2", last: "-1-2", cited: "cmd-1", want: "cmd-1 cmd-1-2-1"},
		{name: "an earlier step has what is counted", all: "cmd@-2", last: "-2", cited: "cmd-1", used: "cmd-1",
			want: "cmd-2-1"},
		{name: "cited as it was announced", all: "cmd@-2", last: "-2", cited: "cmd-2-1", want: "cmd-2-1"},
		{name: "another is cited", all: "cmd@-1-2", last: "-1-2", cited: "cmd-2 tool-1", want: "cmd-1-2-1"},
	} {
		var all []occurrence
		for _, one := range strings.Fields(tt.all) {
			kind, turn, _ := strings.Cut(one, "@")
			all = append(all, occurrence{kind, Turn(turn)})
		}
		cited := map[string]bool{}
		for _, id := range strings.Fields(tt.cited) {
			cited[id] = true
		}
		used := func(id string) bool { return strings.Contains(" "+tt.used+" ", " "+id+" ") }
		if diff := cmp.Diff(strings.Fields(tt.want), number(all, tt.last, cited, used)); diff != "" {
			t.Errorf("%s: -want +got\n%s", tt.name, diff)
		}
	}
}
