package taskdir

import (
	"cmp"
	"context"
	"errors"
	"os"

	"github.com/plait-run/plait/internal/record/store"
)

// Trees are the working trees of a task's threads, each opened once.
type Trees struct {
	threads store.Index
	task    store.Thread
	open    map[string]*os.Root
}

// NewTrees returns the trees of a task. It opens none.
func NewTrees(threads store.Index, task store.Thread) *Trees {
	return &Trees{threads: threads, task: task, open: make(map[string]*os.Root)}
}

// Of returns the tree that contains an entry's files, or the task's tree if that is
// gone. It is nil if there is none.
func (t *Trees) Of(ctx context.Context, e Entry) (*os.Root, error) {
	row := t.task
	if e.Thread != "" && e.Thread != row.ID {
		var err error
		if row, err = t.threads.Thread(ctx, e.Thread); errors.Is(err, store.ErrNotFound) {
			row = t.task
		} else if err != nil {
			return nil, err
		}
	}
	for _, dir := range []string{cmp.Or(row.Tree, row.Workspace), cmp.Or(t.task.Tree, t.task.Workspace)} {
		root, ok := t.open[dir]
		if !ok {
			root, _ = os.OpenRoot(dir) // nil if it is gone
			t.open[dir] = root
		}
		if root != nil {
			return root, nil
		}
	}
	return nil, nil
}

// Close closes the trees.
func (t *Trees) Close() {
	for _, root := range t.open {
		if root != nil {
			root.Close()
		}
	}
}
