package worktree

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/plait-run/plait/internal/files/git"
	"github.com/plait-run/plait/internal/record/store"
)

// Lacks reports whether a worktree for a path or child of row that writes will lack a file that row's tree has: one
// that git ignores, or Plait's own. The setup command could make any file.
func (t *Trees) Lacks(ctx context.Context, row store.Thread, name string) (bool, error) {
	if _, _, made := Made(row); made || len(t.cfg.Setup) > 0 {
		return false, nil
	}
	dir, err := filepath.EvalSymlinks(Of(row))
	if err != nil {
		return false, nil
	}
	file := filepath.Join(dir, name)
	if _, err := os.Lstat(file); err != nil {
		return false, nil
	}
	repo, err := git.Open(ctx, dir)
	if err != nil {
		return false, nil // then there will be no worktree
	}
	takes, err := repo.Takes(ctx, file)
	return !takes, err
}

// ErrNoCommit is the error for a name that means no commit of a thread's repository.
var ErrNoCommit = git.ErrNoCommit

// KeepCommit keeps a commit of the repository that a thread works in, given by the beginning of its id, and returns
// the id and the commit object. Without git there is none.
func (t *Trees) KeepCommit(ctx context.Context, row store.Thread, name string) (id string, object []byte, err error) {
	work, err := repository(ctx, row)
	if errors.Is(err, git.ErrNone) {
		return "", nil, ErrNoCommit
	}
	if err != nil {
		return "", nil, err
	}
	return work.KeepCommit(ctx, name, func(id string) string { return ref(row.ID, "artifact-"+id) })
}
