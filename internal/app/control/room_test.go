package control

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/engine/dispatch"
	"github.com/plait-run/plait/internal/engine/dispatch/local"
	"github.com/plait-run/plait/internal/flow/parse"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/testing/housetest"
)

// A holding store counts the leases of threads that are held.
type holding struct {
	store.Store
	now, most atomic.Int64
}

func (s *holding) Acquire(ctx context.Context, name string) (store.Lease, error) {
	l, err := s.Store.Acquire(ctx, name)
	if err != nil || !strings.HasPrefix(name, store.ThreadLease("")) {
		return l, err
	}
	n := s.now.Add(1)
	for most := s.most.Load(); n > most && !s.most.CompareAndSwap(most, n); most = s.most.Load() {
	}
	return &heldThread{Lease: l, of: s}, nil
}

type heldThread struct {
	store.Lease
	of   *holding
	once sync.Once
}

func (l *heldThread) Release() error {
	l.once.Do(func() { l.of.now.Add(-1) })
	return l.Lease.Release()
}

// serve starts workers that serve an engine, each with slots for that many agents.
func (h *house) serve(workers, agents int) (*local.Engine, []*Worker) {
	e := local.New(local.Config{Prefer: time.Millisecond}) // actions prefer their planner's host
	var all []*Worker
	var serving sync.WaitGroup
	ctx, stop := context.WithCancel(h.t.Context())
	h.t.Cleanup(func() {
		stop()
		serving.Wait()
	})
	for i := range workers {
		open := func(context.Context, store.Thread) (*Controller, error) { return h.controller(), nil }
		w := NewWorker(WorkerConfig{Store: h.store, Name: fmt.Sprint("w", i), Open: open})
		all = append(all, w)
		serving.Go(func() {
			if err := w.Serve(ctx, e, dispatch.Host{ID: w.cfg.Name, Slots: dispatch.NewSlots(agents, nil)}); err != nil {
				h.t.Error(err)
			}
		})
	}
	relay := dispatch.Relay{Store: h.store, Types: Moving(), Mine: Team, Poke: e.Poke, Log: slog.New(slog.DiscardHandler)}
	serving.Go(func() { relay.Run(ctx) })
	return e, all
}

// completes waits until a team has completed a task, and drawn its directory.
func (h *house) completes(id string) {
	h.t.Helper()
	for !h.row(id).Ended() {
		time.Sleep(time.Millisecond)
	}
	wantStatus(h.t, h.row(id), store.Completed, "")
	for held := true; held; time.Sleep(time.Millisecond) {
		var err error
		if _, held, err = h.store.Holder(h.t.Context(), id); err != nil {
			h.t.Fatal(err)
		}
	}
}

// TestRoom: three workers hold no more threads than they have slots, and a plan of 64 actions leaves room for another
// task: it begins before each slot has had another agent of the plan.
func TestRoom(t *testing.T) {
	const (
		many   = 64
		agents = 2 // of each worker
		slots  = 3 * agents
	)
	planned := fmt.Sprintf(`
version: 1
name: many
limits: {maxConcurrent: %d, maxActions: %d}
roles: {boss: {plan: true, description: plans}}
graph:
  $START: {new: {role: boss, prompt: "{{ prompt }}"}}
  boss: {finished: {role: $END, prompt: "{{ summary }}"}}
`, many, many)
	begun, hold := make(chan string, many+1), make(chan struct{})
	works := func(answer string) scripted {
		return func(ctx context.Context, req agent.Request, _ func(agent.Event) error) (agent.Result, error) {
			begun <- req.Role
			<-hold
			return agent.Result{Output: []byte(answer), Sandbox: "none"}, nil
		}
	}
	var list []string
	h := newHouse(t, map[string]scripted{"other": works(status("done"))})
	for i := range many {
		id := fmt.Sprintf("a%d", i)
		list = append(list, act(id, ""))
		h.agents[id] = works(`{"status": "success", "summary": "so"}`)
	}
	h.agents["boss"] = plans(actions("", list...), finish)
	h.options.On = OnTeam
	leases := &holding{Store: h.store}
	h.store = leases
	e, workers := h.serve(3, agents)
	release := sync.OnceFunc(func() { close(hold) })
	t.Cleanup(release)
	looks := func() (n int64) {
		for _, w := range workers {
			n += w.Counts().Reconciles
		}
		return n
	}
	actionFlow, _ := parse.LoadBuiltIn("orchestrate")
	begin := func(id, yaml string) {
		t.Helper()
		found, err := Pack(housetest.Flow(t, yaml), actionFlow...)
		if err != nil {
			t.Fatal(err)
		}
		row, err := h.controller().Begin(t.Context(), Spec{Bundle: found.Bundle, Prompt: "do it", Workspace: h.dir, ID: id,
			Options: h.options})
		if err == nil {
			err = e.Poke(t.Context(), row.ID)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	const other = "01JD0000000000000000000001"
	begin(rootID, planned)
	for range slots {
		<-begun
	}
	seen := looks()
	begin(other, strings.ReplaceAll(one("read", ""), "work", "other"))
	for looks() == seen {
		time.Sleep(time.Millisecond)
	}
	for n := 0; ; n++ {
		hold <- struct{}{}
		if <-begun == "other" {
			break
		}
		if n == slots {
			t.Fatalf("%d agents of the plan have begun since, and the other task waits", n)
		}
	}
	release()
	h.completes(rootID)
	h.completes(other)
	if n := leases.most.Load(); n != slots {
		t.Errorf("%d threads were held at a time, in %d slots", n, slots)
	}
}

// TestRoomWhileAPersonIsAsked: an agent that waits for a person leaves the worker's only slot, and its task's, to
// others.
func TestRoomWhileAPersonIsAsked(t *testing.T) {
	agents := surveyAgents()
	var inside atomic.Int32
	asked := make(chan struct{}, 3)
	for _, role := range []string{"api", "db", "ui"} {
		works := agents[role]
		agents[role] = func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
			asked <- struct{}{}
			ans, err := req.Ask(ctx, agent.Question{Text: "may I", Action: agent.Action{Type: "command", Command: "make"}})
			if err != nil || !ans.Approved {
				t.Errorf("%s was told %+v: %v", req.Role, ans, err)
			}
			if inside.Add(1) > 1 {
				t.Errorf("%s is at work beside another", req.Role)
			}
			defer inside.Add(-1)
			time.Sleep(time.Millisecond) // so that another would be seen
			return works(ctx, req, emit)
		}
	}
	h := newHouse(t, agents)
	h.options.On = OnTeam
	h.serve(1, 1)
	row := h.begin(h.controller(), limited(survey, "maxConcurrent: 1"))
	for range 3 {
		<-asked
	}
	var open []store.Gate
	for len(open) < 3 {
		var err error
		if open, err = h.store.Gates(t.Context(), store.GateFilter{Task: row.Task, State: store.GateOpen}); err != nil {
			t.Fatal(err)
		}
	}
	for _, g := range open {
		h.answer(g.ID, true)
	}
	h.completes(row.ID)
}
