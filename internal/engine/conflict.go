package engine

import (
	"fmt"
	"sync"

	"github.com/plait-run/plait/internal/dag"
	"github.com/plait-run/plait/internal/store"
)

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
