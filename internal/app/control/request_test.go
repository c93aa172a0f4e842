package control

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/engine"
	"github.com/plait-run/plait/internal/files/worktree"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// A noticed store passes each batch to before and after around its commit. A deaf one
// reports no news.
type noticed struct {
	store.Store
	before, after func(store.Batch)
	deaf          bool
}

func (n noticed) Commit(ctx context.Context, b store.Batch) error {
	if n.before != nil {
		n.before(b)
	}
	err := n.Store.Commit(ctx, b)
	if err == nil && n.after != nil {
		n.after(b)
	}
	return err
}

func (n noticed) Wait(ctx context.Context, pos int64) (int64, error) {
	if !n.deaf || pos < 0 {
		return n.Store.Wait(ctx, pos)
	}
	<-ctx.Done()
	return pos, ctx.Err()
}

// tells reports whether a batch has an event of a type.
func tells(b store.Batch, typ string) bool {
	return slices.ContainsFunc(b.Events, func(ev store.Event) bool { return ev.Type == typ })
}

// noneRuns fails the test if an attempt is still running.
func (h *house) noneRuns() {
	h.t.Helper()
	running, err := h.store.Attempts(context.Background(), store.AttemptFilter{Status: store.AttemptRunning})
	if err != nil {
		h.t.Fatal(err)
	}
	for _, a := range running {
		h.t.Errorf("attempt %s of %s still runs", a.ID, a.Role)
	}
}

// cutOff drives a thread until its agent reports that it is at work, and then ends the
// process.
func (h *house) cutOff(row store.Thread, atWork <-chan struct{}) {
	h.t.Helper()
	ctx, cancel := context.WithCancel(h.t.Context())
	defer cancel()
	go func() { <-atWork; cancel() }()
	if _, err := h.controller().Drive(ctx, row.ID, Resume{}); !errors.Is(err, engine.ErrInterrupted) {
		h.t.Fatalf("drive: %v", err)
	}
}

// once is an agent that reports that it is at work and works until it is stopped; the
// next time it acts as then.
func once(atWork chan<- struct{}, then scripted) scripted {
	first := true
	return func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
		if first {
			first = false
			close(atWork)
			return hangs(ctx, req, emit)
		}
		return then(ctx, req, emit)
	}
}

// A request to cancel takes effect whenever it comes, also just before or after another
// record of the same thread, and without notice.
func TestARequestIsHeard(t *testing.T) {
	asks := say(`{"$status":"$SUSPEND","reason":"?"}`, status("ready"))
	for _, tt := range []struct {
		name   string
		plan   scripted // nil: it is cut off
		writes bool
		resume *Resume
		at     func(store.Batch) bool // the batch that it comes before
		after  bool                   // or rather follows
	}{
		{"blocking", fails(agent.Refused), false, nil, func(b store.Batch) bool { return tells(b, "thread.blocked") },
			false},
		{"having blocked", fails(agent.Refused), false, nil,
			func(b store.Batch) bool { return tells(b, "thread.blocked") }, true},
		{"waking", asks, false, &Resume{Prompt: "x"}, func(b store.Batch) bool { return tells(b, "thread.resumed") },
			false},
		{"changing options", asks, false, &Resume{Prompt: "x", Options: Options{Limits: flow.Limits{MaxRounds: 9}}},
			func(b store.Batch) bool {
				return tells(b, "task.options")
			}, false},
		{"ending what was cut off", nil, false, &Resume{},
			func(b store.Batch) bool { return tells(b, "attempt.interrupted") }, false},
		{"asking about what was cut off", nil, true, &Resume{},
			func(b store.Batch) bool { return tells(b, "thread.blocked") }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			agents := loopAgents()
			atWork := make(chan struct{})
			if agents["plan"] = tt.plan; tt.plan == nil {
				agents["plan"] = once(atWork, say(status("ready")))
			}
			h := newHouse(t, agents)
			inner := h.store
			yaml := loop
			if tt.writes {
				yaml = replaceOnce(loop, "plan: {description: plans}", "plan: {description: plans, access: write}")
			}
			row := h.begin(h.controller(), yaml)
			other := h.controller()
			var request sync.Once
			came := false
			late := noticed{Store: inner, deaf: true}
			comes := func(b store.Batch) {
				if !tt.at(b) {
					return
				}
				request.Do(func() {
					came = true
					// The lease is held: it can only leave a request.
					if now, err := other.Cancel(context.Background(), row.ID); err != nil || now.Ended() {
						t.Errorf("cancel: %s: %v", now.Status, err)
					}
				})
			}
			if late.before = comes; tt.after {
				late.before, late.after = nil, comes
			}
			switch {
			case tt.resume == nil:
				tt.resume = &Resume{}
			case tt.plan != nil:
				wantStatus(t, h.drive(h.controller(), row.ID, Resume{}), store.Blocked, "input")
			case tt.writes:
				h.cutOff(row, atWork)
			default: // what a dying process leaves
				was := row
				row.Status, row.InFlight = store.Running, thread.AttemptID(row.ID, 1)
				if err := inner.Commit(t.Context(), stated(row.Task, store.Batch{
					Threads: []store.ThreadChange{{Row: row, From: was.State()}},
					Attempts: []store.AttemptChange{{Row: store.Attempt{
						ID: row.InFlight, Thread: row.ID, From: row.Head, Role: "plan", N: 1, Instance: "plan",
						Status: store.AttemptRunning,
					}}},
				})); err != nil {
					t.Fatal(err)
				}
			}
			h.store = late
			row = h.drive(h.controller(), row.ID, *tt.resume)
			if !came {
				t.Fatal("there was no such batch")
			}
			wantStatus(t, row, store.Cancelled, "")
			if kept, err := inner.Thread(t.Context(), row.ID); err != nil || kept.Status != store.Cancelled {
				t.Errorf("the record says %s: %v", kept.Status, err)
			}
			h.noneRuns()
		})
	}
}

// A request stops an agent that summarizes, and what it says afterwards does not count.
func TestARequestEndsACompaction(t *testing.T) {
	for name, then := range map[string]scripted{
		"it stops": func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
			select {
			case <-ctx.Done():
			case <-time.After(time.Minute):
				t.Error("nobody stops it")
			}
			return agent.Result{}, &agent.Failure{Kind: agent.Cancelled, Message: "stopped"}
		},
		"it goes on": say("A summary."),
	} {
		t.Run(name, func(t *testing.T) {
			agents := loopAgents()
			agents["review"] = say(`{"$status":"$SUSPEND","reason":"?"}`)
			h := newHouse(t, agents)
			row := h.run(loop)
			wantStatus(t, row, store.Blocked, "input")
			agents[thread.RoleCompact] = func(ctx context.Context, req agent.Request,
				emit func(agent.Event) error) (agent.Result, error) {
				if now, err := h.controller().Cancel(context.Background(), row.ID); err != nil || now.Ended() {
					t.Errorf("cancel: %s: %v", now.Status, err)
				}
				return then(ctx, req, emit)
			}
			if _, err := h.controller().Compact(t.Context(), Compaction{Thread: row.ID}); !errors.Is(err,
				store.ErrConflict) {
				t.Errorf("compact: %v", err)
			}
			now, err := h.store.Thread(t.Context(), row.ID)
			if err != nil {
				t.Fatal(err)
			}
			wantStatus(t, now, store.Cancelled, "")
			h.noneRuns()
		})
	}
}

// A task that cannot begin for lack of its working tree says so, and can be cancelled.
func TestWithoutATreeItCanBeCancelled(t *testing.T) {
	for _, driven := range []bool{false, true} {
		t.Run(map[bool]string{false: "at once", true: "after a try"}[driven], func(t *testing.T) {
			agents := surveyAgents()
			agents["api"], agents["db"] = writesFile("f", "of a"), writesFile("f", "of b")
			h := newHouse(t, agents)
			h.repository()
			h.options.Merge = MergeKeep
			row := h.run(writers())
			wantStatus(t, row, store.Completed, "")
			fork, err := h.controller().Fork(t.Context(), Fork{Thread: h.below(row)["a"].ID})
			if err != nil || !worktree.Own(fork) {
				t.Fatalf("the fork works in %q: %v", fork.Tree, err)
			}
			if err := os.RemoveAll(filepath.Join(h.dir, ".git")); err != nil {
				t.Fatal(err)
			}
			if driven {
				blocked := h.drive(h.controller(), fork.ID, Resume{})
				wantStatus(t, blocked, store.Blocked, "attempts")
				if !contains(blocked.Reason.Message, "working tree") {
					t.Errorf("the reason: %s", blocked.Reason.Message)
				}
			}
			end, err := h.controller().Cancel(t.Context(), fork.ID)
			if err != nil {
				t.Fatal(err)
			}
			wantStatus(t, end, store.Cancelled, "")
		})
	}
}
