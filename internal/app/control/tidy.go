package control

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
)

// Tidy does what processes that died while they removed tasks left undone: it redraws the views of all bundles. It is
// called before a collection, since a view of a removed thread may remain only as long as the thread's objects: see
// verify. The homes of removed tasks are left alone: tasks of another record may share PLAIT_HOME, as plaitd's do.
func (c *Controller) Tidy(ctx context.Context) error {
	if c.cfg.Home == "" {
		return nil
	}
	err := c.views.exclusively(ctx, func() error { return c.views.bundles(ctx) })
	if err != nil && ctx.Err() == nil {
		// A full disk must not keep its space from being freed, and views can be deleted.
		err = os.RemoveAll(filepath.Join(c.views.draw.Root(), "bundles"))
	}
	if err != nil {
		return fmt.Errorf("tidy %s: %w", c.cfg.Home, err)
	}
	return nil
}

// Expire removes the tasks of this record that ended before a time in Unix ms, and returns them; with dry it removes
// nothing. It leaves those that have work that could not be merged, and returns how many.
func (c *Controller) Expire(ctx context.Context, before int64, dry bool) (gone []string, left int, err error) {
	rows, err := c.cfg.Store.Threads(ctx, store.ThreadFilter{Kind: store.KindRoot,
		Statuses: []store.Status{store.Completed, store.Failed, store.Cancelled}})
	for _, row := range rows {
		if row.EndedAt >= before {
			continue
		}
		trees, treesErr := c.Worktrees(ctx, row.Workspace, row.ID)
		if treesErr == nil && slices.ContainsFunc(trees, func(t Worktree) bool { return len(t.Left) > 0 }) {
			left++
			continue
		}
		if treesErr == nil && !dry {
			treesErr = c.Remove(ctx, []string{row.ID}, func(store.Thread) error { return nil })
		}
		if err = errors.Join(err, treesErr); treesErr == nil {
			gone = append(gone, row.ID)
		}
	}
	return gone, left, err
}

// bundles draws the views of each bundle that has some.
func (v *views) bundles(ctx context.Context) error {
	names, err := readNames(filepath.Join(v.draw.Root(), "bundles"))
	for _, name := range names {
		if bundle, notHash := dag.ParseHash(name); notHash == nil {
			err = errors.Join(err, v.draw.Draw(ctx, bundle))
		}
	}
	return err
}

// readNames returns the names in a directory, none if there is no directory.
func readNames(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, nil
}
