package engine

import (
	"context"
	"crypto/rand"
	"errors"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/engine/attempt"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// A Player replays a task: it supplies what is recorded of it. It may be used concurrently.
type Player interface {
	attempt.Player
	// At returns what happened to a thread at its head, once.
	At(ctx context.Context, row store.Thread) (thread.Cue, error)
	// Joined returns how the join that a thread waits for was decided, nil if that is not recorded.
	Joined(ctx context.Context, row store.Thread) (*thread.Verdict, error)
}

// replayed does to a thread what happened to it at its head when it was recorded, and reports whether anything did. The
// caller drives the thread.
func (e *Engine) replayed(ctx context.Context, row store.Thread) (store.Thread, bool, error) {
	if e.cfg.Player == nil {
		return row, false, nil
	}
	bg := context.WithoutCancel(ctx)
	cue, err := e.cfg.Player.At(bg, row)
	switch {
	case err != nil:
	case cue.Input != nil: // it is applied before the next step
		err = e.replayInput(bg, row, *cue.Input)
	case cue.Summarizes != "":
		row, err = e.replaySummary(ctx, row, cue.Summarizes)
	case cue.End == store.Cancelled:
		row, err = e.Cancel(bg, row.ID)
	case cue.End == store.Blocked:
		row, err = e.blockAt(bg, row.ID, row.Head, cue.Why)
	case cue.End == store.Failed:
		c, now, loadErr := e.load(bg, row.ID, row.Head)
		if row, err = now, loadErr; c != nil {
			row, err = e.fail(bg, c, cue.Why)
		}
	default:
		return row, false, nil
	}
	return row, true, err
}

// replayInput records a person's input to a thread.
func (e *Engine) replayInput(ctx context.Context, row store.Thread, w store.Request) error {
	id, err := thread.NewID(e.cfg.Now(), rand.Reader)
	if err != nil {
		return err
	}
	w.ID, w.Task, w.Thread, w.At = id, row.Task, row.ID, e.now()
	return e.cfg.Store.Commit(ctx, store.Batch{Requests: []store.RequestChange{{Row: w}},
		Events: []store.Event{event.New(row, w.At,
			event.RequestMade{Request: w.ID, Kind: w.Kind, By: w.By, Via: w.Via})}})
}

// replaySummary has an agent summarize a thread's conversation. The thread goes on without a summary if the agent
// fails.
func (e *Engine) replaySummary(ctx context.Context, row store.Thread, by string) (store.Thread, error) {
	w, err := e.summaryFor(row, Compaction{Agent: by})
	if err != nil {
		return row, err
	}
	slot, err := e.slots.take(ctx, e.driveSlot, row, flow.Role{})
	if err != nil {
		return row, err
	}
	defer slot.Release()
	next, err := e.compactNow(ctx, row, w)
	var failed *agent.Failure
	if errors.As(err, &failed) {
		return e.cfg.Store.Thread(context.WithoutCancel(ctx), row.ID)
	}
	return next, err
}
