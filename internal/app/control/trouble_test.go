package control

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/engine"
	"github.com/plait-run/plait/internal/engine/dispatch"
	"github.com/plait-run/plait/internal/engine/dispatch/local"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
)

const single = `
version: 1
name: single
roles: {only: {description: d}}
graph: {$START: {new: {role: only, prompt: "{{ prompt }}"}}, only: {done: {role: $END}}}
`

// An ailing is a worker that is in trouble as long as its errors are set.
type ailing struct {
	*Worker
	open, agents error        // of its workspace; of what makes its agents
	fails        func() error // what its agents return; nil: they work
}

// ailing returns a worker with a name.
func (h *house) ailing(name string) *ailing {
	a := &ailing{}
	open := func(context.Context, store.Thread) (*Controller, error) {
		c := h.controller()
		make := c.cfg.Agent
		c.cfg.Agent = func(name string, def flow.Agent, o AgentOptions) (agent.Agent, error) {
			if a.fails != nil {
				return scripted(func(context.Context, agent.Request, func(agent.Event) error) (agent.Result, error) {
					return agent.Result{}, a.fails()
				}), a.agents
			}
			got, err := make(name, def, o)
			return got, errors.Join(err, a.agents)
		}
		return c, a.open
	}
	a.Worker = NewWorker(WorkerConfig{Store: h.store, Name: name, Open: open})
	return a
}

// fails has a worker try a thread, and not be able to.
func (a *ailing) gives(t *testing.T, id string) {
	t.Helper()
	var own *engine.WorkerError
	if err := a.Drive(t.Context(), id, new(dispatch.Slot)); !errors.As(err, &own) {
		t.Fatalf("the drive ends with %v", err)
	}
}

// looks returns what a worker says may be done for a task.
func (a *ailing) looks(t *testing.T, task string) dispatch.Agenda {
	t.Helper()
	agenda, err := a.Reconcile(t.Context(), task)
	if err != nil {
		t.Fatal(err)
	}
	return agenda
}

// What a worker cannot do is tried again after a while, by another, and counts for nothing.
func TestTroubleIsTheWorkers(t *testing.T) {
	for name, ails := range map[string]func(*ailing){
		"agent":     func(a *ailing) { a.agents = errors.New("there is no key") },
		"workspace": func(a *ailing) { a.open = errors.New("there is no key") },
		"program": func(a *ailing) {
			a.fails = func() error { return agent.OfMachine("there is no key") }
		},
		"log": func(a *ailing) {
			a.fails = func() error { return &os.PathError{Op: "there is no key", Path: "events.jsonl", Err: syscall.ENOSPC} }
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHouse(t, map[string]scripted{"only": say(status("done"))})
				h.clock, h.limits.MaxAttempts = time.Now, 1
				task := h.team(single)
				a, b := h.ailing("a"), h.ailing("b")
				ails(a)
				a.gives(t, task)
				began := time.Now()
				row := h.row(task)
				r := row.Reason
				if r == nil || r.Kind != store.ReasonWorker || !strings.HasPrefix(r.Message, "a: ") ||
					!strings.Contains(r.Workers["a"], "there is no key") || r.Failures != 1 || row.InFlight != "" {
					t.Fatalf("the thread is %s, %+v", row.Status, r)
				}
				agenda := b.looks(t, task)
				if len(agenda.Drive) > 0 || !agenda.At.Equal(began.Add(5*time.Second).Truncate(time.Millisecond)) {
					t.Fatalf("it is offered at once: %+v", agenda)
				}
				time.Sleep(5 * time.Second)
				a.gives(t, task)
				if r := h.row(task).Reason; r.Failures != 2 || r.ResetAt != time.Now().Add(10*time.Second).UnixMilli() ||
					r.Since != began.UnixMilli() {
					t.Fatalf("the second time it is %+v", r)
				}
				time.Sleep(10 * time.Second)
				serving, end := context.WithCancel(t.Context())
				go b.hold(serving, store.WorkerLease("b"))
				synctest.Wait()
				agenda = b.looks(t, task)
				if len(agenda.Drive) != 1 || agenda.Drive[0].Host != "b" {
					t.Fatalf("it is offered to %+v", agenda.Drive)
				}
				if err := b.Drive(t.Context(), task, new(dispatch.Slot)); err != nil {
					t.Fatal(err)
				}
				if row := h.row(task); row.Status != store.Completed || row.Reason != nil {
					t.Errorf("the task is %s, %+v", row.Status, row.Reason)
				}
				if n := h.events(task, event.Type(event.ThreadDelayed{})); n != 2 {
					t.Errorf("%d events say so, want 2", n)
				}
				at := engine.AtAgent
				if name == "workspace" {
					at = engine.AtWorkspace
				}
				if diff := cmp.Diff(map[string]int64{at: 2}, a.Counts().GivenBack); diff != "" {
					t.Errorf("given back: -want +got\n%s", diff)
				}
				end()
				synctest.Wait()
			})
		})
	}
}

// When no worker was able for 15 minutes, a person is asked, with what each said; resumed, it goes on.
func TestTroubleWithoutEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, map[string]scripted{"only": say(status("done"))})
		h.clock = time.Now
		task := h.team(single)
		a, b := h.ailing("a"), h.ailing("b")
		a.agents, b.agents = errors.New("there is no key"), errors.New("the disk is full")
		began, tries := time.Now(), 0
		for h.row(task).Status != store.Blocked {
			agenda := a.looks(t, task)
			if len(agenda.Drive) == 0 {
				time.Sleep(time.Until(agenda.At))
				continue
			}
			[]*ailing{a, b}[tries%2].gives(t, task)
			tries++
		}
		if took := time.Since(began); took != 15*time.Minute || tries != 9 {
			t.Errorf("it took %v and %d tries", took, tries)
		}
		r := h.row(task).Reason
		if r.Kind != store.ReasonWorker || !strings.Contains(r.Message, "no key") || !strings.Contains(r.Message, "is full") {
			t.Errorf("it is blocked since %+v", r)
		}
		if n := len(a.looks(t, task).Drive); n > 0 {
			t.Error("it is offered all the same")
		}
		a.agents = nil
		h.request(task, Resume{})
		if n := len(a.looks(t, task).Drive); n != 1 {
			t.Fatal("it is resumed in vain")
		}
		if err := a.Drive(t.Context(), task, new(dispatch.Slot)); err != nil {
			t.Fatal(err)
		}
		if got := h.row(task).Status; got != store.Completed {
			t.Errorf("the task is %s", got)
		}
	})
}

// A worker that cannot work declines, is served no more, says why, and comes back; what it drives goes on.
func TestOutOfService(t *testing.T) {
	h := newHouse(t, nil)
	h.clock = time.Now
	begun, goes := make(chan struct{}), make(chan struct{})
	first := true
	only := func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
		if first {
			first = false
			close(begun)
			<-goes
		}
		return say(status("done"))(ctx, req, emit)
	}
	h.agents = map[string]scripted{"only": only}
	task := h.team(single)
	var sick atomic.Bool
	changed := make(chan error, 1)
	w := NewWorker(WorkerConfig{Store: h.store, Name: "a", RetryUnable: time.Millisecond,
		Open: func(context.Context, store.Thread) (*Controller, error) { return h.controller(), nil },
		Ready: func(context.Context) error {
			if sick.Load() {
				return errors.New("no space left on device")
			}
			return nil
		},
		Changed: func(why error) { changed <- why }})
	e := local.New(local.Config{})
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- w.Serve(ctx, e, dispatch.Host{ID: "a"}) }()
	e.Poke(ctx, task)
	<-begun
	sick.Store(true)
	if err := w.Drive(ctx, task, new(dispatch.Slot)); !errors.Is(err, dispatch.ErrBusy) {
		t.Errorf("it drives: %v", err)
	}
	if why := <-changed; why == nil || w.Unable() == nil {
		t.Error("it does not say why")
	}
	holds := func(prefix string) (names []string) {
		for len(names) == 0 {
			held, err := h.store.Held(t.Context(), prefix)
			if err != nil {
				t.Fatal(err)
			}
			for name := range held {
				names = append(names, name)
			}
			time.Sleep(time.Millisecond)
		}
		return names
	}
	if name, why := store.Unable(holds(store.UnableLeases)[0]); name != "a" || why != "no space left on device" {
		t.Errorf("others hear of %s: %s", name, why)
	}
	close(goes)
	for h.row(task).Status != store.Completed {
		time.Sleep(time.Millisecond)
	}
	sick.Store(false)
	if why := <-changed; why != nil {
		t.Errorf("it comes back with %v", why)
	}
	if names := holds(store.WorkerLease("")); !slices.Equal(names, []string{store.WorkerLease("a")}) {
		t.Errorf("those that serve: %v", names)
	}
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// A failure while the worker cannot work is its own, whatever the agent says, and the attempt counts for nothing.
func TestFailsWithItsWorker(t *testing.T) {
	for kind, own := range map[string]bool{agent.Infra: true, agent.InvalidOutput: true, agent.TimedOut: true,
		agent.Refused: false, agent.Limit: false} {
		t.Run(kind, func(t *testing.T) {
			h := newHouse(t, nil)
			h.clock = time.Now
			task := h.team(single)
			a := h.ailing("a")
			full := false
			a.fails = func() error {
				full = true
				return &agent.Failure{Kind: kind, Message: "it could not be written"}
			}
			a.cfg.Ready = func(context.Context) error {
				if full {
					return errors.New("the disk is full")
				}
				return nil
			}
			if own {
				a.gives(t, task)
			} else if err := a.Drive(t.Context(), task, new(dispatch.Slot)); err != nil {
				t.Fatal(err)
			}
			row := h.row(task)
			if trouble := row.Reason != nil && row.Reason.Kind == store.ReasonWorker; trouble != own {
				t.Errorf("the thread is %s, %+v", row.Status, row.Reason)
			}
			all := h.attempts(row)
			if len(all) != 1 || all[0].Status != store.AttemptFailed || all[0].Failure.Void != own {
				t.Fatalf("attempts: %+v", all)
			}
			if said := all[0].Failure.Message; strings.HasPrefix(said, "the disk is full: ") != own ||
				!strings.Contains(said, "it could not be written") {
				t.Errorf("it failed because %q", said)
			}
		})
	}
}

func TestPreferred(t *testing.T) {
	live := []string{"a", "b", "c"}
	for name, tt := range map[string]struct {
		last         string
		avoid, needs []string
		want         []string
	}{
		"it has the files":        {"a", nil, nil, []string{"a"}},
		"that one is gone":        {"x", nil, nil, []string{""}},
		"that one is not able":    {"a", []string{"a"}, nil, []string{"b", "c"}},
		"another is not able":     {"a", []string{"b"}, nil, []string{"a"}},
		"one is left":             {"", []string{"a", "c"}, nil, []string{"b"}},
		"none is able":            {"", live, nil, []string{""}},
		"who has labels is open":  {"", []string{"a"}, []string{"gpu"}, []string{""}},
		"it has labels and files": {"b", []string{"a"}, []string{"gpu"}, []string{"b"}},
	} {
		if got := preferred("id", tt.last, tt.avoid, live, tt.needs); !slices.Contains(tt.want, got) {
			t.Errorf("%s: %q, want one of %q", name, got, tt.want)
		}
	}
}

// A plain resume is recorded although the task runs, if a part of it is blocked.
func TestResumesABlockedPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, map[string]scripted{"begin": say(status("done"))})
		h.clock = time.Now
		task := h.team(race)
		w := h.ailing("a")
		if err := w.Drive(t.Context(), task, new(dispatch.Slot)); err != nil {
			t.Fatal(err)
		}
		path := w.looks(t, task).Drive[0].Thread
		w = h.ailing("b") // an engine makes its agents anew
		w.agents = errors.New("there is no key")
		for h.row(path).Status != store.Blocked {
			w.gives(t, path)
			time.Sleep(5 * time.Minute)
		}
		if root := h.row(task); root.Status != store.Running {
			t.Fatalf("the task is %s", root.Status)
		}
		h.request(task, Resume{})
		w.looks(t, task)
		if row := h.row(path); row.Status != store.Running || row.Reason != nil {
			t.Errorf("the part is %s, %+v", row.Status, row.Reason)
		}
	})
}
