package main

import (
	"context"
	"time"

	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/engine/dispatch"
	"github.com/plait-run/plait/internal/engine/dispatch/local"
	"github.com/plait-run/plait/internal/flow/parse"
	"github.com/plait-run/plait/internal/record/store"
)

// A driver drives tasks that began with the option On set to on.
type driver struct {
	on    string
	drive func(ctx context.Context, s store.Store, c *control.Controller, task string) (store.Thread, error)
}

// embedded is the engine's own loop, under the task's lease.
var embedded = driver{drive: inLoop}

func inLoop(ctx context.Context, _ store.Store, c *control.Controller, task string) (store.Thread, error) {
	return c.Drive(ctx, task, control.Resume{})
}

// worker is a worker on a queue in the same process, with a lease for each thread.
var worker = driver{on: control.OnTeam, drive: onQueue}

func onQueue(ctx context.Context, s store.Store, c *control.Controller, task string) (store.Thread, error) {
	w := control.NewWorker(control.WorkerConfig{
		Store: s, Open: func(context.Context, store.Thread) (*control.Controller, error) { return c, nil },
	})
	serving, stop := context.WithCancel(ctx)
	defer stop()
	queue := local.New(local.Config{})
	if err := queue.Poke(ctx, task); err != nil {
		return store.Thread{}, err
	}
	if err := queue.Serve(serving, dispatch.Host{ID: "bench"}, untilEnd{w, stop}); err != nil {
		return store.Thread{}, err
	}
	return s.Thread(ctx, task)
}

// untilEnd is a worker that stops once its task has ended.
type untilEnd struct {
	*control.Worker
	stop func()
}

func (u untilEnd) Reconcile(ctx context.Context, task string) (dispatch.Agenda, error) {
	a, err := u.Worker.Reconcile(ctx, task)
	if a.Ended {
		u.stop()
	}
	return a, err
}

// loops compares a worker on a queue with the engine's own loop.
func (b *bench) loops(ctx context.Context) error {
	flows, _ := parse.LoadBuiltIn("orchestrate")
	plan := func(actions int) func(driver) (time.Duration, time.Duration, error) {
		return func(by driver) (time.Duration, time.Duration, error) {
			return b.driven(ctx, by, flows, planner(actions))
		}
	}
	steps := func(n int) func(driver) (time.Duration, time.Duration, error) {
		return func(by driver) (time.Duration, time.Duration, error) { return b.loop(ctx, by, n) }
	}
	for _, of := range []struct {
		what string
		run  func(driver) (took, cpu time.Duration, err error)
	}{
		{"a task of one step", steps(1)}, {"64 steps of one thread", steps(64)},
		{"a plan of 8 actions", plan(8)}, {"a plan of 32 actions", plan(32)}, {"a plan of 128 actions", plan(128)},
	} {
		var took, used [2][]float64
		for range b.rounds {
			for i, by := range []driver{embedded, worker} {
				one, cpu, err := of.run(by)
				if err != nil {
					return err
				}
				took[i], used[i] = append(took[i], one.Seconds()*1000), append(used[i], cpu.Seconds()*1000)
			}
		}
		loop, queue := median(took[0]), median(took[1])
		loopCPU, queueCPU := median(used[0]), median(used[1])
		row(of.what+", by a worker on a queue, relative to the engine's own loop", goal{},
			"**%.2f** in time (%.1f ms to %.1f), **%.2f** in CPU (%.1f ms to %.1f)",
			queue/loop, queue, loop, queueCPU/loopCPU, queueCPU, loopCPU)
	}
	return nil
}
