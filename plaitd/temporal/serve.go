package temporal

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/plait-run/plait/internal/engine/dispatch"
	"github.com/plait-run/plait/internal/record/store"
)

// Serve polls for what the host can do until ctx ends, and returns once all calls have ended. While Temporal is
// unavailable, or its namespace is missing, it retries.
func (e *Engine) Serve(ctx context.Context, host dispatch.Host, w dispatch.Work) error {
	s := &server{Engine: e, host: host, work: w, serving: ctx}
	var stopping sync.WaitGroup
	defer stopping.Wait()
	for n := 0; ctx.Err() == nil; n++ {
		failed := make(chan error, 1)
		workers, err := s.start(failed)
		if err == nil {
			n = 0
			select {
			case <-ctx.Done():
			case err = <-failed:
			}
		}
		for _, w := range workers {
			stopping.Go(w.Stop) // waits for calls in progress
		}
		if err != nil && ctx.Err() == nil {
			e.log.Warn("Temporal cannot be served; trying again", "error", err)
			select {
			case <-ctx.Done():
			case <-time.After(e.loop.pause(n)):
			}
		}
	}
	return nil
}

// A server is a host that is being served.
type server struct {
	*Engine
	host    dispatch.Host
	work    dispatch.Work
	serving context.Context // ends when no further call may start
}

// start starts a worker for each queue of the host. The caller must stop the returned workers, even after an error.
func (s *server) start(failed chan<- error) ([]worker.Worker, error) {
	options := worker.Options{
		WorkerStopTimeout: longest, DisableRegistrationAliasing: true, MaxHeartbeatThrottleInterval: s.loop.heartbeat / 3,
		Identity: s.host.ID, DeadlockDetectionTimeout: 10 * time.Second, // a busy host is not a deadlock
		OnFatalError: func(err error) {
			select {
			case failed <- err:
			default:
			}
		},
	}
	tasks := worker.New(s.client, s.loop.tasks(), options)
	s.Register(tasks)
	tasks.RegisterActivityWithOptions(s.reconcile, activity.RegisterOptions{Name: reconcileActivity})
	all := []worker.Worker{tasks}

	options.DisableWorkflowWorker = true
	options.MaxConcurrentActivityTaskPollers = 1 // of each queue: others would get what is declined for want of a slot
	tuner, err := polling{s.host.Slots}.tuner()
	if err != nil {
		return nil, fmt.Errorf("share slots: %w", err)
	}
	options.Tuner = tuner
	queues := []string{s.loop.any(), s.loop.host(s.host.ID)}
	for _, label := range s.host.Labels {
		queues = append(queues, s.loop.label(label))
	}
	for _, queue := range queues {
		w := worker.New(s.client, queue, options)
		w.RegisterActivityWithOptions(s.drive, activity.RegisterOptions{Name: driveActivity})
		all = append(all, w)
	}
	for i, w := range all {
		if err := w.Start(); err != nil {
			return all[:i], fmt.Errorf("start serving Temporal: %w", err)
		}
	}
	return all, nil
}

// Register registers the workflows, as Serve does, for callers that replay Temporal's histories.
func (e *Engine) Register(r worker.WorkflowRegistry) {
	r.RegisterWorkflowWithOptions(e.loop.taskLoop, workflow.RegisterOptions{Name: taskType})
	r.RegisterWorkflowWithOptions(e.loop.driveLoop, workflow.RegisterOptions{Name: driveType})
}

// What Temporal is told of errors: their texts may quote what is worked on, and stay in the worker's log.
var (
	errReconcile = temporal.NewApplicationError("the call failed; the worker's log says why", "Reconcile")
	errStopping  = temporal.NewApplicationError("the worker stops", "Stopping")
	errDrive     = temporal.NewApplicationError("the call failed; the worker's log says why", "Drive")
)

// reconcile is the activity that looks at a task.
func (s *server) reconcile(ctx context.Context, task string) (agenda, error) {
	if s.serving.Err() != nil {
		return agenda{}, errStopping
	}
	var a dispatch.Agenda
	err := s.call(ctx, func(ctx context.Context) (err error) {
		a, err = s.work.Reconcile(ctx, task)
		return err
	})
	if err != nil {
		s.log.Warn("reconcile", "task", task, "error", err)
		return agenda{}, errReconcile
	}
	out := agenda{Ended: a.Ended, Drive: a.Drive, Look: !a.At.IsZero()}
	if out.Look {
		out.After = max(time.Until(a.At), 0)
	}
	return out, nil
}

// drive is the activity that drives a thread, if the host can.
func (s *server) drive(ctx context.Context, d drive) (string, error) {
	if s.serving.Err() != nil || !s.host.Has(d.Needs) {
		return declined, nil
	}
	slot := s.host.Slots.Take()
	if slot == nil {
		return declined, nil
	}
	err := s.call(ctx, func(ctx context.Context) error { return s.work.Drive(ctx, d.Thread, slot) })
	slot.Release()
	if errors.Is(err, dispatch.ErrBusy) {
		return declined, nil
	}
	var held *store.HeldError
	if errors.As(err, &held) {
		return again, nil
	}
	if err != nil {
		s.log.Warn("drive", "task", d.Task, "thread", d.Thread, "error", err)
		return "", errDrive
	}
	if err := s.Poke(context.WithoutCancel(s.serving), d.Task); err != nil { // Temporal may have lost both workflows
		s.log.Warn("poke", "error", err)
		return again, nil
	}
	return driven, nil
}

// call calls work, and sends heartbeats meanwhile. Whatever Temporal thinks of those, work is not interrupted.
func (s *server) call(ctx context.Context, work func(context.Context) error) error {
	done := make(chan error, 1)
	go func() { done <- work(context.WithoutCancel(s.serving)) }() // a panic ends the worker: no text for Temporal
	beat := time.NewTicker(s.loop.heartbeat / 3)
	defer beat.Stop()
	for {
		select {
		case err := <-done:
			return err
		case <-beat.C:
			activity.RecordHeartbeat(ctx)
		}
	}
}
