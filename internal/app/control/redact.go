package control

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/plait-run/plait/internal/record/redact"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/view/search"
	"github.com/plait-run/plait/internal/view/taskdir"
)

// Redact takes a text out of the record, and out of the files that Plait and the agents of its tasks keep on this
// machine: task directories, and what is below PLAIT_HOME. It returns how many of those had it. Tasks that have it must
// not be driven meanwhile: a *store.HeldError.
func (c *Controller) Redact(ctx context.Context, text, by, reason string) (r redact.Report, files int, err error) {
	hold := func(ctx context.Context, id string) (store.Lease, error) {
		row, err := c.cfg.Store.Thread(ctx, id)
		if err != nil && !errors.Is(err, store.ErrNotFound) { // a task that was removed has its last event only
			return nil, err
		}
		l, err := c.acquire(ctx, id)
		if err == nil {
			if err = c.ensureNoDriver(ctx, row); err != nil {
				l.Release()
			}
		}
		return l, err
	}
	r, err = redact.Run(ctx, redact.Config{
		Store: c.cfg.Store, Text: text, By: by, Reason: reason, Now: c.cfg.Now, Hold: hold,
	})
	if err != nil {
		return r, 0, err
	}
	if err := c.views.index.Clear(ctx); err != nil {
		return r, 0, err
	}
	removed, err := c.removeCopies()
	if err != nil {
		return r, 0, fmt.Errorf("redact files: %w", err)
	}
	dirs, err := c.keepsFiles(ctx)
	if err != nil {
		return r, 0, fmt.Errorf("redact files: %w", err)
	}
	inStore := func(path string) bool {
		rel, err := filepath.Rel(c.cfg.Home, path)
		return err == nil && (rel == "objects" || strings.HasPrefix(rel, "plait.db")) || search.Is(c.cfg.Home, path)
	}
	for _, dir := range dirs {
		n, failed := redact.Files(ctx, dir, text, inStore)
		files, err = files+n, errors.Join(err, failed)
	}
	return r, files + removed, errors.Join(err, c.redrawHere(ctx, r.Tasks))
}

// removeCopies removes the databases that upgrades kept as they were, and returns how many: they may have the text,
// in parts that are not next to each other.
func (c *Controller) removeCopies() (int, error) {
	copies, err := filepath.Glob(filepath.Join(c.cfg.Home, "plait-schema*.db"))
	for _, name := range copies {
		err = errors.Join(err, os.Remove(name))
	}
	return len(copies), err
}

// redrawHere draws the directories of tasks that are on this machine: their files may spell a text in their own way.
func (c *Controller) redrawHere(ctx context.Context, ids []string) error {
	for _, id := range ids {
		row, err := c.cfg.Store.Thread(ctx, id)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		if _, err := os.Stat(taskdir.At(row.Workspace, id).Path()); err == nil {
			if err := c.Redraw(ctx, id); err != nil {
				return err
			}
		}
	}
	return nil
}

// keepsFiles returns the directories on this machine in which Plait and agents keep files: PLAIT_HOME, where its links
// to homes of Codex lead, caches, and the directories of tasks.
func (c *Controller) keepsFiles(ctx context.Context) ([]string, error) {
	dirs := []string{c.cfg.Home}
	if c.cfg.Scratch != "" {
		dirs = append(dirs, c.cfg.Scratch)
	}
	homes, err := readNames(filepath.Join(c.cfg.Home, "homes"))
	if err != nil {
		return nil, err
	}
	for _, name := range homes {
		if relocated, ok := relocatedHome(filepath.Join(c.cfg.Home, "homes", name)); ok {
			dirs = append(dirs, relocated)
		}
	}
	rows, err := c.cfg.Store.Threads(ctx, store.ThreadFilter{Kind: store.KindRoot})
	for _, row := range rows {
		if row.Workspace != "" {
			dirs = append(dirs, taskdir.At(row.Workspace, row.ID).Path())
		}
	}
	return dirs, err
}

// relocatedHome returns where a home has what Codex keeps, if that is elsewhere.
func relocatedHome(home string) (string, bool) {
	relocated, err := os.Readlink(filepath.Join(home, "codex"))
	ours := strings.HasSuffix(filepath.Dir(relocated), filepath.Join("plait", "codex"))
	return relocated, err == nil && filepath.IsAbs(relocated) && ours
}
