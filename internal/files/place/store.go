package place

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/record/store"
)

// Store returns the record as seen from this machine: a row whose workspace is a name gets the directories of
// this place. Commit converts rows back.
func (p *Place) Store() store.Store { return localized{p.cfg.Store, p, nil} }

// Confined is Store for a machine on which rows, which others write, must lead nowhere but to this place and to dirs.
// It refuses to read a row that names another directory, and its lists leave such rows out.
func (p *Place) Confined(dirs []string) store.Store {
	return localized{p.cfg.Store, p, func(row store.Thread) error { return p.refuse(row, dirs) }}
}

type localized struct {
	store.Store
	place  *Place
	refuse func(recorded store.Thread) error // nil: every row is read
}

// ErrElsewhere reports that a row names a directory that is not for tasks of this machine.
var ErrElsewhere = errors.New("not a directory of this worker")

// refuse returns why a recorded row would lead out of this place and dirs, or nil.
func (p *Place) refuse(row store.Thread, dirs []string) error {
	for _, id := range []string{row.ID, row.Task, row.Root} { // they become names of directories
		if !isName(id) {
			return fmt.Errorf("thread %q of task %q: %w: its id is not one", row.ID, row.Task, ErrElsewhere)
		}
	}
	_, named := Named(row.Workspace)
	if named {
		return nil
	}
	if !slices.Contains(dirs, row.Workspace) {
		return fmt.Errorf("thread %s: %q: %w: put the project into a Git repository, or name its directory in the "+
			"configuration of workers: team: {directories: [DIRECTORY]}", row.ID, row.Workspace, ErrElsewhere)
	}
	if rel, err := filepath.Rel(row.Workspace, row.Tree); row.Tree != "" && (err != nil || !filepath.IsLocal(rel)) {
		return fmt.Errorf("thread %s: %q: %w: it is outside workspace %s", row.ID, row.Tree, ErrElsewhere, row.Workspace)
	}
	return nil
}

func (l localized) Thread(ctx context.Context, id string) (store.Thread, error) {
	row, err := l.Store.Thread(ctx, id)
	if err == nil && l.refuse != nil {
		err = l.refuse(row)
	}
	if err != nil {
		return store.Thread{}, err
	}
	return l.place.here(row), nil
}

// Threads returns, besides the threads of a directory, those of the workspace that the directory is a clone of.
func (l localized) Threads(ctx context.Context, f store.ThreadFilter) ([]store.Thread, error) {
	if name, _, _, ok := l.place.of(f.Workspace); ok {
		f.Workspace = prefix + name
	}
	rows, err := l.Store.Threads(ctx, f)
	name := l.place.clone(f.Workspace)
	if err != nil || name == "" {
		return l.allHere(rows), err
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
	return l.allHere(rows), err
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
	for _, row := range rows.Threads {
		if err == nil && l.refuse != nil {
			err = l.refuse(row)
		}
	}
	if err != nil {
		return store.TaskRows{}, err
	}
	rows.Threads = l.allHere(rows.Threads)
	return rows, nil
}

func (l localized) Commit(ctx context.Context, b store.Batch) error {
	b.Threads = slices.Clone(b.Threads)
	for i := range b.Threads {
		b.Threads[i].Row = l.place.away(b.Threads[i].Row)
	}
	return l.Store.Commit(ctx, b)
}

// allHere returns the rows that may be read, with the directories of this machine.
func (l localized) allHere(rows []store.Thread) []store.Thread {
	if l.refuse != nil {
		rows = slices.DeleteFunc(rows, func(row store.Thread) bool { return l.refuse(row) != nil })
	}
	for i := range rows {
		rows[i] = l.place.here(rows[i])
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
