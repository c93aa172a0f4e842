package engine

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// advance commits what build makes of the thread as it is now: the new state, and the batch without the change
// to the thread's row. On return c is the thread as it is now, moved or not. If only a request was recorded on the row
// meanwhile, advance builds again on the new row. If someone else moved the thread, it reports false, sets
// c.Row to the current row, and writes nothing. The store compares head, status and intent: other columns are
// overwritten unseen. Options are not, as they come with an intent, which ends with the commit.
func (e *Engine) advance(ctx context.Context, c *threadState, build func(row store.Thread) (*threadState, store.Batch,
	error)) (bool, error) {
	for {
		from := c.Row
		next, batch, err := build(from)
		if err != nil {
			return false, err
		}
		if troubled(next.Row) && (next.Row.Head != from.Head || next.Row.InFlight == "") { // a worker was able to go on
			next.Row.Reason = nil
		}
		if next.Row.Intent.Options() || next.Row.Intent == store.IntentDismiss {
			next.Row.Intent = ""
		}
		batch.Threads = append(batch.Threads, store.ThreadChange{Row: next.Row, From: from.State()})
		moved := true
		if err := e.cfg.Store.Commit(ctx, batch); err != nil {
			if moved, err = e.afterFailure(ctx, c, batch, next.Row, err); err != nil {
				return false, err
			}
		}
		if moved {
			e.conflicts.forget(from.ID)
			e.addChildren(batch.Threads)
			*c = *next
			return true, nil
		}
		requested := c.Row.Intent != from.Intent // otherwise something else in the batch conflicted
		// Whoever made the request may not have seen the attempt begin. If it has ended, the batch conflicts once more.
		other := c.Row.InFlight != from.InFlight && c.Row.InFlight != ""
		if !requested || c.Row.Head != from.Head || c.Row.Status != from.Status || other {
			e.forget(from.ID)
			return false, nil
		}
	}
}

// addChildren remembers the threads that a batch made.
func (e *Engine) addChildren(rows []store.ThreadChange) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, t := range rows {
		if t.From == nil {
			e.children.add(t.Row)
		}
	}
}

// change commits another row of the thread at the same head, by advance, with the events that explain it.
func (e *Engine) change(ctx context.Context, c *threadState, build func(row store.Thread, now int64) (store.Thread,
	[]store.Event)) (store.Thread, error) {
	_, err := e.advance(ctx, c, func(row store.Thread) (*threadState, store.Batch, error) {
		now := e.now()
		next, events := build(row, now)
		next.UpdatedAt = now
		return c.with(next), store.Batch{Events: events}, nil
	})
	return c.Row, err
}

// with returns the state with another row at the same head, and no next attempt.
func (c *threadState) with(row store.Thread) *threadState {
	n := *c
	n.Row, n.next = row, nil
	return &n
}

// appended returns the state after a step with draft d, and the change that commits the step.
func (e *Engine) appended(ctx context.Context, c *threadState, d thread.Draft) (*threadState, thread.Change, error) {
	ch, err := thread.Append(c.Row, c.Tip, d)
	if err != nil {
		return nil, ch, err
	}
	next, err := e.stateAfter(ctx, c, ch)
	return next, ch, err
}

// stateAfter returns the state after the step of ch is committed.
func (e *Engine) stateAfter(ctx context.Context, c *threadState, ch thread.Change) (*threadState, error) {
	n := *c
	n.Thread, n.next = c.Clone(), nil
	n.Row, n.Tip, n.Tries, n.Stamp = ch.Row, ch.Tip, nil, ch.Step.State.Timestamp
	e.cfg.Reader.Remember(ch)
	if err := e.record.Advance(ctx, &n.Position, ch.Step); err != nil {
		return nil, err
	}
	return &n, nil
}

// afterFailure reports whether a batch took effect although its commit returned err. row is the row that the
// batch would have written. After a conflict the batch had no effect, and afterFailure sets c.Row to the
// current row.
func (e *Engine) afterFailure(ctx context.Context, c *threadState, batch store.Batch, row store.Thread, err error) (
	committed bool, _ error) {
	now, readErr := e.cfg.Store.Thread(ctx, row.ID)
	if readErr != nil {
		return false, fmt.Errorf("commit to thread %s: %w", row.ID, errors.Join(err, readErr))
	}
	e.cfg.Log.Warn("batch not committed", "thread", row.ID, "conflict", errors.Is(err, store.ErrConflict))
	if errors.Is(err, store.ErrConflict) {
		return false, cmp.Or(e.setRow(c, now), e.conflicts.count(now, err))
	}
	// The outcome is unknown: equal rows mean equal pasts. A batch that makes threads may leave the row
	// unchanged; then check whether the first of them exists.
	if first := batch.Threads[0]; first.From == nil {
		if _, missing := e.cfg.Store.Thread(ctx, first.Row.ID); missing != nil {
			return false, fmt.Errorf("commit to thread %s: %w", row.ID, errors.Join(err, missing))
		}
	}
	same := now.Head == row.Head && now.Status == row.Status && now.UpdatedAt == row.UpdatedAt &&
		now.InFlight == row.InFlight && bytes.Equal(now.Decision, row.Decision)
	if same {
		return true, nil
	}
	return false, fmt.Errorf("commit to thread %s: %w", row.ID, err)
}

// conflicts counts the conflicts at each thread. A conflict usually means that another driver was first and the
// thread must be read again. If the row never changes, there is no other driver: the batch can never be
// committed, and retrying would loop forever.
type conflicts struct {
	mu   sync.Mutex
	seen map[string]conflict
}

// A conflict is a thread's row at its last conflict, and the number of conflicts at that row.
type conflict struct {
	seenRow
	times int
}

// A seenRow holds the fields of a row that change when anyone moves the thread.
type seenRow struct {
	head     dag.Hash
	status   store.Status
	intent   store.Intent
	inFlight string
	updated  int64
	decision string
}

// maxConflicts is how many batches may conflict while a thread does not move. Drivers of other threads may
// change what a batch depends on without moving the thread itself.
const maxConflicts = 8

// count counts a conflict at a thread, given its current row. It returns nil if the thread should be read
// again. After too many conflicts it returns an error that does not match store.ErrConflict, so that callers
// stop retrying.
func (c *conflicts) count(now store.Thread, err error) error {
	at := seenRow{now.Head, now.Status, now.Intent, now.InFlight, now.UpdatedAt, string(now.Decision)}
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.seen[now.ID]
	if was.seenRow != at {
		was = conflict{seenRow: at}
	}
	was.times++
	c.seen[now.ID] = was
	if was.times < maxConflicts {
		return nil
	}
	delete(c.seen, now.ID)
	return fmt.Errorf("commit to thread %s: %d batches in a row conflict with the record, and no one has changed the "+
		"thread meanwhile; the last one: %v", now.ID, was.times, err)
}

// forget forgets the conflicts at a thread that has moved.
func (c *conflicts) forget(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.seen, id)
}
