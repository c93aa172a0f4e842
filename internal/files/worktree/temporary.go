package worktree

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/plait-run/plait/internal/files/git"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
)

// Temporary makes a worktree of a git tree in the repository of a workspace, prepared like one of a thread, calls use
// with the directory in it where the thread would work, and removes it with all that it has. If the repository lacks
// the tree, it comes from the record: it must be what the step at head left. One call at a time may be for a thread.
func (t *Trees) Temporary(ctx context.Context, workspace string, row store.Thread, tree string, head dag.Hash,
	use func(dir string) error) (err error) {
	fail := func(err error) error { return fmt.Errorf("make the files of thread %s: %w", row.ID, err) }
	repo, err := git.Open(ctx, workspace)
	if err != nil {
		return fail(err)
	}
	if err := t.fetch(ctx, repo, row, tree, head); err != nil {
		return fail(err)
	}
	at := row
	at.ID, at.Workspace = "trial-"+row.ID, workspace
	if top, _, ok := Made(row); ok {
		inside, err := filepath.Rel(top, row.Tree)
		if err != nil {
			return fail(err)
		}
		at.Tree = filepath.Join(root(at), inside)
	} else if at.Tree, err = worktreeDir(ctx, at, workspace); err != nil {
		return fail(err)
	}
	if err := discard(repo, at); err != nil { // a killed process left it
		return fail(err)
	}
	defer func() { err = errors.Join(err, discard(repo, at)) }()
	if err := repo.Checkout(ctx, root(at), tree); err != nil {
		return fail(err)
	}
	if err := t.complete(ctx, at, root(at)); err != nil {
		return fail(err)
	}
	return use(at.Tree)
}

// fetch puts a git tree that the step at head left into a repository, unless it is there.
func (t *Trees) fetch(ctx context.Context, repo *git.Repo, row store.Thread, tree string, head dag.Hash) error {
	if has, err := repo.Has(ctx, tree); err != nil || has {
		return err
	}
	files, err := t.keptAt(ctx, row, head)
	if err != nil {
		return err
	}
	chain, err := t.chain(ctx, files)
	if err != nil {
		return err
	}
	if len(chain) == 0 || chain[len(chain)-1].Tree != tree {
		return fmt.Errorf("git tree %s is neither in this repository nor in the record: %w", tree, store.ErrNotFound)
	}
	return t.take(ctx, repo, row, chain)
}
