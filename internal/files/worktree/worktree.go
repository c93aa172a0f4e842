// Package worktree manages where threads work: it places a thread's tree, prepares it, records its state,
// restores it, merges what paths changed, and removes it.
//
// It takes rows of threads and the trees that their steps recorded, and produces directories and git trees. A
// thread has one working tree, and one agent at a time writes in it. Under git, a path that writes has its own
// worktree, made from its parent's tree at the fork; a user's fork has one made from the tree that its step
// left. Without git they work in their parent's tree.
//
// On a worker, which has no directory of a person, every thread has a worktree, made from the record
// (settle.go), so that any machine can continue it.
//
// Laws:
//
//   - What an agent may have touched is not trusted: a worktree made here is opened from the workspace's
//     repository. Only the setup command, which is the user's, may run such files.
//   - Every change of a tree can be repeated: it names the tree before and the tree after.
//   - Nothing here moves a head or changes a row.
package worktree

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/plait-run/plait/internal/files/git"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/sys/proc"
	"github.com/plait-run/plait/internal/sys/secret"
)

// Config configures Trees.
type Config struct {
	Store  store.Index
	Reader *thread.Reader
	Setup  []string // the command that prepares a new worktree; nil: none
	// Discard are patterns of ignored files that may be lost with a worktree.
	Discard []string
	Cell    *proc.Cell  // the sandbox of that command, nil: none
	Secrets *secret.Set // to keep out of the words of that command; nil: none
	Place   Place       // for tasks without a person's directory; nil: not supported here
}

// Trees are the working trees of threads. Methods may be called concurrently.
type Trees struct {
	cfg  Config
	held held
}

// New returns the working trees of a store's threads; it touches nothing.
func New(cfg Config) *Trees { return &Trees{cfg: cfg} }

// Of returns the directory in which a thread works.
func Of(row store.Thread) string { return cmp.Or(row.Tree, row.Workspace) }

// UnderGit reports whether a directory is in a git repository, so that threads can have their own
// worktrees. It is an error if it is in one with which a person must do something first: git is missing, or it is bare.
func UnderGit(ctx context.Context, dir string) (bool, error) {
	_, err := git.Open(ctx, dir)
	if errors.Is(err, git.ErrNoGit) || errors.Is(err, git.ErrBare) {
		return false, err
	}
	return err == nil, nil
}

// Whole returns an error if a directory is in a git repository whose files cannot be recorded, since it lacks some.
func Whole(ctx context.Context, dir string) error {
	repo, err := git.Open(ctx, dir)
	if err != nil {
		return nil // then no files are recorded
	}
	return repo.Whole(ctx)
}

// Before returns the name of the snapshot before a thread's n-th attempt.
func Before(n int) string { return fmt.Sprintf("attempt-%d", n) }

// Inside returns a directory inside a working tree. It refuses a link that leads out, since agents can make
// links there.
func Inside(tree, location string) (string, error) {
	dir := filepath.Join(tree, filepath.FromSlash(location))
	if location == "" {
		return dir, nil
	}
	root, err := filepath.EvalSymlinks(tree)
	if err != nil {
		return dir, nil // what works there will report that it is missing
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return dir, nil
	}
	if rel, err := filepath.Rel(root, real); err != nil || !filepath.IsLocal(rel) {
		return "", fmt.Errorf("location %q leads out of the working tree", location)
	}
	return dir, nil
}
