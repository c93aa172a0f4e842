package thread

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
)

// A Lineage holds the rows of a task, and of the tasks it was manually forked from: who called
// whom, as far as the index records it. The zero Lineage is empty.
type Lineage struct {
	rows     map[string]store.Thread
	children map[string][]store.Thread // by parent, in id order
	ended    map[dag.Hash]store.Thread // finished calls and workers, by head
}

// ReadLineage reads the lineage of row. Removed tasks are left out.
func ReadLineage(ctx context.Context, index store.Index, row store.Thread) (Lineage, error) {
	k := Lineage{map[string]store.Thread{}, map[string][]store.Thread{}, map[dag.Hash]store.Thread{}}
	for read := map[string]bool{}; !read[row.Task]; {
		read[row.Task] = true
		rows, err := index.Threads(ctx, store.ThreadFilter{Task: row.Task})
		if err != nil {
			return Lineage{}, fmt.Errorf("read threads of task %s: %w", row.Task, err)
		}
		from := row.ForkedFrom
		for _, t := range rows {
			k.rows[t.ID] = t
			if t.Parent != nil {
				k.children[t.Parent.Thread] = append(k.children[t.Parent.Thread], t)
			}
			if t.Ended() && (t.Kind == store.KindCall || t.Kind == store.KindWorker) {
				k.ended[t.Head] = t
			}
			if t.Kind == store.KindRoot {
				from = t.ForkedFrom
			}
		}
		if from == nil {
			break
		}
		row, err = index.Thread(ctx, from.Thread)
		if errors.Is(err, store.ErrNotFound) {
			break
		}
		if err != nil {
			return Lineage{}, fmt.Errorf("read thread %s: %w", from.Thread, err)
		}
	}
	return k, nil
}

// Subtree returns the row of a thread and of all threads below it, callers before what they called.
func Subtree(ctx context.Context, index store.Index, id string) ([]store.Thread, error) {
	row, err := index.Thread(ctx, id)
	if err != nil {
		return nil, err
	}
	rows, err := index.Threads(ctx, store.ThreadFilter{Task: row.Task})
	if err != nil {
		return nil, err
	}
	below := make(map[string][]store.Thread)
	for _, t := range rows {
		if t.Parent != nil {
			below[t.Parent.Thread] = append(below[t.Parent.Thread], t)
		}
	}
	out := []store.Thread{row}
	for i := 0; i < len(out); i++ {
		out = append(out, below[out[i].ID]...)
	}
	return out, nil
}

// Leaves returns the threads of a task that have no unfinished thread below them.
func Leaves(rows []store.Thread) []store.Thread {
	above := map[string]bool{}
	for _, t := range rows {
		if t.Parent != nil && !t.Ended() {
			above[t.Parent.Thread] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(rows), func(t store.Thread) bool { return above[t.ID] })
}

// Thread returns the row of thread id.
func (k Lineage) Thread(id string) (store.Thread, bool) {
	row, ok := k.rows[id]
	return row, ok
}

// Children returns the paths, calls and workers of thread id, ordered by id.
func (k Lineage) Children(id string) []store.Thread { return k.children[id] }

// Chain returns the thread that row is a path of, through any number of forks, or row itself if
// it is not a path. The chain of that thread begins at its own start.
func (k Lineage) Chain(row store.Thread) store.Thread {
	for range k.rows { // edited rows may form a cycle
		if row.Kind != store.KindPath || row.Parent == nil {
			break
		}
		parent, ok := k.rows[row.Parent.Thread]
		if !ok {
			break
		}
		row = parent
	}
	return row
}

// Caller returns the thread that called the chain that row belongs to. For a manual fork, it is
// the caller of the thread it was forked from.
func (k Lineage) Caller(row store.Thread) (store.Thread, bool) {
	for range k.rows {
		row = k.Chain(row)
		if row.Parent != nil {
			return k.Thread(row.Parent.Thread)
		}
		if row.ForkedFrom == nil {
			break
		}
		var ok bool
		if row, ok = k.rows[row.ForkedFrom.Thread]; !ok {
			break
		}
	}
	return store.Thread{}, false
}

// Child returns the row of the called thread that ended at head.
func (k Lineage) Child(head dag.Hash) (store.Thread, bool) {
	row, ok := k.ended[head]
	return row, ok
}

// Origin returns the thread that row was manually forked from. ok is false if row is not such a
// fork, or if that thread was removed.
func Origin(ctx context.Context, index store.Index, row store.Thread) (from store.Thread, ok bool, err error) {
	if row.ForkedFrom == nil {
		return from, false, nil
	}
	from, err = index.Thread(ctx, row.ForkedFrom.Thread)
	if errors.Is(err, store.ErrNotFound) {
		return from, false, nil
	}
	return from, err == nil, err
}
