package bisect

// A Verdict is what a command says about files.
type Verdict string

// Verdicts.
const (
	Good Verdict = "good"
	Bad  Verdict = "bad"
	Skip Verdict = "skip" // it cannot tell
)

// Search finds where a row of states, from 0, which is good, to n, which is bad, goes bad. It returns the last good and
// the first bad state that it knows. All states between them, if there are any, were skipped. It tests each state at
// most once and, if none is skipped, about log₂ n of them.
func Search(n int, test func(i int) (Verdict, error)) (good, bad int, err error) {
	good, bad = 0, n
	skipped := map[int]bool{}
	for {
		i := middle(good, bad, skipped)
		if i == good {
			return good, bad, nil
		}
		switch v, err := test(i); {
		case err != nil:
			return good, bad, err
		case v == Good:
			good = i
		case v == Bad:
			bad = i
		default:
			skipped[i] = true
		}
	}
}

// middle returns the state nearest to the middle of those between good and bad that are not skipped, good if there is
// none.
func middle(good, bad int, skipped map[int]bool) int {
	half := good + (bad-good)/2
	for d := 0; half-d > good || half+d < bad; d++ {
		for _, i := range []int{half - d, half + d} {
			if good < i && i < bad && !skipped[i] {
				return i
			}
		}
	}
	return good
}
