package engine

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/record/store"
)

// TestTroubleReason: what a thread's row says of workers that were not able to drive it, and when a person has to look.
func TestTroubleReason(t *testing.T) {
	const second = 1000
	start := int64(100 * second)
	try := func(was *store.Reason, worker string, at int64, live ...string) (store.Reason, bool) {
		return Trouble{Worker: worker, Text: "the disk is full"}.reason(was, at, live)
	}
	want := func(name string, got, want store.Reason, over, wantOver bool) {
		t.Helper()
		if diff := cmp.Diff(want, got); diff != "" || over != wantOver {
			t.Errorf("%s: over %t, want %t (-want +got):\n%s", name, over, wantOver, diff)
		}
	}
	on := func(workers ...string) map[string]string {
		said := map[string]string{}
		for _, w := range workers {
			said[w] = "the disk is full"
		}
		return said
	}

	first, over := try(nil, "a", start)
	want("the first", first, store.Reason{Kind: store.ReasonWorker, Message: "a: the disk is full", Since: start,
		Failures: 1, ResetAt: start + 5*second, Workers: on("a")}, over, false)

	next, over := try(&first, "b", start+6*second)
	want("another", next, store.Reason{Kind: store.ReasonWorker, Message: "b: the disk is full", Since: start, Failures: 2,
		ResetAt: start + 16*second, Workers: on("a", "b")}, over, false)

	late := start + 15*60*second
	last := next
	last.ResetAt = late - second
	busy, over := try(&last, "a", late, "a", "b", "c")
	want("while one serves that has not tried", busy, store.Reason{Kind: store.ReasonWorker,
		Message: "a: the disk is full", Since: start, Failures: 3, ResetAt: late + 20*second, Workers: on("a", "b")}, over, false)

	last.Failures = 29
	if _, over := try(&last, "a", late, "a", "b", "c"); !over {
		t.Error("it is tried for ever")
	}

	last.Failures = 2
	end, over := try(&last, "a", late, "a", "b")
	want("after a quarter of an hour", end, store.Reason{Kind: store.ReasonWorker, Since: start, Failures: 3,
		Message: "no worker was able to do it for 15m0s: a: the disk is full; b: the disk is full", Workers: on("a", "b")},
		over, true)

	anew := next.ResetAt + 20*60*second // an agent was at work meanwhile
	if again, over := try(&next, "b", anew); !over || again.Failures != 3 {
		t.Errorf("long after the last it is %+v, over %t", again, over)
	}
}
