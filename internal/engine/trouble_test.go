package engine

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/record/store"
)

// TestTroubleReason: what a thread's row says of workers that were not able to drive it, and when a person has to look.
func TestTroubleReason(t *testing.T) {
	const second = 1000
	start := int64(100 * second)
	try := func(was *store.Reason, worker string, at int64) (store.Reason, bool) {
		return Trouble{Worker: worker, Text: "the disk is full"}.reason(was, at)
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
	end, over := try(&last, "a", late)
	want("after a quarter of an hour", end, store.Reason{Kind: store.ReasonWorker, Since: start, Failures: 3,
		Message: "no worker was able to do it for 15m0s: a: the disk is full; b: the disk is full", Workers: on("a", "b")},
		over, true)

	anew := next.ResetAt + 20*60*second // an agent was at work meanwhile, or no worker served
	again, over := try(&next, "b", anew)
	want("long after the last", again, store.Reason{Kind: store.ReasonWorker, Message: "b: the disk is full", Since: anew,
		Failures: 1, ResetAt: anew + (5 * time.Second).Milliseconds(), Workers: on("b")}, over, false)
}
