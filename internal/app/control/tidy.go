package control

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/plait-run/plait/internal/record/dag"
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
