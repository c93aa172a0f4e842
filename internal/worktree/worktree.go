// Package worktree keeps where threads work: places a thread's tree, makes it ready, remembers how
// it was, puts it back, merges what paths changed, and takes it away.
//
// In go rows of threads, and the trees that their steps recorded; out come directories and git
// trees. A thread has one working tree, and one agent at a time writes in it. A path that writes
// has a git worktree of its own where there is git, made of its parent's tree as of the fork; so
// has a fork by hand, of the tree that its step left. Else they work in their parent's.
//
// On a worker, which has no directory of a person, every thread has a worktree, made of what the record has
// (settle.go): it can go on on any machine.
//
// Laws:
//
//   - What an agent may have touched is never run and never asked: a made tree is opened from the
//     workspace's repository.
//   - Every change of a tree can be repeated: it says from which tree to which.
//   - Nothing here moves a head or changes a row.
package worktree

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"

	"github.com/plait-run/plait/internal/git"
	"github.com/plait-run/plait/internal/proc"
	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/thread"
)

// Config says what working trees are made of.
type Config struct {
	Store  store.Index
	Reader *thread.Reader
	Setup  []string   // the command that makes a new worktree ready; nil: none
	Cell   *proc.Cell // where that command runs, nil: as it is
	Place  Place      // for tasks without a person's directory; nil: there are none
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

// UnderGit reports whether a directory is in a git repository, so that threads can have worktrees of
// their own.
func UnderGit(ctx context.Context, dir string) bool {
	_, err := git.Open(ctx, dir)
	return err == nil
}

// Before names the snapshot of the working tree before a thread's n-th attempt.
func Before(n int) string { return fmt.Sprintf("attempt-%d", n) }

// Inside returns a directory inside a working tree. Agents can make links there:
// one that leads out is refused.
func Inside(tree, location string) (string, error) {
	dir := filepath.Join(tree, filepath.FromSlash(location))
	if location == "" {
		return dir, nil
	}
	root, err := filepath.EvalSymlinks(tree)
	if err != nil {
		return dir, nil // whoever works there will say what is missing
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
