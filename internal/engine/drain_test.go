package engine

import "testing"

// A process that drains does not begin the next attempt with the step of this one, as it does otherwise.
func TestDrainBeginsNothing(t *testing.T) {
	for drains, begun := range map[bool]bool{false: true, true: false} {
		_, engine, row := setUp(t, "read", finish)
		e := engine()
		if drains {
			e.Drain()
		}
		after, err := e.Step(t.Context(), row.ID, row.Head)
		if err != nil || after.Steps != 1 || (after.InFlight != "") != begun {
			t.Errorf("drains: %t: %d steps, in flight %q, %v", drains, after.Steps, after.InFlight, err)
		}
	}
}
