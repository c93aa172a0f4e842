package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/plait-run/plait/internal/dag"
	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/thread"
)

// advance commits what build makes of the thread as it is: its state afterwards, and the
// batch without the change of the thread's row. It is the one way in which a thread's row moves
// once it runs. When only a wish was recorded on the row meanwhile, it builds again on the new row;
// when somebody else moved the thread, it reports false, c.Row is the row as it is now, and nothing
// was written.
func (e *Engine) advance(ctx context.Context, c *threadState, build func(row store.Thread) (*threadState, store.Batch,
	error)) (bool, error) {
	for {
		from := c.Row
		next, batch, err := build(from)
		if err != nil {
			return false, err
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
			*c = *next
			return true, nil
		}
		wished := c.Row.Wanted != from.Wanted // else it was something else of the batch that had changed
		if !wished || c.Row.Head != from.Head || c.Row.Status != from.Status || c.Row.InFlight != from.InFlight {
			e.forget(from.ID)
			return false, nil
		}
	}
}

// change is advance for another row of the thread at the same head, with the events that say why.
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

// with returns the state with another row, at the same head, and no attempt to follow.
func (c *threadState) with(row store.Thread) *threadState {
	n := *c
	n.Row, n.next = row, nil
	return &n
}

// appended returns the state once a step that says d is committed, and what a batch has to hold for that.
func (e *Engine) appended(ctx context.Context, c *threadState, d thread.Draft) (*threadState, thread.Change, error) {
	ch, err := thread.Append(c.Row, c.Tip, d)
	if err != nil {
		return nil, ch, err
	}
	next, err := e.stateAfter(ctx, c, ch)
	return next, ch, err
}

// stateAfter returns the state as it is once the step of ch is committed.
func (e *Engine) stateAfter(ctx context.Context, c *threadState, ch thread.Change) (*threadState, error) {
	n := *c
	n.Thread, n.next = c.Clone(), nil
	n.Row, n.Tip, n.Tries, n.Stamp = ch.Row, ch.Tip, nil, ch.Step.State.Timestamp
	e.cfg.Reader.Remember(ch)
	if err := e.record.Follow(ctx, &n.Position, ch.Step); err != nil {
		return nil, err
	}
	return &n, nil
}

// afterFailure reports whether a batch took effect although its commit returned err. row is what the batch
// was to make of the row of c. After a conflict it did not, and c.Row is the row as it is now.
func (e *Engine) afterFailure(ctx context.Context, c *threadState, batch store.Batch, row store.Thread, err error) (
	committed bool, _ error) {
	now, readErr := e.cfg.Store.Thread(ctx, row.ID)
	if readErr != nil {
		return false, fmt.Errorf("commit to thread %s: %w", row.ID, errors.Join(err, readErr))
	}
	e.cfg.Log.Warn("batch not committed", "thread", row.ID, "conflict", errors.Is(err, store.ErrConflict))
	if errors.Is(err, store.ErrConflict) {
		c.Row = now
		return false, e.conflicts.count(now, err)
	}
	// The outcome is unknown: equal rows mean equal pasts. A batch that makes threads may leave the
	// row as it was; then the first of them tells.
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

// conflicts counts the conflicts at each thread. One means that another driver was first, and that the
// thread has to be read again. If its row stays the same time after time, there was no other driver: the
// batch cannot be committed, and to retry would loop for ever.
type conflicts struct {
	mu   sync.Mutex
	seen map[string]conflict
}

// A conflict is what a thread's row said when a batch conflicted, and how often one has.
type conflict struct {
	seenRow
	times int
}

// A seenRow is what differs once anyone has moved a thread.
type seenRow struct {
	head     dag.Hash
	status   store.Status
	wanted   store.Wanted
	inFlight string
	updated  int64
	decision string
}

// maxConflicts is how many batches may conflict while a thread does not move: drivers of other threads
// may take away what a batch counts on without moving the thread itself.
const maxConflicts = 8

// count counts a conflict at a thread, given its row as it is now, and returns err to read the thread again.
// After too many it returns an error that does not match store.ErrConflict, since that does not help.
func (c *conflicts) count(now store.Thread, err error) error {
	at := seenRow{now.Head, now.Status, now.Wanted, now.InFlight, now.UpdatedAt, string(now.Decision)}
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
	return fmt.Errorf("commit to thread %s: %d batches in a row conflict with the record, and nobody has changed the "+
		"thread meanwhile; the last one: %v", now.ID, was.times, err)
}

// forget forgets the conflicts at a thread that has moved.
func (c *conflicts) forget(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.seen, id)
}
