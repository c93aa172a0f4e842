package control

import (
	"context"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/engine"
	"github.com/plait-run/plait/internal/engine/dispatch"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/testing/mem"
)

// A thread waits for the worker that has its files only while that worker serves.
func TestNothingWaitsForAWorkerThatIsGone(t *testing.T) {
	s := mem.New(mem.Config{Proven: true})
	defer s.Close()
	w := NewWorker(WorkerConfig{Store: s})
	prefers := func() string {
		t.Helper()
		ready, err := w.ready(t.Context(), store.Thread{ID: "root"}, engine.Agenda{Drive: []string{"x", "y"},
			Hosts: []string{"a", ""}, Avoid: make([][]string, 2)})
		if err != nil || len(ready) != 2 || ready[1].Host != "" {
			t.Fatalf("%v, %v", ready, err)
		}
		return ready[0].Host
	}
	if host := prefers(); host != "" {
		t.Errorf("the thread prefers %q before that serves", host)
	}
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { w.hold(ctx, store.WorkerLease("a")); close(ended) }()
	for prefers() != "a" { // until it serves
		time.Sleep(time.Millisecond)
	}
	end()
	<-ended
	if host := prefers(); host != "" {
		t.Errorf("the thread prefers %q when that is gone", host)
	}
}

const race = `
version: 1
name: race
roles: {begin: {description: d}, quick: {description: d}, endless: {description: d}}
forks: {both: {forkPaths: [{pathId: q, childNodeId: quick}, {pathId: e, childNodeId: endless}]}}
joins: {met: {forkPathIds: [q, e], joinStrategy: ANY_COMPLETED}}
graph:
  $START: {new: {role: begin, prompt: "{{ prompt }}"}}
  begin: {done: {role: both}}
  quick: {done: {role: met}}
  endless: {done: {role: met}}
  met: {joined: {role: $END}}
`

// A worker stops what it drives once that is not wanted any more, even if another worker decided so and no news of it
// arrived here.
func TestLooksAfterWhatItDrives(t *testing.T) {
	atWork := make(chan struct{})
	h := newHouse(t, map[string]scripted{
		"begin": say(status("done")), "quick": say(status("done")),
		"endless": func(ctx context.Context, _ agent.Request, _ func(agent.Event) error) (agent.Result, error) {
			close(atWork)
			<-ctx.Done()
			return agent.Result{}, &agent.Failure{Kind: agent.Cancelled, Message: "stopped"}
		},
	})
	h.options.On = OnTeam
	worker := func(look time.Duration) *Worker {
		return NewWorker(WorkerConfig{Store: h.store, RecheckEvery: look, Open: func(context.Context, store.Thread) (*Controller, error) {
			return h.controller(), nil
		}})
	}
	decides, drives := worker(time.Hour), worker(10*time.Millisecond)
	root := h.begin(h.controller(), race)
	if _, err := h.store.Acquire(t.Context(), root.ID); err != nil { // the holder draws the task's directory
		t.Fatal(err)
	}
	look := func() (ids []string) {
		t.Helper()
		a, err := decides.Reconcile(t.Context(), root.ID)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range a.Drive {
			ids = append(ids, r.Thread)
		}
		return ids
	}
	drive := func(w *Worker, id string) {
		t.Helper()
		if err := w.Drive(t.Context(), id, new(dispatch.Slot)); err != nil {
			t.Error(err)
		}
	}
	drive(decides, look()[0])
	var quick, endless string
	for _, id := range look() {
		row, err := h.store.Thread(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if row.Path.ID == "q" {
			quick = id
		} else {
			endless = id
		}
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		drive(drives, endless)
	}()
	<-atWork
	drive(decides, quick)
	look() // it decides the join
	select {
	case <-stopped:
	case <-time.After(time.Minute):
		t.Fatal("it goes on for nobody")
	}
	drive(decides, look()[0])
	row, err := h.store.Thread(t.Context(), root.ID)
	if err != nil || row.Status != store.Completed {
		t.Errorf("the task is %s, %v", row.Status, err)
	}
}

// People hear of what follows from the last drive of a task, such as a join that cannot be met.
func TestAttendsToTheEnd(t *testing.T) {
	h := newHouse(t, map[string]scripted{
		"begin": say(status("done")), "quick": brokenAgent, "endless": brokenAgent,
	})
	h.options.On = OnTeam
	root := h.begin(h.controller(), race)
	heard := make(chan store.Status, 10)
	w := NewWorker(WorkerConfig{Store: h.store, RecheckEvery: time.Hour, Open: func(context.Context, store.Thread) (*Controller, error) {
		c := h.controller()
		c.cfg.Watch = func(context.Context, store.Thread) func() {
			return func() {
				row, err := h.store.Thread(context.Background(), root.ID)
				if err != nil {
					t.Error(err)
				}
				heard <- row.Status
			}
		}
		return c, nil
	}})
	for status := store.Running; status == store.Running; {
		a, err := w.Reconcile(t.Context(), root.ID)
		if err != nil || len(a.Drive) == 0 {
			t.Fatalf("nothing to drive: %v", err)
		}
		if err := w.Drive(t.Context(), a.Drive[0].Thread, new(dispatch.Slot)); err != nil {
			t.Fatal(err)
		}
		status = <-heard
		for held := true; held; time.Sleep(time.Millisecond) { // until the drive is no longer attended to
			if _, held, err = h.store.Holder(t.Context(), root.ID); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func brokenAgent(context.Context, agent.Request, func(agent.Event) error) (agent.Result, error) {
	return agent.Result{}, &agent.Failure{Kind: agent.Infra, Message: "broken", Final: true}
}
