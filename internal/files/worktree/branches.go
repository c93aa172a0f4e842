package worktree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/files/git"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// A Branch keeps the work that a path of a task left.
type Branch struct {
	Name   string `json:"name"`
	Task   string `json:"task"` // the id of the task
	Commit string `json:"commit"`
	// Merged reports whether the files of the task, or another branch, have the work.
	Merged bool `json:"merged"`
	// CheckedOut reports whether a working tree has the branch checked out, so that it cannot be removed.
	CheckedOut bool `json:"checkedOut"`
}

// Branches returns the branches of a workspace that keep the work of paths, of one task or, if task is "", of all.
// merged has the branches that were merged according to the record. Without git, or if the workspace is gone, there
// are none.
func (t *Trees) Branches(ctx context.Context, workspace, task string, merged map[string]bool) ([]Branch, error) {
	repo, err := git.Open(ctx, workspace)
	if noRepository(err) || errors.Is(err, git.ErrNoGit) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	kept, err := repo.Branches(ctx)
	if err != nil {
		return nil, err
	}
	var out []Branch
	for _, b := range kept {
		of, _, _ := strings.Cut(strings.TrimPrefix(b.Name, branchBase), "/")
		if task == "" || of == task {
			out = append(out, Branch{Name: b.Name, Task: of, Commit: b.Commit, CheckedOut: b.CheckedOut,
				Merged: b.Reached || b.Ours && merged[b.Name]})
		}
	}
	return out, nil
}

// noRepository reports whether git.Open found nothing in a workspace where threads could have left something.
func noRepository(err error) bool {
	return errors.Is(err, git.ErrNone) || errors.Is(err, git.ErrRefused) || errors.Is(err, fs.ErrNotExist)
}

// DropBranch removes a branch, unless it has moved since it was listed.
func (t *Trees) DropBranch(ctx context.Context, workspace string, b Branch) error {
	repo, err := git.Open(ctx, workspace)
	if err != nil {
		return err
	}
	return repo.DropBranch(ctx, b.Name, b.Commit)
}

// Merged returns the branches whose work was merged at one of the joins up to a head. For a branch that was
// made again, the last join counts.
func (t *Trees) Merged(ctx context.Context, row store.Thread) (map[string]bool, error) {
	merged := map[string]bool{}
	for s, err := range t.cfg.Reader.Walk(ctx, row.Head) {
		if err != nil {
			return nil, err
		}
		if s.State.Paths == nil {
			continue
		}
		d, err := t.cfg.Reader.Detail(ctx, s.State.Detail)
		if err != nil {
			return nil, err
		}
		if d == nil || d.Merge == nil {
			continue
		}
		for _, side := range d.Merge.Sides {
			if _, known := merged[side.Branch]; !known {
				merged[side.Branch] = side.Merged
			}
		}
	}
	return merged, nil
}

// dropMerged removes the branch of a path whose work was merged, unless it was changed or is checked out.
func dropMerged(ctx context.Context, repo *git.Repo, m *thread.Merge, path string) error {
	if m == nil {
		return nil
	}
	i := slices.IndexFunc(m.Sides, func(s thread.MergedSide) bool { return s.Path == path && s.Merged })
	if i < 0 {
		return nil
	}
	kept, err := repo.Branches(ctx)
	if err != nil {
		return err
	}
	for _, b := range kept {
		if b.Name != m.Sides[i].Branch || !b.Ours || b.CheckedOut {
			continue
		}
		if err := repo.DropBranch(ctx, b.Name, b.Commit); err != nil && !errors.Is(err, git.ErrRefused) {
			return fmt.Errorf("remove the branch of path %s: %w", path, err)
		}
	}
	return nil
}
