package bisect_test

import (
	"math/bits"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/plait-run/plait/internal/app/bisect"
)

// TestSearch plants a fault among states of which some cannot be tested.
func TestSearch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 200).Draw(t, "n")
		fault := rapid.IntRange(1, n).Draw(t, "fault")
		skips := rapid.SliceOfDistinct(rapid.IntRange(1, n), rapid.ID[int]).Draw(t, "skips")
		if rapid.Bool().Draw(t, "none skipped") {
			skips = nil
		}
		tested := map[int]bool{}
		good, bad, err := bisect.Search(n, func(i int) (bisect.Verdict, error) {
			if i <= 0 || i >= n || tested[i] {
				t.Fatalf("state %d of %d is tested, after %v", i, n, tested)
			}
			tested[i] = true
			switch {
			case slices.Contains(skips, i):
				return bisect.Skip, nil
			case i < fault:
				return bisect.Good, nil
			}
			return bisect.Bad, nil
		})
		if err != nil || good >= fault || bad < fault {
			t.Fatalf("it is between %d and %d, want %d: %v", good, bad, fault, err)
		}
		for i := good + 1; i < bad; i++ {
			if !slices.Contains(skips, i) {
				t.Errorf("state %d between %d and %d was not skipped", i, good, bad)
			}
		}
		if len(skips) == 0 && len(tested) > bits.Len(uint(n)) {
			t.Errorf("%d tests of %d states", len(tested), n)
		}
	})
}
