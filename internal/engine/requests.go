package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// applyRequests does what people asked of a task, as far as possible now, and reports whether it did anything.
// Input comes first: if it moves a thread on, the thread is not retried.
func (e *Engine) applyRequests(ctx context.Context, root store.Thread, held *ownership) (bool, error) {
	requests, err := e.cfg.Store.Requests(ctx, store.RequestFilter{Task: root.Task, Open: true})
	if err != nil {
		return false, fmt.Errorf("read requests of task %s: %w", root.Task, err)
	}
	if len(requests) == 0 || root.Intent == store.IntentCancel {
		return false, nil
	}
	rows, err := thread.Subtree(ctx, e.cfg.Store, root.ID)
	if err != nil {
		return false, fmt.Errorf("read task %s: %w", root.Task, err)
	}
	e.cfg.Log.Info("requests found", "task", root.Task, "count", len(requests))
	open, err := e.gates.Gates(ctx, store.GateFilter{Task: root.Task, State: store.GateOpen})
	if err != nil {
		return false, fmt.Errorf("read the gates of task %s: %w", root.Task, err)
	}
	for _, w := range requests {
		if w.Kind != store.RequestInput {
			continue
		}
		// A request that has no thread to go to stays open.
		if to, err := target(rows, open, w.Thread, w.Via == thread.SourceComment); err == nil {
			if taken, err := e.applyInput(ctx, rows, to, w, held); err != nil || taken {
				return taken, err
			}
		}
	}
	for _, w := range requests {
		if w.Kind == store.RequestResume {
			return true, e.applyResume(ctx, rows, w, held)
		}
	}
	return false, nil
}

// applyResume lets blocked threads try once more. rows are those of the task.
func (e *Engine) applyResume(ctx context.Context, rows []store.Thread, w store.Request, held *ownership) error {
	fail := func(err error) error { return fmt.Errorf("resume task %s: %w", w.Task, err) }
	var r Resumption
	if len(w.Options) > 0 {
		if err := json.Unmarshal(w.Options, &r); err != nil {
			return fail(err)
		}
	}
	if r.Full {
		r.Options.Context = record.ContextFull
	}
	err := e.raiseLimits(ctx, rows, r.Options, w.By)
	if errors.Is(err, store.ErrConflict) {
		return nil // a row has changed, and the next pass reads it again
	}
	if err != nil {
		return fail(err)
	}
	for _, row := range rows {
		if row.Status == store.Blocked && held.tryLock(row.ID) {
			if err := e.retry(ctx, row.ID); err != nil {
				return fail(err)
			}
		}
	}
	return e.markTaken(ctx, w)
}

// markTaken marks a request as taken. If two take it concurrently, one is first, and the other returns as if
// it had been.
func (e *Engine) markTaken(ctx context.Context, w store.Request) error {
	var b store.Batch
	e.take(&b, store.Thread{ID: w.Task, Task: w.Task}, w)
	err := e.cfg.Store.Commit(ctx, b)
	if err != nil && !errors.Is(err, store.ErrConflict) {
		return fmt.Errorf("apply a request of task %s: %w", w.Task, err)
	}
	return nil
}

// take adds to b that a thread takes a request.
func (e *Engine) take(b *store.Batch, row store.Thread, w store.Request) {
	w.TakenAt = max(1, e.now())
	b.Requests = append(b.Requests, store.RequestChange{Row: w, Take: true})
	b.Events = append(b.Events, event.New(row, w.TakenAt, event.RequestTaken{Request: w.ID, Kind: w.Kind}))
}

// retry lets a blocked thread try again what blocked it. A thread that waits for a person's answer, or for more
// input, keeps waiting.
func (e *Engine) retry(ctx context.Context, id string) error {
	row, err := e.cfg.Store.Thread(ctx, id)
	if err != nil || row.Status != store.Blocked || row.Reason == nil {
		return err
	}
	switch row.Reason.Kind {
	case store.ReasonInput:
		if row.Reason.Gate == "" {
			return e.retryQuestion(ctx, row)
		}
		fallthrough
	case store.ReasonGate, store.ReasonConflict:
		if asks, _, err := gateOf(ctx, e.gates, row); err != nil || asks != noGate {
			return err
		}
	case store.ReasonJoin:
		return e.RetryPaths(ctx, id, row.Head)
	case store.ReasonChild, store.ReasonLimit: // the limit may be the one that forbade another call
		called, err := e.CallAgain(ctx, id, row.Head)
		if err != nil || called || row.Reason.Kind == store.ReasonChild {
			return err
		}
	}
	return e.resume(ctx, row)
}

// retryQuestion lets a thread run that waits for input without a gate, as older versions left it. A conversation
// has no gate.
func (e *Engine) retryQuestion(ctx context.Context, row store.Thread) error {
	c, _, err := e.load(ctx, row.ID, row.Head)
	if err != nil || c == nil {
		return err
	}
	if _, asks := c.Next().(flow.Gate); !asks {
		return nil
	}
	return e.resume(ctx, row)
}
