package place

import (
	"context"
	"path/filepath"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/store"
)

// Store returns the record as seen from this machine: a row whose workspace is a name gets the directories of
// this place. Commit converts rows back.
func (p *Place) Store() store.Store { return localized{p.cfg.Store, p} }

type localized struct {
	store.Store
	place *Place
}

func (l localized) Thread(ctx context.Context, id string) (store.Thread, error) {
	row, err := l.Store.Thread(ctx, id)
	return l.place.here(row), err
}

// Threads returns, besides the threads of a directory, those of the workspace that the directory is a clone of.
func (l localized) Threads(ctx context.Context, f store.ThreadFilter) ([]store.Thread, error) {
	if name, _, _, ok := l.place.of(f.Workspace); ok {
		f.Workspace = prefix + name
	}
	rows, err := l.Store.Threads(ctx, f)
	name := l.place.clone(f.Workspace)
	if err != nil || name == "" {
		return l.place.allHere(rows), err
	}
	f.Workspace = prefix + name
	more, err := l.Store.Threads(ctx, f)
	rows = append(rows, more...)
	slices.SortFunc(rows, func(a, b store.Thread) int {
		if f.Newest {
			a, b = b, a
		}
		return strings.Compare(a.ID, b.ID)
	})
	if f.Limit > 0 && len(rows) > f.Limit {
		rows = rows[:f.Limit]
	}
	return l.place.allHere(rows), err
}

// Belongs reports whether a row belongs to the workspace that a directory is a clone of.
func (l localized) Belongs(row store.Thread, dir string) bool {
	name, _, _, ok := l.place.of(row.Workspace)
	return ok && name == l.place.clone(dir)
}

// Clone declares a person's directory to be a clone of a workspace: tasks of both are listed together.
func (p *Place) Clone(dir, name string) {
	if isName(name) {
		p.clones.Store(dir, name)
	}
}

func (p *Place) clone(dir string) string {
	name, _ := p.clones.Load(dir)
	s, _ := name.(string)
	return s
}

func (l localized) Task(ctx context.Context, id string) (store.TaskRows, error) {
	rows, err := l.Store.Task(ctx, id)
	rows.Threads = l.place.allHere(rows.Threads)
	return rows, err
}

func (l localized) Commit(ctx context.Context, b store.Batch) error {
	b.Threads = slices.Clone(b.Threads)
	for i := range b.Threads {
		b.Threads[i].Row = l.place.away(b.Threads[i].Row)
	}
	return l.Store.Commit(ctx, b)
}

func (p *Place) allHere(rows []store.Thread) []store.Thread {
	for i := range rows {
		rows[i] = p.here(rows[i])
	}
	return rows
}

// here returns a row with the directories of this machine.
func (p *Place) here(row store.Thread) store.Thread {
	name, ok := Named(row.Workspace)
	if !ok || !isName(row.Task) {
		return row
	}
	was := row.Workspace
	row.Workspace = filepath.Join(p.tasks, name, row.Task)
	if rel, ok := strings.CutPrefix(row.Tree, was+"/"); ok && filepath.IsLocal(rel) {
		row.Tree = filepath.Join(row.Workspace, rel)
	} else {
		row.Tree = ""
	}
	return row
}

// away returns a row without directories of this machine.
func (p *Place) away(row store.Thread) store.Thread {
	name, _, _, ok := p.of(row.Workspace)
	if !ok {
		return row
	}
	// The task in the path does not matter: in a user's fork it is the task that it was forked from.
	if of, _, rest, in := p.of(row.Tree); in && of == name && rest != "" {
		row.Tree = prefix + name + "/" + rest
	}
	row.Workspace = prefix + name
	return row
}
