// Package git keeps the state of a work tree, gives agents work trees of their
// own and brings together what they made there, through one way of running git
// that a hostile repository cannot use.
//
// In goes a directory; out come trees (the names of git tree objects, 40 or 64
// hex digits), refs below refs/plait/, worktrees, merged trees, changed files and
// branches below plait/. Laws:
//
//   - Nothing that a repository says is run. Git never sees the repository's
//     config: it is run on a private git directory that has the repository's
//     objects and refs and a config of ours, into which only settings from a
//     short list are taken (format, file modes, line ends). So there is no
//     filter, hook, monitor, external diff, textconv, alias, pager, credential
//     helper, signing program, transport or include to run, and what a later
//     git learns to run is not run either. Attributes still choose line ends, and
//     whether Merge takes a file for text, binary or a union of lines.
//   - Nothing leads out of the repository. A .git that is a link, a .git file whose target does
//     not name it back, objects or refs that are links, and a core.worktree that
//     is another place are refused. No git runs inside a nested repository.
//   - A snapshot changes neither the index nor HEAD nor a file. Two at once do not
//     disturb each other.
//   - Only worktrees made here are restored or removed, and none is removed
//     before its snapshot is kept under a ref.
//   - In a work tree that was not made here only Apply changes files: those in which
//     its two trees differ, all of which must be as expected before one is touched.
//   - A merge is tried on trees alone, and what conflicts is left out as a whole:
//     no tree has conflict markers.
//
// A snapshot has the tracked files and the untracked ones that are not ignored
// (.gitignore, info/exclude, and the user's own core.excludesFile), as they are
// now, whatever the index says of them. It has no .plait/, and submodules as the
// index has them. A repository that lies inside the tree and is no submodule is
// left out, and so are FIFOs, sockets, devices and empty directories. With Git
// LFS a file that changed is kept as it is, not as a pointer.
//
// What cannot be guaranteed: whoever can write the repository's index can make a
// Snapshot miss that a file has changed, since the index exists so that unchanged
// files are not read again. Restore, Remove and Apply do not trust it. A FIFO in the
// place of a .gitignore blocks git until the context, or Patience, ends it.
//
// A mirror (Mirror, Init) is a repository that was made here and that nobody works in; Fetch runs git as the user
// would, since keys and proxies are theirs, and is the only thing that speaks to other machines. Nothing is
// pushed.
//
// The package never changes a work tree's index or HEAD
// except of worktrees made here, and never makes, moves or removes a branch but
// those below plait/ whose commits it made.
package git

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// ErrNone says that a directory lies in no work tree.
var ErrNone = errors.New("no git work tree")

// ErrNoGit says that there is no git to run. It is an ErrNone: without git
// there are no work trees to speak of.
var ErrNoGit = fmt.Errorf("git not found in PATH: %w", ErrNone)

// ErrRefused is what every error matches that is about a repository which leads
// elsewhere, or in a format not known here.
var ErrRefused = errors.New("repository refused")

// Patience is the longest that one run of git may take, also where the context
// has no end.
const Patience = 10 * time.Minute

// A Repo is a git work tree. It is safe for concurrent use, except that one
// worktree must not be restored or removed by two at once.
type Repo struct {
	place
	git     string            // absolute path of the program
	scratch string            // where private git directories are made
	format  string            // sha1 or sha256
	config  map[string]string // the settings taken over from the repository
	ignore  string            // the user's own ignore file, or ""
}

// Open finds the work tree that dir lies in. The error matches ErrNone when
// there is none or git is missing, and ErrRefused when it is not to be trusted.
func Open(ctx context.Context, dir string) (*Repo, error) {
	abs, err := filepath.Abs(dir)
	if err == nil {
		abs, err = filepath.EvalSymlinks(abs)
	}
	if err != nil {
		return nil, fmt.Errorf("open work tree %s: %w", dir, err)
	}
	at, err := findWorkTree(abs)
	if err != nil {
		return nil, fmt.Errorf("open work tree %s: %w", dir, err)
	}
	r, err := open(ctx, at)
	if err != nil {
		return nil, fmt.Errorf("open work tree %s: %w", dir, err)
	}
	return r, nil
}

func open(ctx context.Context, at place) (*Repo, error) {
	r := &Repo{place: at, format: "sha1"}
	var err error
	if r.git, err = program(at.root); err != nil {
		return nil, err
	}
	if r.scratch, err = scratch(); err != nil {
		return nil, err
	}
	if err := r.readConfig(ctx); err != nil {
		return nil, err
	}
	return r, nil
}

// Root returns the top level of the work tree, absolute and without links.
func (r *Repo) Root() string { return r.root }

// Made reports whether the work tree is one that Checkout made.
func (r *Repo) Made() bool { return r.linked && r.hasMark() }

// Worktree opens a worktree that Checkout made of this repository. What the
// repository has registered counts, not what lies in dir, which an agent can
// write. The error matches ErrNone when no such worktree is registered.
func (r *Repo) Worktree(ctx context.Context, dir string) (*Repo, error) {
	w, err := r.worktree(ctx, dir)
	if err != nil {
		return nil, fmt.Errorf("open worktree %s: %w", dir, err)
	}
	return w, nil
}

func (r *Repo) worktree(ctx context.Context, dir string) (*Repo, error) {
	dir, err := resolveParent(dir)
	if err != nil {
		return nil, err
	}
	entries, err := r.registrations(dir)
	if err != nil {
		return nil, err
	}
	info, err := os.Lstat(dir)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%w: not a directory", ErrRefused)
	}
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		w := place{root: dir, gitdir: entry, common: r.common, linked: true}
		if w.hasMark() {
			return open(ctx, w)
		}
	}
	return nil, fmt.Errorf("not a worktree made by plait: %w", ErrNone)
}

// resolveParent returns dir with the links of its parents resolved; dir itself need not
// exist.
func resolveParent(dir string) (string, error) {
	if !filepath.IsAbs(dir) {
		return "", errors.New("not an absolute path")
	}
	dir = filepath.Clean(dir)
	parent, err := filepath.EvalSymlinks(filepath.Dir(dir))
	if err != nil {
		return "", err
	}
	return filepath.Join(parent, filepath.Base(dir)), nil
}
