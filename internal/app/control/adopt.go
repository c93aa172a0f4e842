package control

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/record"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/transfer"
)

// Imported returns the record that a task was imported from. It is "" if the task began in this record or has
// been taken over since.
func Imported(row store.Thread) (string, error) {
	opts, err := record.OptionsOf(row)
	return opts.Imported, err
}

// Adopt takes over an imported task, and moves it to workspace if that differs from its own: all of its threads
// then belong there, and work at the same places inside it. It returns the task's row. If the directory has other
// files than an imported task left, and the record has those, the task goes on in a worktree of its own; otherwise no
// files are moved, and what agents changed elsewhere is missing. It refuses while a process drives the task.
func (c *Controller) Adopt(ctx context.Context, task, workspace string) (store.Thread, error) {
	fail := func(err error) (store.Thread, error) {
		return store.Thread{}, fmt.Errorf("take over task %s: %w", task, err)
	}
	lease, err := c.acquire(ctx, task)
	if err != nil {
		return fail(err)
	}
	defer lease.Release()
	c = c.withLease(lease)
	rows, err := c.cfg.Store.Threads(ctx, store.ThreadFilter{Task: task})
	if err != nil {
		return fail(err)
	}
	var root store.Thread
	var b store.Batch
	said := event.TaskAdopted{By: gate.Person()}
	for _, row := range rows {
		was := row.State()
		if workspace != "" && workspace != row.Workspace {
			row.Tree, row.Workspace = transfer.Within(workspace, row), workspace
		}
		if row.Root == row.ID {
			opts, err := record.OptionsOf(row)
			if err != nil {
				return fail(err)
			}
			said.From, opts.Imported = opts.Imported, ""
			if row.Options, err = json.Marshal(opts); err != nil {
				return fail(err)
			}
			root = row
		}
		b.Threads = append(b.Threads, store.ThreadChange{Row: row, From: was})
	}
	if root.ID == "" {
		return fail(store.ErrNotFound)
	}
	if said.From != "" {
		shared := root.Tree
		if root.Tree, err = c.trees.PlaceImported(ctx, root); err != nil {
			return fail(err)
		}
		for i := range b.Threads {
			if row := &b.Threads[i].Row; row.Tree == shared {
				row.Tree = root.Tree
			}
		}
	}
	if err := c.ensureNoDriver(ctx, root); err != nil {
		return fail(err)
	}
	b.Events = []store.Event{event.New(root, c.cfg.Now().UnixMilli(), said)}
	if err := c.cfg.Store.Commit(ctx, b); err != nil {
		return fail(err)
	}
	return root, c.afterCreate(ctx, root)
}
