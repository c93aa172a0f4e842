// Package place manages the directories where a worker's threads work, apart from those of people.
//
// In a record that several machines share, a row names its workspace. The package turns such rows into rows
// with directories of this machine, and makes the repositories there. Below its directory are
//
//	mirrors/<workspace>.git                     what the workspace's remote has, and nothing else
//	tasks/<workspace>/<task>/                   a repository for one task, which borrows the mirror's objects
//	tasks/<workspace>/<task>/.plait/worktrees/  a working tree for each of its threads
//
// If all machines use the same directory, a working tree has the same path on all of them. Laws:
//
//   - Everything here that a task needs is a copy of what the record and the remote have. It may all be removed while
//     nothing is being driven, and is made again. What agents made and the record cannot have stays with its task,
//     unless the space is needed.
//   - A row in the record names no directory of a machine: [Place.Store] adds it when the row is read, and removes it
//     when the row is written.
//   - Two tasks share objects of the remote, and no other byte.
package place

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/plait-run/plait/internal/files/git"
	"github.com/plait-run/plait/internal/record/store"
)

// prefix begins the workspace of a row whose workspace is a name.
const prefix = "ws:"

// Workspace returns the workspace in a task's row for a name: 1 to 64 letters, digits, dots, dashes and
// underscores, not beginning with a dot or dash.
func Workspace(name string) (string, error) {
	if !isName(name) {
		return "", fmt.Errorf("workspace %q: want letters, digits, dots, dashes and underscores, 64 at most", name)
	}
	return prefix + name, nil
}

// Named returns the name in the workspace of a recorded row. ok is false if the workspace is a directory of some
// machine.
func Named(workspace string) (name string, ok bool) {
	name, ok = strings.CutPrefix(workspace, prefix)
	return name, ok && isName(name)
}

func isName(s string) bool {
	const chars = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
	return s != "" && len(s) <= 64 && s[0] != '.' && s[0] != '-' && strings.Trim(s, chars) == "" &&
		!strings.HasSuffix(s, ".git")
}

// Config configures a place.
type Config struct {
	Dir     string            // absolute; everything is below it
	Remotes map[string]string // by workspace name: the remote it is a clone of, see git.Mirror
	Store   store.Store       // the record
	Most    int64             // bytes for tasks: beyond that, idle ones are removed; zero: unlimited
	Log     *slog.Logger      // ids and sizes, never texts; nil: none

	// Left, if set, reports whether the working tree of an ended thread has what the record cannot have.
	Left func(ctx context.Context, row store.Thread) (bool, error)
	// Ended, if set, removes what else this machine keeps for a task that has ended or was removed.
	Ended func(task string) error
}

// A Place is the place of one worker. Methods may be called concurrently; only one process may use a directory.
type Place struct {
	cfg      Config
	tasks    string // the directory of all tasks
	mu       sync.RWMutex
	fetching map[string]*sync.Mutex // by name of a workspace with a remote
	clones   sync.Map               // names of workspaces, by people's directories
	kept     sync.Map               // working trees that stay, and ended tasks that have some
}

// New returns the place in a directory, which it creates.
func New(cfg Config) (*Place, error) {
	if !filepath.IsAbs(cfg.Dir) {
		return nil, fmt.Errorf("place %q: not an absolute path", cfg.Dir)
	}
	fetching := map[string]*sync.Mutex{}
	for name := range cfg.Remotes {
		if !isName(name) {
			return nil, fmt.Errorf("place %s: a workspace cannot be called %q", cfg.Dir, name)
		}
		fetching[name] = new(sync.Mutex)
	}
	err := os.MkdirAll(filepath.Join(cfg.Dir, "tasks"), 0o700)
	if err == nil {
		cfg.Dir, err = filepath.EvalSymlinks(cfg.Dir)
	}
	if err != nil {
		return nil, fmt.Errorf("make place %s: %w", cfg.Dir, err)
	}
	if err := git.RemoveAll(filepath.Join(cfg.Dir, "trash")); err != nil {
		return nil, fmt.Errorf("make place %s: %w", cfg.Dir, err)
	}
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	return &Place{cfg: cfg, tasks: filepath.Join(cfg.Dir, "tasks"), fetching: fetching}, nil
}

// Dir returns the directory of the place.
func (p *Place) Dir() string { return p.cfg.Dir }

// Mirrors returns the mirrors of the workspace that a directory in this place belongs to, one for each git object
// format: the repositories of its tasks borrow their objects.
func (p *Place) Mirrors(dir string) []string {
	name, _, _, ok := p.of(dir)
	if !ok {
		return nil
	}
	return []string{p.mirrorOf(name, ""), p.mirrorOf(name, "sha256")}
}

func (p *Place) mirrorOf(name, format string) string {
	if format == "sha256" {
		name += ".sha256"
	}
	return filepath.Join(p.cfg.Dir, "mirrors", name+".git")
}

// Has reports whether a row, as [Place.Store] returns it, belongs to a named workspace.
func (p *Place) Has(row store.Thread) bool {
	_, _, rest, ok := p.of(row.Workspace)
	return ok && rest == ""
}

// of returns the workspace and the task of a directory in this place, and the rest of its path.
func (p *Place) of(dir string) (name, task, rest string, ok bool) {
	rel, err := filepath.Rel(p.tasks, dir)
	if err != nil || !filepath.IsLocal(rel) {
		return "", "", "", false
	}
	parts := append(strings.SplitN(filepath.ToSlash(rel), "/", 3), "", "")
	return parts[0], parts[1], parts[2], isName(parts[0]) && isName(parts[1])
}

// mirror opens the mirror of a workspace.
func (p *Place) mirror(ctx context.Context, name, format string) (*git.Mirror, error) {
	return git.OpenMirror(ctx, p.mirrorOf(name, format), format)
}

// Ready creates the repository of a task, unless it exists.
func (p *Place) Ready(ctx context.Context, row store.Thread, format string) error {
	name, _, _, ok := p.of(row.Workspace)
	if !ok {
		return fmt.Errorf("%s is not in place %s", row.Workspace, p.cfg.Dir)
	}
	p.mu.RLock()
	defer p.mu.RUnlock()
	m, err := p.mirror(ctx, name, format)
	if err != nil {
		return err
	}
	return git.Init(row.Workspace, format, m.Objects())
}

// ErrNoRemote reports that this worker has no remote configured for a workspace.
var ErrNoRemote = errors.New("no remote is configured for it on this worker")

// Fetch updates the mirror of a thread's workspace.
func (p *Place) Fetch(ctx context.Context, row store.Thread) error {
	name, _, _, ok := p.of(row.Workspace)
	remote := p.cfg.Remotes[name]
	if !ok || remote == "" {
		return fmt.Errorf("fetch workspace %s: %w", name, ErrNoRemote)
	}
	p.fetching[name].Lock()
	defer p.fetching[name].Unlock()
	repo, err := git.Open(ctx, row.Workspace)
	if err != nil {
		return err
	}
	m, err := p.mirror(ctx, name, repo.Format())
	if err == nil {
		err = m.Fetch(ctx, remote)
	}
	if err != nil {
		return fmt.Errorf("fetch workspace %s: %w", name, err)
	}
	return nil
}
