package verify

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// A viewEntry is a view's entry for one thread.
type viewEntry struct {
	file string // below Home
	id   string
	head dag.Hash
}

// readViews reads the views of the record. They are written without sync, so a torn one is skipped,
// not reported as damage. So are those without a version, which may be of another record.
func (c *check) readViews() ([]viewEntry, error) {
	if c.cfg.Home == "" {
		return nil, nil
	}
	home, err := os.OpenRoot(c.cfg.Home)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read views: %w", err)
	}
	defer home.Close()
	versions, err := fs.Glob(home.FS(), path.Join(thread.ViewsOf(c.cfg.Store.ID()), "bundles/*/version"))
	if err != nil {
		return nil, fmt.Errorf("read views: %w", err)
	}
	var out []viewEntry
	for _, file := range versions {
		if data, err := home.ReadFile(file); err == nil && string(data) == thread.ViewsVersion {
			out = append(out, readBundle(home, path.Dir(file))...)
		}
	}
	return out, nil
}

// readBundle reads the views of a bundle.
func readBundle(home *os.Root, dir string) (out []viewEntry) {
	active := path.Join(dir, "threads.json")
	var threads map[string]thread.ActiveView
	if data, err := home.ReadFile(active); err == nil && json.Unmarshal(data, &threads) == nil {
		for id, t := range threads {
			out = append(out, viewEntry{filepath.FromSlash(active), id, t.Head})
		}
	}
	history, _ := fs.Glob(home.FS(), path.Join(dir, "history/*.jsonl")) // the pattern is valid
	for _, file := range history {
		data, err := home.ReadFile(file)
		if err != nil {
			continue // redrawn or removed in the meantime
		}
		for lines := bufio.NewScanner(bytes.NewReader(data)); lines.Scan(); {
			var t thread.EndedView
			if json.Unmarshal(lines.Bytes(), &t) == nil {
				out = append(out, viewEntry{filepath.FromSlash(file), t.ThreadID, t.Head})
			}
		}
	}
	return out
}

// checkViews looks for commits that a view recorded but the store has lost. A view may
// lag, and a view of a removed thread may remain as long as the thread's objects do; by
// the time those are collected, the view has been redrawn.
func (c *check) checkViews(ctx context.Context, views []viewEntry, r rows) error {
	rows := make(map[string]store.Thread, len(r.threads))
	for _, t := range r.threads {
		rows[t.ID] = t
	}
	for _, v := range views {
		if v.head.IsZero() {
			continue
		}
		t, ok := rows[v.id]
		if ok {
			if !c.mayPassThrough(t.Head, v.head, false) {
				c.absent(v.head, "%s is ahead of the store: thread %s was at this head, its row is at %s: lost commits", v.file,
					v.id, t.Head)
			}
			continue
		}
		kept, err := c.cfg.Store.Has(ctx, v.head)
		if err := c.unreadable(ctx, "the view's head "+v.head.String(), err); err != nil {
			return err
		}
		if !kept {
			c.absent(v.head, "%s is ahead of the store: neither thread %s nor its head is there: lost commits", v.file, v.id)
		}
	}
	return nil
}
