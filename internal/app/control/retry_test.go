package control

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// How a task is tried again follows from its state alone; the script retry does it.
func TestRetryDecides(t *testing.T) {
	const id = "01JD0000000000000000000000"
	blocked := func(kind store.ReasonKind) store.Thread {
		return store.Thread{ID: id, Status: store.Blocked, Reason: &store.Reason{Kind: kind, Message: "m"}}
	}
	ended := func(status store.Status) store.Thread { return store.Thread{ID: id, Status: status} }
	fork := dag.Sum([]byte("fork"))
	join := func(role string, paths ...thread.PathHead) thread.Step {
		return thread.Step{State: &thread.State{Role: role, Fork: fork, Paths: paths}}
	}
	good, bad := thread.PathHead{ID: "a", Thread: "A", Head: dag.Sum([]byte("a")), Status: store.Completed},
		thread.PathHead{ID: "b", Thread: "B", Head: dag.Sum([]byte("b")), Status: store.Failed}
	late := thread.PathHead{ID: "c", Thread: "C", Head: dag.Sum([]byte("c")), Status: store.Cancelled}
	gate := []store.Gate{{ID: "g-1", Thread: id}}
	type want struct {
		Resume, Rejoin, Before bool
		Thread, At             string
	}
	for name, tt := range map[string]struct {
		retryCase
		want want
		err  error
	}{
		"attempts": {retryCase: retryCase{row: blocked(store.ReasonAttempts)}, want: want{Resume: true}},
		"no route": {retryCase: retryCase{row: store.Thread{ID: id, Status: store.Blocked,
			Reason: &store.Reason{Kind: store.ReasonAttempts, Failure: store.FailureRoute, Message: "m"}}}, err: ErrUsage},
		"limit":         {retryCase: retryCase{row: blocked(store.ReasonLimit)}, want: want{Resume: true}},
		"join":          {retryCase: retryCase{row: blocked(store.ReasonJoin)}, want: want{Resume: true}},
		"child":         {retryCase: retryCase{row: blocked(store.ReasonChild)}, want: want{Resume: true}},
		"interrupted":   {retryCase: retryCase{row: ended(store.Running)}, want: want{Resume: true}},
		"asks":          {retryCase: retryCase{row: blocked(store.ReasonInput), open: gate}, err: ErrUsage},
		"asks to merge": {retryCase: retryCase{row: blocked(store.ReasonConflict), open: gate}, err: ErrUsage},
		"your turn":     {retryCase: retryCase{row: blocked(store.ReasonInput)}, err: ErrUsage},
		"files moved":   {retryCase: retryCase{row: blocked(store.ReasonConflict)}, want: want{Resume: true}},
		"one path asks, another is blocked": {retryCase: retryCase{row: blocked(store.ReasonChild), open: gate,
			rows: []store.Thread{blocked(store.ReasonAttempts)}}, want: want{Resume: true}},
		"driven":    {retryCase: retryCase{row: blocked(store.ReasonAttempts), driver: "process 1"}, err: store.ErrConflict},
		"done":      {retryCase: retryCase{row: ended(store.Completed)}, err: ErrUsage},
		"cancelled": {retryCase: retryCase{row: ended(store.Cancelled)}, want: want{Thread: id}},
		"no step":   {retryCase: retryCase{row: ended(store.Failed)}, want: want{Thread: id, At: "0"}},
		"a step": {retryCase: retryCase{row: ended(store.Failed), number: 2,
			last: thread.Step{State: &thread.State{Role: "two"}}}, want: want{Before: true}},
		"a path": {retryCase: retryCase{row: ended(store.Failed), last: join("met", good, late, bad)},
			want: want{Thread: "B", At: bad.Head.String(), Rejoin: true}},
		"too late": {retryCase: retryCase{row: ended(store.Failed), last: join("met", good, late)},
			want: want{Thread: "C", At: late.Head.String(), Rejoin: true}},
		"all were good": {retryCase: retryCase{row: ended(store.Failed), last: join("met", good)},
			want: want{Thread: id, At: fork.String()}},
		"an action": {retryCase: retryCase{row: ended(store.Failed), last: join(thread.RoleJoin, good, bad)},
			want: want{Thread: id, At: fork.String()}},
	} {
		tt.rows = append(tt.rows, tt.row)
		plan, err := tt.decide()
		got := want{plan.resume, plan.rejoin, plan.before != nil, plan.thread, plan.at}
		said := err != nil || plan.before != nil || plan.note != ""
		if diff := cmp.Diff(tt.want, got); diff != "" || !errors.Is(err, tt.err) || !said {
			t.Errorf("%s: %v, said %q, -want +got\n%s", name, err, plan.note, diff)
		}
	}
}
