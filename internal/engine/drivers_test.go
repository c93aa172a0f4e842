package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/testing/housetest"
	"github.com/plait-run/plait/internal/testing/mem"
	"github.com/plait-run/plait/internal/testing/storetest"
)

const tree = `
version: 1
name: tree
roles:
  plan: {description: d}
  left: {description: d}
  middle: {flow: sub}
  right: {description: d}
  inner-a: {description: d}
  inner-b: {description: d}
  report: {description: d}
forks:
  both:
    forkPaths:
      - {pathId: a, childNodeId: left}
      - {pathId: b, childNodeId: middle}
      - {pathId: c, childNodeId: right}
  inside:
    forkPaths:
      - {pathId: x, childNodeId: inner-a}
      - {pathId: y, childNodeId: inner-b}
joins:
  seen: {forkPathIds: [a, b, c], mainPathId: a}
  met: {forkPathIds: [x, y]}
graph:
  $START: {new: {role: plan, prompt: "{{ prompt }}"}}
  plan: {done: {role: both}}
  left: {done: {role: inside}}
  inner-a: {done: {role: met}}
  inner-b: {done: {role: met}}
  met: {joined: {role: seen}}
  middle: {done: {role: seen}}
  right: {done: {role: seen}, again: {role: right, prompt: "again"}}
  seen: {joined: {role: report, prompt: "on"}}
  report: {done: {role: $END}}
`

const sub = `
version: 1
name: sub
roles: {dig: {description: d}, wash: {description: d}}
graph:
  $START: {new: {role: dig, prompt: "{{ prompt }}"}}
  dig: {done: {role: wash, prompt: "on"}}
  wash: {done: {role: $END, prompt: "clean"}}
`

// said is an agent whose answers depend on the role and the visit alone.
type said struct{ runs *atomic.Int64 }

func (s said) Run(ctx context.Context, req agent.Request, _ func(agent.Event) error) (agent.Result, error) {
	s.runs.Add(1)
	status := "done"
	if req.Role == "right" && req.Visit < 2 {
		status = "again"
	}
	select {
	case <-time.After(time.Duration(rand.IntN(2000)) * time.Microsecond):
	case <-ctx.Done():
		return agent.Result{}, &agent.Failure{Kind: agent.Cancelled, Message: "stopped"}
	}
	text := fmt.Sprintf("---\n$status: %s\n---\nVisit %d of %s.", status, req.Visit, req.Role)
	return agent.Result{Output: []byte(text), Sandbox: "none"}, nil
}

// A town has a task in a store, and processes that drive it.
type town struct {
	t     *testing.T
	store *mem.Store
	row   store.Thread
	runs  atomic.Int64

	mu  sync.Mutex
	log storetest.Witness
}

func newTown(t *testing.T, fault mem.Fault) *town {
	t.Helper()
	return townWith(t, "", fault)
}

// townWith returns a town whose flow begins with additional lines.
func townWith(t *testing.T, lines string, fault mem.Fault) *town {
	t.Helper()
	s := mem.New(mem.Config{Proven: true})
	text := strings.Replace(tree, "name: tree\n", "name: tree\n"+lines, 1)
	row := housetest.Begin(t.Context(), t, s,
		store.Thread{ID: "01JD0000000000000000000000", CreatedAt: 1, Workspace: t.TempDir()},
		housetest.Bundle(t, text, sub), "go")
	return &town{t: t, store: s.With(fault), row: row}
}

// shared returns the configuration of an engine whose threads others drive too.
func shared(s Store, a agent.Agent) Config {
	return Config{Store: s, Reader: thread.NewReader(s), Desks: housetest.BareDesks{}, Agents: doing(a), Claim: ThreadClaim{s},
		Backoff: time.Microsecond}
}

// engine returns a process's engine, whose clock is off by offset.
func (w *town) engine(s *mem.Store, offset time.Duration) *Engine {
	cfg := shared(s, said{&w.runs})
	cfg.Now = func() time.Time { return time.Now().Add(offset) }
	return New(cfg)
}

// drive does what one process does until the task has ended: look what may be driven, and drive it. If
// a store operation fails the process ends, and another replaces it.
func (w *town) drive(ctx context.Context, offset time.Duration) {
	for ctx.Err() == nil {
		s := w.store.Share()
		err := w.process(ctx, w.engine(s, offset))
		s.Kill()
		w.mu.Lock()
		if err := w.log.Glance(context.Background(), w.store.With(nil)); err != nil {
			w.t.Error(err)
		}
		w.mu.Unlock()
		if err == nil {
			return
		}
	}
}

func (w *town) process(ctx context.Context, e *Engine) error {
	for ctx.Err() == nil {
		agenda, err := e.Reconcile(ctx, w.row.ID)
		if err != nil {
			return err
		}
		rand.Shuffle(len(agenda.Drive), func(i, j int) {
			agenda.Drive[i], agenda.Drive[j] = agenda.Drive[j],
				agenda.Drive[i]
		})
		for _, id := range agenda.Drive {
			if _, err := e.Drive(ctx, id); err != nil {
				return err
			}
		}
		row, err := e.cfg.Store.Thread(ctx, w.row.ID)
		if err != nil {
			return err
		}
		if row.Ended() {
			return nil
		}
		if len(agenda.Drive) == 0 {
			time.Sleep(100 * time.Microsecond)
		}
	}
	return nil
}

// digest drives the task with that many processes, and returns the outcome.
func (w *town) digest(processes int) dag.Hash {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 5*time.Minute) // only what hangs takes that long
	defer cancel()
	var wg sync.WaitGroup
	for i := range processes {
		offset := time.Duration(i-1) * 36 * time.Hour // clocks that disagree
		wg.Go(func() { w.drive(ctx, offset) })
	}
	wg.Wait()
	s := w.store.With(nil)
	row, err := s.Thread(w.t.Context(), w.row.ID)
	if err != nil {
		w.t.Fatal(err)
	}
	if row.Status != store.Completed {
		rows, _ := s.Threads(w.t.Context(), store.ThreadFilter{Task: w.row.ID})
		for _, t := range rows {
			w.t.Logf("%s %s %s steps %d in flight %q decision %s parent %+v path %+v", t.ID, t.Kind, t.Status, t.Steps,
				t.InFlight, t.Decision, t.Parent, t.Path)
		}
		agenda, err := w.engine(s, 0).Reconcile(w.t.Context(), w.row.ID)
		w.t.Fatalf("the task is %s: %+v; to do: %+v, %v", row.Status, row.Reason, agenda, err)
	}
	digest, err := thread.NewReader(s).Digest(w.t.Context(), row.Head)
	if err != nil {
		w.t.Fatal(err)
	}
	attempts, err := s.Attempts(w.t.Context(), store.AttemptFilter{Task: w.row.ID})
	if err != nil {
		w.t.Fatal(err)
	}
	made := map[string]int{} // steps by thread and the head that they follow
	for _, a := range attempts {
		if a.Status == store.AttemptRunning {
			w.t.Errorf("attempt %s runs for ever", a.ID)
		}
		if a.Status == store.AttemptDone {
			if made[a.Thread+a.From.String()]++; made[a.Thread+a.From.String()] > 1 {
				w.t.Errorf("thread %s has two steps after %s", a.Thread, a.From.Short())
			}
		}
	}
	return digest
}

// However many processes drive a task, whatever their clocks say, and whichever of them die or are
// told that a write failed, kept or not: the outcome is the same.
func TestDrivers(t *testing.T) {
	want := newTown(t, nil).digest(1)
	times := 40
	if testing.Short() {
		times = 5
	}
	for i := range times {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			var ops atomic.Int64
			every := int64(300 + rand.IntN(700)) // so that a process makes progress
			when := mem.When(rand.IntN(2))
			fault := func(op mem.Op, w mem.When) error {
				if w == when && ops.Add(1)%every == 0 {
					return errors.New("the disk is on fire")
				}
				return nil
			}
			if i%4 == 0 {
				fault = nil
			}
			w := newTown(t, fault)
			if got := w.digest(1 + rand.IntN(4)); got != want {
				t.Errorf("the digest is %s, want %s", got.Short(), want.Short())
			}
			if err := w.log.See(t.Context(), w.store.With(nil)); err != nil {
				t.Error(err)
			}
			if fault == nil && w.runs.Load() != 10 {
				t.Errorf("agents ran %d times for 10 steps", w.runs.Load())
			}
		})
	}
}
