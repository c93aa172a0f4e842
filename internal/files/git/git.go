// Package git saves the state of a work tree, gives agents their own worktrees
// and merges what they made there. It runs git in one way only, which a hostile
// repository cannot exploit.
//
// From a directory it makes trees (the names of git tree objects, 40 or 64 hex
// digits), refs below refs/plait/, worktrees, merged trees, changed files and
// branches below plait/. Laws:
//
//   - A repository cannot make us run anything. Git never sees the repository's
//     config: it runs on a private git directory that has the repository's
//     objects and refs and our own config, which adopts only settings from a
//     short list (format, file modes, line endings). So there is no filter,
//     hook, monitor, external diff, textconv, alias, pager, credential helper,
//     signing program, transport or include to run, nor anything that a future
//     git may learn to run. Attributes still choose line endings, and whether
//     Merge treats a file as text, as binary or as a union of lines.
//   - Nothing leads out of the repository. A .git that is a link, a .git file whose
//     target does not point back to it, objects or refs that are links, and a
//     core.worktree elsewhere are refused. Git never runs inside a nested repository,
//     except in a submodule, to see whether it has changed: that is opened in the same
//     way, and nothing is written there.
//   - A snapshot changes neither the index nor HEAD nor a file. Concurrent
//     snapshots do not disturb each other.
//   - Only worktrees made here are restored or removed, and none is removed
//     before its snapshot is kept under a ref. Remove leaves one that has what no
//     snapshot can, except ignored files that its caller is ready to lose.
//   - In a work tree that was not made here only Apply changes files: those in which
//     its two trees differ, all of which must be as expected before one is touched.
//   - A merge is tried on trees alone, and a side that conflicts is left out as a
//     whole: no tree has conflict markers.
//
// A snapshot has the tracked files and the untracked ones that are not ignored
// (.gitignore, info/exclude, and the user's own core.excludesFile), as they are
// now, whatever the index says about them. It has no .plait/, and it has submodules
// as in the index. A repository inside the tree that is not a submodule is left
// out, and so are FIFOs, sockets, devices and empty directories. With Git LFS a
// changed file is kept as it is, not as a pointer.
//
// What cannot be guaranteed: anyone who can write the repository's index can make a
// Snapshot miss that a file has changed, since the index exists so that unchanged
// files are not read again. Restore, Remove and Apply do not trust it. A FIFO in
// place of a .gitignore blocks git until the context, or Patience, ends it.
//
// A mirror (Mirror, Init) is a repository that was made here and that nobody works in. Fetch, Push, Follow and a Chain
// that has a remote run git as the user would, since keys and proxies are theirs; nothing else contacts other machines,
// and nothing but the commits of a chain and of a branch below plait/ is pushed. CommitAs runs git as the user would,
// too, since the name and the signature are theirs; hooks never run.
//
// The package never changes the index or HEAD of a work tree that was not made here,
// and never creates, moves or removes a branch except those below plait/ whose commits
// it made, or that it moves forward.
package git

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// ErrNone reports that a directory is not in a work tree.
var ErrNone = errors.New("no git work tree")

// ErrNoGit reports that there is a work tree, but no program to work with it.
var ErrNoGit = errors.New("this is a Git repository, and git is not in PATH: install it")

// ErrBare reports that a directory is in a repository without a work tree. It matches ErrRefused.
var ErrBare = fmt.Errorf("%w: it is bare, without files to work on: make a worktree with: git worktree add DIR",
	ErrRefused)

// ErrRefused is matched by every error about a repository that leads elsewhere or
// has an unknown format, and by those about a request that is refused.
var ErrRefused = errors.New("repository refused")

// Patience is the longest that one run of git may take, even if the context has no
// deadline.
const Patience = 10 * time.Minute

// A Repo is a git work tree. It is safe for concurrent use, except that a
// worktree must not be restored or removed by two callers at once.
type Repo struct {
	place
	git     string            // absolute path of the program
	scratch string            // where private git directories are made
	format  string            // sha1 or sha256
	shared  [][2]string       // the settings of the repository, for all its work trees
	config  map[string]string // those that are adopted
	ignore  string            // the user's own ignore file, or ""
}

// Open opens the work tree that contains dir. The error matches ErrNone if there
// is none, ErrNoGit if git is missing, and ErrRefused if it cannot be trusted.
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
	if r.shared, err = r.settings(ctx, filepath.Join(r.common, "config")); err != nil {
		return nil, err
	}
	r.ignore = r.userIgnore(ctx)
	if err := r.adopt(ctx); err != nil {
		return nil, err
	}
	return r, nil
}

// openLinked opens another work tree of the repository, with the settings that r was opened with.
func (r *Repo) openLinked(ctx context.Context, at place) (*Repo, error) {
	w := *r
	w.place = at
	if err := at.check(); err != nil {
		return nil, err
	}
	var err error
	if w.git, err = program(at.root); err != nil {
		return nil, err
	}
	if err := w.adopt(ctx); err != nil {
		return nil, err
	}
	return &w, nil
}

// Root returns the top level of the work tree, absolute and without links.
func (r *Repo) Root() string { return r.root }

// Made reports whether the work tree is one that Checkout made.
func (r *Repo) Made() bool { return r.linked && r.hasMark() }

// Worktree opens a worktree that Checkout made of this repository. It trusts what
// the repository has registered, not what is in dir, which an agent can write.
// The error matches ErrNone if no such worktree is registered.
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
	w, err := r.made(dir)
	if err != nil {
		return nil, err
	}
	return r.openLinked(ctx, w)
}

// made returns the worktree at dir if Checkout made it.
func (r *Repo) made(dir string) (place, error) {
	entries, err := r.registrations(dir)
	if err != nil {
		return place{}, err
	}
	info, err := os.Lstat(dir)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%w: not a directory", ErrRefused)
	}
	if err != nil {
		return place{}, err
	}
	for _, entry := range entries {
		if w := (place{root: dir, gitdir: entry, common: r.common, linked: true}); w.hasMark() {
			return w, nil
		}
	}
	return place{}, fmt.Errorf("not a worktree made by plait: %w", ErrNone)
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

// Shares reports whether two work trees are of the same repository.
func (r *Repo) Shares(other *Repo) bool { return r.common == other.common }
