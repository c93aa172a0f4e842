package worktree

import (
	"context"
	"fmt"
	"time"

	"github.com/plait-run/plait/internal/files/git"
	"github.com/plait-run/plait/internal/record/store"
)

func ref(thread, name string) string { return "refs/plait/" + thread + "/" + name }

// snapshotTime limits a snapshot, since an agent can leave things that git waits for.
const snapshotTime = time.Minute

// Snapshot returns the git tree of a thread's working tree, kept under a name, or with "" not kept; it returns ""
// without git. In a person's own tree, failing to take a snapshot is not an error.
func (t *Trees) Snapshot(ctx context.Context, row store.Thread, name string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, snapshotTime)
	defer cancel()
	tree, err := t.Hold(ctx, row, name)
	if err == nil {
		err = t.soil(row) // from here on an agent may write
	}
	if err == nil {
		return tree, nil
	}
	if _, _, made := Made(row); made {
		return "", fmt.Errorf("snapshot of thread %s: %w", row.ID, err)
	}
	return "", nil
}

// Hold is like Snapshot, but any failure is an error, and the caller limits its time.
func (t *Trees) Hold(ctx context.Context, row store.Thread, name string) (string, error) {
	work, err := repository(ctx, row)
	if err != nil {
		return "", err
	}
	if name == "" {
		return work.Snapshot(ctx, "")
	}
	return work.Snapshot(ctx, ref(row.ID, name))
}

// Restore resets the worktree of a thread to its state before its n-th attempt or, if that snapshot is missing,
// to the first one up to attempt last. It reports false for a tree that is not the thread's own, and for one
// that an agent left unusable.
func (t *Trees) Restore(ctx context.Context, row store.Thread, n, last int) (bool, error) {
	if !Own(row) {
		return false, nil
	}
	fail := func(err error) (bool, error) {
		return false, fmt.Errorf("put back the tree of thread %s: %w", row.ID, err)
	}
	repo, err := git.Open(ctx, row.Workspace)
	if err != nil {
		return fail(err)
	}
	tree := ""
	for ; n <= last && tree == ""; n++ {
		if tree, err = treeAt(ctx, repo, ref(row.ID, Before(n))); err != nil {
			return fail(err)
		}
	}
	if tree == "" {
		return true, nil // snapshots precede the agent, so none has begun
	}
	work, err := repo.Worktree(ctx, root(row))
	if err != nil {
		return false, nil
	}
	if err := work.Restore(ctx, tree); err != nil {
		return fail(err)
	}
	return true, nil
}
