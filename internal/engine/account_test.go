package engine

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/engine/attempt"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// spender is an agent whose attempts each use 10 tokens and a micro-dollar.
type spender struct{ runs *atomic.Int64 }

func (s spender) Run(context.Context, agent.Request, func(agent.Event) error) (agent.Result, error) {
	s.runs.Add(1)
	time.Sleep(time.Millisecond) // so that others begin meanwhile
	return agent.Result{Output: []byte("---\n$status: done\n---\nso"), Sandbox: "none",
		Usage: agent.Usage{InputTokens: 7, OutputTokens: 3, CostMicroUSD: 1}}, nil
}

// limited returns a town whose task has a limit, and its workers.
func limited(t *testing.T, limit string, workers int) (w *town, engines []*Engine) {
	t.Helper()
	w = townWith(t, "limits: {"+limit+"}\n", nil)
	for range workers {
		engines = append(engines, New(shared(w.store.Share(), spender{&w.runs})))
	}
	return w, engines
}

// rest has workers drive the task until nothing may be driven.
func (w *town) rest(engines []*Engine) {
	w.t.Helper()
	var all sync.WaitGroup
	for _, e := range engines {
		all.Go(func() {
			for w.t.Context().Err() == nil {
				agenda, err := e.Reconcile(w.t.Context(), w.row.ID)
				if err == nil && len(agenda.Drive) == 0 {
					rows, err := w.store.Task(w.t.Context(), w.row.ID)
					if err == nil && len(rows.Running) == 0 {
						return
					}
				}
				var going sync.WaitGroup
				for _, id := range agenda.Drive {
					going.Go(func() { e.Drive(w.t.Context(), id) })
				}
				going.Wait()
			}
		})
	}
	all.Wait()
}

// A task's limit on attempts holds exactly, and those on tokens and cost hold for what begins after they are reached,
// however many workers drive it, each of which has looked before the others began.
func TestLimitsOfSharedTask(t *testing.T) {
	for limit, most := range map[string]int64{"maxAttempts: 3": 3, "maxTokens: 10": 1, "maxCostMicroUSD: 1": 1} {
		for i := range 10 {
			t.Run(fmt.Sprint(limit, "/", i), func(t *testing.T) {
				w, engines := limited(t, limit, 4)
				w.rest(engines)
				if n := w.runs.Load(); n != most {
					t.Errorf("agents ran %d times, want %d", n, most)
				}
				rows, err := w.store.Threads(t.Context(), store.ThreadFilter{Task: w.row.ID})
				if err != nil {
					t.Fatal(err)
				}
				blocked := 0
				for _, row := range rows {
					if row.Status == store.Blocked && row.Reason.Kind == store.ReasonLimit {
						blocked++
					}
				}
				if blocked == 0 {
					t.Errorf("nothing is blocked by the limit: %+v", rows)
				}
			})
		}
	}
}

// The usage that a join and a call report for what is below them includes that of other workers.
func TestUsageOfSharedTask(t *testing.T) {
	w, engines := limited(t, "maxDepth: 9", 2)
	turn := 0
	for {
		agenda, err := engines[turn%2].Reconcile(t.Context(), w.row.ID)
		if err != nil {
			t.Fatal(err)
		}
		if len(agenda.Drive) == 0 {
			break
		}
		turn++ // the workers take turns
		if _, err := engines[turn%2].Drive(t.Context(), agenda.Drive[turn%len(agenda.Drive)]); err != nil {
			t.Fatal(err)
		}
	}
	r := thread.NewReader(w.store)
	row, err := w.store.Thread(t.Context(), w.row.ID)
	if err != nil || row.Status != store.Completed {
		t.Fatalf("the task is %s: %+v, %v", row.Status, row.Reason, err)
	}
	var sum store.Usage
	for s, err := range r.Walk(t.Context(), row.Head) {
		if err != nil {
			t.Fatal(err)
		}
		d, err := r.Detail(t.Context(), s.State.Detail)
		if err != nil {
			t.Fatal(err)
		}
		if d != nil {
			sum = sum.Add(d.Usage)
		}
	}
	used, err := w.store.Used(t.Context(), w.row.ID)
	if err != nil {
		t.Fatal(err)
	}
	if want := int64(10 * len(used)); sum.Tokens() != want {
		t.Errorf("the steps say that %d tokens were used, %d attempts used %d", sum.Tokens(), len(used), want)
	}
}

// Concurrent requests of two workers cannot each exceed a limit: one waits for what the other has reserved. What a
// dead worker's attempt had spent stays spent.
func TestPursesOfSharedTask(t *testing.T) {
	w, engines := limited(t, "maxTokens: 100", 2)
	ctx := t.Context()
	row, err := w.store.Thread(ctx, w.row.ID)
	if err != nil {
		t.Fatal(err)
	}
	var purses []attempt.Purse
	for i, e := range engines {
		id := fmt.Sprintf("%s.%d", row.ID, i+1)
		err := w.store.Forge(ctx, store.Batch{Attempts: []store.AttemptChange{{Row: store.Attempt{
			ID: id, Thread: row.ID, From: row.Head, N: i + 1, Role: "plan", Status: store.AttemptRunning, StartedAt: int64(i + 1), Prompt: row.Head,
		}}}})
		if err != nil {
			t.Fatal(err)
		}
		c, _, err := e.load(ctx, row.ID, row.Head)
		if err == nil {
			err = e.readAccount(ctx, c)
		}
		if err != nil {
			t.Fatal(err)
		}
		purses = append(purses, c.Purse(id))
	}
	tokens := func(n int64) store.Usage { return store.Usage{InputTokens: n} }
	if why, err := purses[0].Reserve(ctx, tokens(80)); why != nil || err != nil {
		t.Fatal(why, err)
	}
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	if why, err := purses[1].Reserve(short, tokens(30)); err == nil {
		t.Fatalf("80 of 100 tokens are set aside, and another worker has 30 too: %v", why)
	}
	purses[0].Spend(tokens(80), tokens(60))
	if why, err := purses[1].Reserve(ctx, tokens(30)); why != nil || err != nil {
		t.Fatal(why, err)
	}
	purses[1].Spend(tokens(30), tokens(45))
	for _, p := range purses {
		if why, err := p.Reserve(ctx, tokens(1)); err != nil || why == nil || !strings.Contains(why.Message, "105 of 100 tokens") {
			t.Errorf("105 of 100 tokens are spent: %+v, %v", why, err)
		}
	}
	attempts, err := w.store.Attempts(ctx, store.AttemptFilter{Task: row.ID})
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range attempts { // both workers die
		a.Status, a.EndedAt = store.AttemptInterrupted, 9
		b := store.Batch{Attempts: []store.AttemptChange{{Row: a, From: store.AttemptRunning}}}
		if err := w.store.Forge(ctx, b); err != nil {
			t.Fatal(err)
		}
	}
	a, err := engines[0].account(ctx, row)
	if err != nil {
		t.Fatal(err)
	}
	if why := a.exhausted(10); why == nil || why.Limit != "tokens" {
		t.Errorf("what a dead worker spent is forgotten: %+v", why)
	}
}

// TestWaitingIsNotWork checks that time in which an agent waits for a person counts for nobody, while it waits too.
func TestWaitingIsNotWork(t *testing.T) {
	a := &account{}
	a.count(store.Use{Attempt: "one", StartedAt: 1000}, [][2]int64{{2000, 5000}, {6000, math.MaxInt64}})
	if got := a.time(9000); got != 2*time.Second {
		t.Errorf("it worked for %v, want 2s", got)
	}
	a.count(store.Use{Attempt: "two", StartedAt: 4000}, [][2]int64{{4500, 7000}})
	if got := a.time(9000); got != 4500*time.Millisecond { // 1 to 2, 4 to 4.5, 5 to 6, since 7
		t.Errorf("both worked for %v, want 4.5s", got)
	}
}
