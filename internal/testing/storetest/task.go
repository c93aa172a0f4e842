package storetest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
)

var taskTests = []test{
	{"a task has its own rows that matter, in order", taskRows},
	{"what is read of a task is of one moment", taskMoment},
	{"a task of which there is nothing has no rows", taskNone},
	{"what was used up comes in the order in which it began", usedOrder},
	{"every hash that a row names is a root", rootsAll},
	{"the clock of a store is that of its objects", storeClock},
}

// family creates two tasks, K with a path and L, with rows of every state.
func family(h *home) (want store.TaskRows) {
	o := node("start")
	b := store.Batch{Objects: []store.Object{o}}
	for _, x := range []struct{ id, task string }{{"P", "K"}, {"K", "K"}, {"L", "L"}} {
		t := thread(x.id, o.Hash)
		t.Task, t.Root = x.task, x.task
		b.Threads = append(b.Threads, store.ThreadChange{Row: t})
		for n := 12; n >= 9; n-- { // 10 comes after 9
			a := store.Attempt{
				ID: fmt.Sprint(x.id, ".", n), Thread: x.id, N: n, StartedAt: int64(100 - n), EndedAt: 7, Waited: int64(n),
				Status: []store.AttemptStatus{store.AttemptRunning, store.AttemptDone}[n%2],
				Usage: store.Usage{InputTokens: int64(n), CachedInputTokens: 2, OutputTokens: 3, ReasoningTokens: 4,
					CostMicroUSD: 5},
			}
			b.Attempts = append(b.Attempts, store.AttemptChange{Row: a})
		}
		for i, state := range []store.GateState{store.GateOpen, store.GateExpired, store.GateOpen} {
			b.Gates = append(b.Gates, store.GateChange{Row: store.Gate{ID: fmt.Sprint("g", 9-i, x.id), Task: x.task,
				Thread: x.id, State: state}})
		}
		for i, taken := range []int64{0, 5, 0} {
			b.Requests = append(b.Requests, store.RequestChange{Row: store.Request{ID: fmt.Sprint("w", 9-i, x.id), Task: x.task,
				Thread: x.id, TakenAt: taken}})
		}
		b.Counts = append(b.Counts, store.Count{Task: x.task, Name: "of " + x.id, Add: 3, Most: 3})
		b.Events = append(b.Events, store.Event{Type: "made", Task: x.task})
	}
	h.commit(b)
	for _, i := range []int{1, 0} {
		want.Threads = append(want.Threads, b.Threads[i].Row)
		for _, j := range []int{2, 0} {
			want.Running = append(want.Running, b.Attempts[4*i+j].Row)
		}
	}
	for _, id := range []string{"g7K", "g7P", "g9K", "g9P"} {
		want.Gates = append(want.Gates, store.Gate{ID: id, Task: "K", Thread: id[2:], State: store.GateOpen})
	}
	for _, id := range []string{"w7K", "w7P", "w9K", "w9P"} {
		want.Requests = append(want.Requests, store.Request{ID: id, Task: "K", Thread: id[2:]})
	}
	want.Counts = map[string]int64{"of K": 3, "of P": 3}
	want.Position = 3
	return want
}

func taskRows(h *home) {
	want := family(h)
	got, err := h.Task(h.ctx, "K")
	h.must(err)
	h.same(got, want)
	// Events of other tasks count: a position is the store's.
	h.commit(store.Batch{Events: []store.Event{{Type: "x", Task: "L"}}})
	want.Position++
	got, err = h.Task(h.ctx, "K")
	h.must(err)
	h.same(got, want)
	// So do those of a removed task: no position is assigned twice.
	h.commit(store.Batch{Remove: []string{"L"}})
	got, err = h.Task(h.ctx, "K")
	h.must(err)
	h.same(got, want)
}

// taskMoment commits batches that move two threads, begin an attempt and end another, count and file
// events, and reads the task meanwhile.
func taskMoment(h *home) {
	o := node("start")
	ts := []store.Thread{thread("A", o.Hash), thread("B", o.Hash)}
	b := store.Batch{Objects: []store.Object{o}}
	for i := range ts {
		ts[i].Task, ts[i].Root = "A", "A"
		b.Threads = append(b.Threads, store.ThreadChange{Row: ts[i]})
	}
	h.commit(b)
	const steps = 150
	other := h.again()
	ended := make(chan error, 1)
	go func() {
		ended <- func() error {
			for n := 1; n <= steps; n++ {
				var b store.Batch
				for i := range ts {
					from := ts[i].State()
					ts[i].Steps = n
					b.Threads = append(b.Threads, store.ThreadChange{Row: ts[i], From: from})
				}
				at := func(n int, s store.AttemptStatus) store.Attempt {
					return store.Attempt{ID: fmt.Sprint("A.", n), Thread: "A", N: n, Status: s}
				}
				b.Attempts = []store.AttemptChange{{Row: at(n, store.AttemptRunning)}}
				b.Gates = []store.GateChange{{Row: store.Gate{ID: fmt.Sprint("g", n), Task: "A", State: store.GateOpen}}}
				b.Requests = []store.RequestChange{{Row: store.Request{ID: fmt.Sprint("w", n), Task: "A"}}}
				if n > 1 {
					b.Attempts = append(b.Attempts, store.AttemptChange{Row: at(n-1, store.AttemptDone), From: store.AttemptRunning})
					b.Gates = append(b.Gates, store.GateChange{
						Row: store.Gate{ID: fmt.Sprint("g", n-1), Task: "A", State: store.GateExpired}, From: store.GateOpen})
					b.Requests = append(b.Requests, takes(fmt.Sprint("w", n-1), 1).Requests...)
				}
				b.Counts = []store.Count{{Task: "A", Name: "n", Add: 1, Most: steps}}
				b.Events = []store.Event{{Type: "x", Task: "A"}}
				if err := other.Commit(h.ctx, b); err != nil {
					return err
				}
			}
			return nil
		}()
	}()
	for n := 0; n < steps; {
		r, err := h.Task(h.ctx, "A")
		h.must(err)
		h.same(len(r.Threads), 2)
		last := n
		n = r.Threads[0].Steps
		if n < last {
			h.Fatalf("step %d was read after %d", n, last)
		}
		got := []int64{int64(r.Threads[1].Steps), r.Position, r.Counts["n"], int64(len(r.Running)), int64(len(r.Gates)),
			int64(len(r.Requests))}
		h.same(got, []int64{int64(n), int64(n), int64(n), int64(min(n, 1)), int64(min(n, 1)), int64(min(n, 1))})
		if n > 0 {
			h.same([]string{r.Running[0].ID, r.Gates[0].ID, r.Requests[0].ID},
				[]string{fmt.Sprint("A.", n), fmt.Sprint("g", n), fmt.Sprint("w", n)})
		}
		select {
		case err := <-ended:
			h.must(err)
		default:
		}
	}
}

func taskNone(h *home) {
	family(h)
	for _, id := range []string{"nobody", "P", ""} { // P is a path of a task
		r, err := h.Task(h.ctx, id)
		h.must(err)
		if n := len(r.Threads) + len(r.Running) + len(r.Gates) + len(r.Requests) + len(r.Counts); n != 0 || r.Position != 3 {
			h.Errorf("%q: got %+v", id, r)
		}
		used, err := h.Used(h.ctx, id)
		h.must(err)
		h.same(len(used), 0)
	}
}

func usedOrder(h *home) {
	family(h)
	var want []store.Use
	for n := 12; n >= 9; n-- {
		for _, thread := range []string{"K", "P"} {
			want = append(want, store.Use{
				Thread: thread, Attempt: fmt.Sprint(thread, ".", n), Waited: int64(n), StartedAt: int64(100 - n), EndedAt: 7,
				Status: []store.AttemptStatus{store.AttemptRunning, store.AttemptDone}[n%2],
				Usage: store.Usage{InputTokens: int64(n), CachedInputTokens: 2, OutputTokens: 3, ReasoningTokens: 4,
					CostMicroUSD: 5},
			})
		}
	}
	got, err := h.Used(h.ctx, "K")
	h.must(err)
	h.same(got, want)
	// Of those that began at the same time, 10 comes after 9.
	h.commit(store.Batch{Attempts: []store.AttemptChange{
		{Row: store.Attempt{ID: "P.100", Thread: "P", N: 100, Status: store.AttemptDone}},
		{Row: store.Attempt{ID: "P.99", Thread: "P", N: 99, Status: store.AttemptDone}},
		{Row: store.Attempt{ID: "P.101", Thread: "P", N: 101, Status: store.AttemptFailed,
			Failure: &store.Failure{Kind: store.FailureInfra, Message: "not there", Void: true}}},
		{Row: store.Attempt{ID: "P.102", Thread: "P", N: 102, Status: store.AttemptFailed,
			Failure: &store.Failure{Kind: store.FailureInfra, Message: `"notBegun":true`}}},
	}})
	got, err = h.Used(h.ctx, "K")
	h.must(err)
	h.same(got[:4], []store.Use{
		{Thread: "P", Attempt: "P.99", Status: store.AttemptDone}, {Thread: "P", Attempt: "P.100", Status: store.AttemptDone},
		{Thread: "P", Attempt: "P.101", Status: store.AttemptFailed, Void: true},
		{Thread: "P", Attempt: "P.102", Status: store.AttemptFailed},
	})
}

// rootRows returns a row of each kind, and its roots. names returns a different hash for each place.
func rootRows(names func(what string) dag.Hash) (b store.Batch, want []store.Root) {
	root := func(row, id, what string) dag.Hash {
		x := names(what)
		want = append(want, store.Root{Hash: x, Row: row, ID: id})
		return x
	}
	maybe := func(row, id, what string) string {
		x := names(what)
		want = append(want, store.Root{Hash: x, Row: row, ID: id, Maybe: true})
		return x.String()
	}
	not := func(what string) dag.Hash { return names("not " + what) }
	t := func(what string) dag.Hash { return root("thread", "T", what) }
	b.Threads = []store.ThreadChange{{Row: store.Thread{
		ID: "T", Task: "T", Root: "T", Status: store.Running, Bundle: t("bundle"), Start: t("start"), Head: t("head"),
		Files:  t("files"),
		Parent: &store.Parent{Thread: "T", From: t("parent")}, Path: &store.Path{Key: "k", Fork: t("fork")},
		ForkedFrom: &store.ForkedFrom{Step: t("step")}, Tree: not("tree").String(),
		Options: json.RawMessage(`["` + not("option").String() + `"]`),
		Decision: json.RawMessage(fmt.Sprintf(`{"a": [%q, "text", 7], %q: null}`, maybe("thread", "T", "in it"),
			maybe("thread", "T", "a key"))),
	}}, {Row: store.Thread{ID: "bare", Status: store.Running, Decision: json.RawMessage(`{"short": "abc"}`)}}}
	a := func(what string) dag.Hash { return root("attempt", "T.1", what) }
	b.Attempts = []store.AttemptChange{{Row: store.Attempt{
		ID: "T.1", Thread: "T", Status: store.AttemptDone, From: not("from"), Prompt: a("prompt"),
		Transcript: a("transcript"),
		Stderr:     a("stderr"), Calls: a("calls"), Pins: []dag.Hash{a("pin 1"), a("pin 2")},
	}}, {Row: store.Attempt{ID: "bare", Status: store.AttemptRunning}}}
	b.Gates = []store.GateChange{{Row: store.Gate{
		ID: "G", Task: "T", State: store.GateExpired, From: not("origin"), Digest: not("digest"),
		Diff:   root("gate", "G", "diff"),
		Action: json.RawMessage(fmt.Sprintf(`{"x": {"y": %q}, "z": "%s0"}`, maybe("gate", "G", "action"), not("too long"))),
	}}, {Row: store.Gate{ID: "bare", State: store.GateOpen, Action: json.RawMessage(`"` + strings.Repeat("no JSON", 30))}}}
	f := func(what string) dag.Hash { return root("flow", "F", what) }
	b.Flows = []store.FlowChange{{Row: store.Flow{
		Name: "F", Hash: f("flow"), History: []store.Version{{Hash: f("one before")}, {Hash: f("two before")}},
	}}}
	return b, want
}

func rootsAll(h *home) {
	texts := map[dag.Hash]string{}
	b, want := rootRows(func(what string) dag.Hash {
		x := blob(what).Hash
		texts[x] = what
		return x
	})
	for _, r := range want {
		if !r.Maybe { // only what is certain has to be there
			b.Objects = append(b.Objects, blob(texts[r.Hash]))
		}
	}
	h.commit(b)
	order := func(a, b store.Root) int {
		return strings.Compare(fmt.Sprint(a.Row, a.ID, a.Hash, a.Maybe), fmt.Sprint(b.Row, b.ID, b.Hash, b.Maybe))
	}
	slices.SortFunc(want, order)
	roots := func(v store.View) (got []store.Root, err error) {
		for r, err := range v.Roots(h.ctx) {
			if err != nil {
				return nil, err
			}
			got = append(got, r)
		}
		slices.SortFunc(got, order)
		return got, nil
	}
	got, err := roots(h.Store)
	h.must(err)
	h.same(got, want)
	// Also under the lock of a sweep, and after breaking off an iteration.
	_, err = h.Sweep(h.ctx, 0, func(v store.View) ([]dag.Hash, error) {
		for range v.Roots(h.ctx) {
			break
		}
		got, err = roots(v)
		return nil, err
	})
	h.must(err)
	h.same(got, want)

	ctx, cancel := context.WithCancel(h.ctx)
	cancel()
	for _, err = range h.Roots(ctx) {
	}
	h.want(err, context.Canceled)
}

func storeClock(h *home) {
	before := h.Now()
	x := h.keep("x")[0]
	put, after := h.entry(x).Put, h.again().Now()
	// A clock over a network is measured now and then, not asked each time.
	const off = 1000
	if put.UnixMilli() < before.UnixMilli()-off || put.UnixMilli() > after.UnixMilli()+off {
		h.Errorf("put at %s, between %s and %s", put, before, after)
	}
}
