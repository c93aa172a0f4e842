package control

import (
	"context"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/engine"
	"github.com/plait-run/plait/internal/engine/dispatch"
	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/record/store"
)

// A cut is an agent that is cut off at its first runs, and then does its work.
type cut struct {
	atWork chan struct{}
	times  int
}

func (c *cut) run(ctx context.Context, _ agent.Request, _ func(agent.Event) error) (agent.Result, error) {
	if c.times > 0 {
		c.times--
		c.atWork <- struct{}{}
		<-ctx.Done()
		return agent.Result{}, &agent.Failure{Kind: agent.Cancelled, Message: "stopped"}
	}
	return agent.Result{Output: []byte(status("done"))}, nil
}

// whileAtWork calls drive with a context that ends once the agent works.
func (c *cut) whileAtWork(t *testing.T, drive func(ctx context.Context)) {
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	go func() {
		select {
		case <-c.atWork:
			cancel(engine.ErrInterrupted)
		case <-ctx.Done():
		}
	}()
	drive(ctx)
}

// team begins a task that workers drive.
func (h *house) team(yamls ...string) (task string) {
	h.t.Helper()
	row := h.beginFlows(h.controller(), Options{On: OnTeam}, yamls...)
	if _, err := h.store.Acquire(h.t.Context(), row.ID); err != nil { // the holder draws the task's directory
		h.t.Fatal(err)
	}
	return row.ID
}

// worker returns a worker in a process of its own.
func (h *house) worker() *Worker {
	c := h.controller() // now: the worker may still look when the store of the next one is set
	open := func(context.Context, store.Thread) (*Controller, error) { return c, nil }
	return NewWorker(WorkerConfig{Store: h.store, RecheckEvery: time.Hour, Open: open})
}

// work has new workers drive what may be driven.
func (h *house) work(ctx context.Context, task string) {
	h.t.Helper()
	for range 10 {
		agenda, err := h.worker().Reconcile(h.t.Context(), task)
		if err != nil {
			h.t.Fatal(err)
		}
		if len(agenda.Drive) == 0 || ctx.Err() != nil {
			return
		}
		for _, r := range agenda.Drive {
			if err := h.worker().Drive(ctx, r.Thread, new(dispatch.Slot)); err != nil && ctx.Err() == nil {
				h.t.Fatal(err)
			}
		}
	}
	h.t.Fatal("the workers never finish")
}

func (h *house) row(id string) store.Thread {
	h.t.Helper()
	row, err := h.store.Thread(h.t.Context(), id)
	if err != nil {
		h.t.Fatal(err)
	}
	return row
}

// request records a resume, and returns what the person is told.
func (h *house) request(id string, r Resume) (notes []string) {
	h.t.Helper()
	r.Note = func(note string) { notes = append(notes, note) }
	if _, err := h.controller().Ask(h.t.Context(), id, r); err != nil {
		h.t.Fatal(err)
	}
	return notes
}

// question returns the open question whether an interrupted attempt may run again.
func (h *house) question(task string) store.Gate {
	h.t.Helper()
	open, err := h.store.Gates(h.t.Context(), store.GateFilter{Task: task, State: store.GateOpen})
	if err != nil || len(open) != 1 || open[0].Source != store.SourceInterrupted {
		h.t.Fatalf("open questions: %+v, %v", open, err)
	}
	return open[0]
}

func (h *house) deny(task string) {
	h.t.Helper()
	no := gate.Answer{Reject: true, By: "ann", Via: store.ViaCLI}
	_, err := h.controller().Gates().Answer(h.t.Context(), h.question(task).ID, no)
	if err != nil {
		h.t.Fatal(err)
	}
}

// Consent to repeat what was cut off is for the attempts that were cut off when it was given.
func TestConsentIsForNothingLater(t *testing.T) {
	c := &cut{make(chan struct{}, 1), 1}
	h := newHouse(t, map[string]scripted{"work": c.run})
	id := h.team(one("write", ""))
	if notes := h.request(id, Resume{Again: true}); len(notes) != 1 {
		t.Errorf("the person is told %q", notes)
	}
	c.whileAtWork(t, func(ctx context.Context) { h.work(ctx, id) })
	h.work(t.Context(), id)
	wantStatus(t, h.row(id), store.Blocked, store.ReasonGate)
	h.question(id)
}

// A person who denied that an attempt is repeated can allow it later, for one repetition, whichever worker takes the
// request and whichever drives.
func TestConsentAfterADenial(t *testing.T) {
	c := &cut{make(chan struct{}, 2), 2}
	h := newHouse(t, map[string]scripted{"work": c.run})
	id := h.team(one("write", ""))
	c.whileAtWork(t, func(ctx context.Context) { h.work(ctx, id) })
	h.work(t.Context(), id)
	h.deny(id)
	h.work(t.Context(), id)
	wantStatus(t, h.row(id), store.Blocked, store.ReasonAttempts)
	h.request(id, Resume{})
	h.work(t.Context(), id)
	wantStatus(t, h.row(id), store.Blocked, store.ReasonAttempts)

	if notes := h.request(id, Resume{Again: true}); notes != nil {
		t.Errorf("the person is told %q", notes)
	}
	c.whileAtWork(t, func(ctx context.Context) { h.work(ctx, id) })
	if n := len(h.attempts(h.row(id))); n != 2 {
		t.Fatalf("%d attempts after consent, want 2", n)
	}
	h.work(t.Context(), id) // the second attempt was cut off too: that is asked anew
	wantStatus(t, h.row(id), store.Blocked, store.ReasonGate)
	if g := h.question(id); g.Attempt != id+".2" {
		t.Errorf("the question is about %s", g.Attempt)
	}
	h.request(id, Resume{Again: true})
	h.work(t.Context(), id)
	wantStatus(t, h.row(id), store.Completed, "")
	gates, err := h.store.Gates(t.Context(), store.GateFilter{Thread: id})
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range gates {
		if g.State == store.GateApproved && g.UsedAt == 0 {
			t.Errorf("consent %s for %s was not used up", g.ID, g.Attempt)
		}
	}
}

// consentPaths forks into two paths that write in the same directory, one after the other.
const consentPaths = `
version: 1
name: paths
roles: {work: {description: d, access: write}, other: {description: d}}
forks: {both: {forkStrategy: serial, forkPaths: [{pathId: w, childNodeId: work}, {pathId: o, childNodeId: other}]}}
joins: {met: {forkPathIds: [w, o]}}
graph:
  $START: {new: {role: both, prompt: "{{ prompt }}"}}
  work: {done: {role: met}}
  other: {done: {role: met}}
  met: {joined: {role: $END}}
`

// A path that ended because its repetition was denied is continued by another thread, which has the consent too.
func TestConsentForAPath(t *testing.T) {
	for name, on := range map[string]string{"embedded": "", "team": OnTeam} {
		t.Run(name, func(t *testing.T) {
			c := &cut{make(chan struct{}, 1), 1}
			h := newHouse(t, map[string]scripted{"work": c.run, "other": say(status("done"))})
			begin := h.team
			if on == "" {
				begin = func(yamls ...string) string { return h.begin(h.controller(), yamls[0]).ID }
			}
			id := begin(consentPaths)
			work := func(ctx context.Context, r Resume) {
				if on == "" {
					if _, err := h.controller().Drive(ctx, id, r); err != nil && ctx.Err() == nil {
						t.Fatal(err)
					}
					return
				}
				if r.Again {
					h.request(id, r)
				}
				h.work(ctx, id)
			}
			c.whileAtWork(t, func(ctx context.Context) { work(ctx, Resume{}) })
			work(t.Context(), Resume{})
			h.deny(id)
			work(t.Context(), Resume{})
			if row := h.row(id); row.Status != store.Blocked {
				t.Fatalf("after the denial the task is %s: %+v", row.Status, row.Reason)
			}
			work(t.Context(), Resume{Again: true})
			wantStatus(t, h.row(id), store.Completed, "")
			if n := h.runs["work"]; n != 2 {
				t.Errorf("the agent ran %d times, want 2", n)
			}
		})
	}
}

// callsInAPath forks into a path that calls a flow, and another one.
const callsInAPath = `
version: 1
name: calls
roles: {sub: {flow: sub}, other: {description: d}}
forks: {both: {forkPaths: [{pathId: w, childNodeId: sub}, {pathId: o, childNodeId: other}]}}
joins: {met: {forkPathIds: [w, o]}}
graph:
  $START: {new: {role: both, prompt: "{{ prompt }}"}}
  sub: {done: {role: met}}
  other: {done: {role: met}}
  met: {joined: {role: $END}}
`

const sub = `
version: 1
name: sub
roles: {work: {description: d}}
graph:
  $START: {new: {role: work, prompt: "{{ prompt }}"}}
  work: {done: {role: $END}}
`

// A resume of a team's task whose root runs reaches what is blocked below it, or says that nothing is.
func TestResumeReachesWhatIsBlocked(t *testing.T) {
	broken := true
	h := newHouse(t, map[string]scripted{
		"work": func(context.Context, agent.Request, func(agent.Event) error) (agent.Result, error) {
			if broken {
				return agent.Result{}, &agent.Failure{Kind: agent.Refused, Message: "as told"}
			}
			return agent.Result{Output: []byte(status("done"))}, nil
		},
		"other": say(status("done")),
	})
	id := h.team(callsInAPath, sub)
	if notes := h.request(id, Resume{}); len(notes) != 1 {
		t.Errorf("nothing is blocked, and the person is told %q", notes)
	}
	for {
		agenda, err := h.worker().Reconcile(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		drove := false
		for _, r := range agenda.Drive {
			if row := h.row(r.Thread); row.Path == nil || row.Path.ID != "o" { // that worker is busy elsewhere
				drove = true
				if err := h.worker().Drive(t.Context(), r.Thread, new(dispatch.Slot)); err != nil {
					t.Fatal(err)
				}
			}
		}
		if !drove {
			break
		}
	}
	wantStatus(t, h.row(id), store.Running, "")
	if notes := h.request(id, Resume{}); notes != nil {
		t.Errorf("a part is blocked, and the person is told %q", notes)
	}
	broken = false
	h.work(t.Context(), id)
	wantStatus(t, h.row(id), store.Completed, "")
}
