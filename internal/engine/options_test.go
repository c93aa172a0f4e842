package engine

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/testing/housetest"
	"github.com/plait-run/plait/internal/testing/mem"
)

// Options that a task is given while an agent works apply after its step.
func TestOptionsWhileAnAgentWorks(t *testing.T) {
	var give func() error
	s, engine, row := setUp(t, "read", func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
		if err := give(); err != nil {
			return agent.Result{}, err
		}
		return finish(ctx, req, emit)
	})
	give = func() error {
		now, err := s.Thread(t.Context(), row.ID)
		if err != nil {
			return err
		}
		more := record.Options{Limits: flow.Limits{MaxTokens: 1000}}
		return engine().setOptions(t.Context(), []store.Thread{now}, more, flow.Limits{}, "ann")
	}
	after, err := engine().Step(t.Context(), row.ID, row.Head)
	if err != nil || after.Head == row.Head {
		t.Fatalf("%+v, %v", after, err)
	}
	now, err := s.Thread(t.Context(), row.ID)
	if err != nil {
		t.Fatal(err)
	}
	if opts, err := record.OptionsOf(now); err != nil || opts.Limits.MaxTokens != 1000 {
		t.Errorf("the task's options are %+v, %v", opts, err)
	}
}

// runHeld runs a task whose agents report their thread on begun, and work until goOn is closed. ended receives the row of
// the task, once.
func runHeld(t *testing.T, text string) (s Store, row store.Thread, begun chan string, goOn chan bool, ended chan store.Thread) {
	t.Helper()
	begun, goOn, ended = make(chan string, 2), make(chan bool), make(chan store.Thread, 1)
	s, engine, row := setUpFlow(t, text, func(ctx context.Context, req agent.Request,
		emit func(agent.Event) error) (agent.Result, error) {
		begun <- req.Thread
		<-goOn
		return finish(ctx, req, emit)
	})
	go func() {
		now, err := engine().Run(t.Context(), row.ID)
		if err != nil {
			t.Error(err)
		}
		ended <- now
	}()
	return s, row, begun, goOn, ended
}

// Options that a task is given while an agent waits for its turn apply to it.
func TestOptionsWhileAnAgentWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		text := strings.Replace(race, "name: test\n", "name: test\nlimits: {maxConcurrent: 1}\n", 1)
		s, row, begun, goOn, ended := runHeld(t, text)
		first := <-begun
		synctest.Wait() // the other waits
		request(t, s, row, Resumption{Options: record.Options{Limits: flow.Limits{MaxTokens: 1000}}})
		synctest.Wait()
		close(goOn)
		<-ended
		rows, err := s.Threads(t.Context(), store.ThreadFilter{Task: row.ID})
		if err != nil || len(rows) != 3 {
			t.Fatalf("%+v, %v", rows, err)
		}
		for _, r := range rows {
			if o, err := record.OptionsOf(r); err != nil || o.Limits.MaxTokens != 1000 {
				t.Errorf("thread %s (first: %v) has the options %s, %v", r.ID, r.ID == first, r.Options, err)
			}
		}
	})
}

// Limits that a task is given while it runs hold for what follows.
func TestLimitsWhileATaskRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, row, begun, goOn, ended := runHeld(t, housetest.TwoSteps("read"))
		<-begun
		request(t, s, row, Resumption{Options: record.Options{Limits: flow.Limits{MaxAttempts: 1}}})
		synctest.Wait()
		close(goOn)
		if now := <-ended; now.Reason == nil || now.Reason.Limit != "attempts" || now.Steps != 1 {
			t.Errorf("%+v, reason %+v", now, now.Reason)
		}
	})
}

// An agent that waits for its turn begins when a person allows more at once.
func TestMoreAgentsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		text := strings.Replace(race, "name: test\n", "name: test\nlimits: {maxConcurrent: 1}\n", 1)
		s, row, begun, goOn, ended := runHeld(t, text)
		<-begun
		synctest.Wait()
		if len(begun) > 0 {
			t.Error("two began at once")
		}
		request(t, s, row, Resumption{Options: record.Options{Limits: flow.Limits{MaxConcurrent: 2}}})
		synctest.Wait()
		if len(begun) != 1 {
			t.Error("the other still waits")
		}
		close(goOn)
		<-ended
	})
}

// Options that a task is given while its conversation is summarized are kept.
func TestOptionsDuringASummary(t *testing.T) {
	give := func() error { return nil }
	s, engine, row := setUp(t, "read", func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
		if err := give(); err != nil {
			return agent.Result{}, err
		}
		return finish(ctx, req, emit)
	})
	if _, err := engine().Step(t.Context(), row.ID, row.Head); err != nil {
		t.Fatal(err)
	}
	give = func() error {
		now, err := s.Thread(t.Context(), row.ID)
		if err != nil {
			return err
		}
		more := record.Options{Limits: flow.Limits{MaxTokens: 1000}}
		return engine().setOptions(t.Context(), []store.Thread{now}, more, flow.Limits{}, "ann")
	}
	after, err := engine().Compact(t.Context(), Compaction{Thread: row.ID})
	if err != nil || after.Steps != 2 {
		t.Fatalf("%+v, %v", after, err)
	}
	now, err := s.Thread(t.Context(), row.ID)
	if err != nil {
		t.Fatal(err)
	}
	if opts, err := record.OptionsOf(now); err != nil || opts.Limits.MaxTokens != 1000 {
		t.Errorf("the task's options are %s, %v", now.Options, err)
	}
}

// A giving store calls a function before one of its commits.
type giving struct {
	*mem.Store
	before *atomic.Int64 // how many commits come first
	give   func()
}

func (s giving) Commit(ctx context.Context, b store.Batch) error {
	if s.before.Add(-1) == 0 {
		s.give()
	}
	return s.Store.Commit(ctx, b)
}

// Options that another process gives a task are kept, whatever its driver commits next.
func TestOptionsAreNeverOverwritten(t *testing.T) {
	for n := int64(1); ; n++ {
		s, engine, row := setUpFlow(t, race, finish)
		ctx, cfg := t.Context(), engine().cfg
		var before atomic.Int64
		before.Store(n)
		given := map[string]bool{}
		cfg.Store = giving{s, &before, func() {
			var rows []store.Thread
			err := store.ErrConflict
			for errors.Is(err, store.ErrConflict) { // another path has moved on in the meantime
				if rows, err = s.Threads(ctx, store.ThreadFilter{Task: row.Task}); err == nil {
					more := record.Options{Limits: flow.Limits{MaxTokens: 1000}}
					err = engine().setOptions(ctx, rows, more, flow.Limits{}, "ann")
				}
			}
			if err != nil {
				t.Error(err)
			}
			for _, r := range rows {
				given[r.ID] = !r.Ended()
			}
		}}
		if end, err := New(cfg).Run(ctx, row.ID); err != nil || end.Status != store.Completed {
			t.Fatalf("commit %d: %s, %v", n, end.Status, err)
		}
		if before.Load() > 0 {
			if n < 8 {
				t.Errorf("the task took %d commits", n-1)
			}
			return
		}
		rows, err := s.Threads(ctx, store.ThreadFilter{Task: row.Task})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rows {
			had, was := given[r.ID]
			o, err := record.OptionsOf(r)
			if kept := o.Limits.MaxTokens == 1000; err != nil || kept != (had || !was) || r.Intent != "" {
				t.Errorf("given before commit %d: thread %s (%s) has %s, is asked %q, %v", n, r.ID, r.Kind, r.Options, r.Intent,
					err)
			}
		}
	}
}
