package worktree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/plait-run/plait/internal/files/git"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// maxLeft is how much of what a worktree has is named.
const maxLeft = 20

// why maps what git says about what is left to the words of the record.
var why = map[git.Why]thread.Why{git.InSubmodule: thread.WhySubmodule, git.OfSubmodule: thread.WhyCommits,
	git.Repository: thread.WhyRepository, git.Ignored: thread.WhyIgnored}

// Leftovers returns, for the completed paths of a join that have worktrees here, what no merge can take, and how many
// caches each of the others has.
func (t *Trees) Leftovers(ctx context.Context, paths []store.Thread) (kept []thread.KeptTree, caches map[string]int,
	err error) {
	caches = map[string]int{}
	for _, row := range paths {
		if !Own(row) || row.Status != store.Completed {
			continue
		}
		k, n, err := t.left(ctx, row)
		switch {
		case err != nil:
			return nil, nil, err
		case len(k.Left) > 0:
			kept = append(kept, k)
		default:
			caches[k.Path] = n
		}
	}
	return kept, caches, nil
}

// left returns what the worktree of a thread has that no snapshot can keep, and how many caches it has.
func (t *Trees) left(ctx context.Context, row store.Thread) (k thread.KeptTree, caches int, err error) {
	if row.Path != nil {
		k.Path = row.Path.ID
	}
	top := root(row)
	if _, err := os.Lstat(top); errors.Is(err, fs.ErrNotExist) {
		return k, 0, nil
	}
	within, cancel := context.WithTimeout(ctx, snapshotTime)
	defer cancel()
	l, err := t.leftIn(within, row, top)
	if ctx.Err() != nil {
		return k, 0, err
	}
	if err != nil { // an agent left it so
		k.Left = []thread.Left{{Path: "./", Why: thread.WhyUnreadable}}
		return k, 0, nil
	}
	for _, found := range l.Left[:min(len(l.Left), maxLeft)] {
		k.Left = append(k.Left, thread.Left{Path: validName(found.Path), Why: why[found.Why]})
	}
	k.More = len(l.Left) - len(k.Left)
	return k, len(l.Caches), nil
}

func (t *Trees) leftIn(ctx context.Context, row store.Thread, top string) (l git.Leftovers, err error) {
	repo, err := git.Open(ctx, row.Workspace)
	if err != nil {
		return l, err
	}
	work, err := repo.Worktree(ctx, top)
	if err != nil {
		return l, err
	}
	lose, err := t.mayLose(top)
	if err != nil {
		return l, err
	}
	return work.Leftovers(ctx, lose)
}

// mayLose says which ignored files may be lost with a worktree.
func (t *Trees) mayLose(top string) (git.Caches, error) {
	made, err := os.ReadFile(readyFile(top))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return git.Caches{}, err
	}
	c := git.Caches{Names: t.cfg.Discard}
	if len(made) > 0 {
		c.Made = strings.Split(string(made), "\x00")
	}
	return c, nil
}

// made returns the ignored files and directories in a worktree that was just set up.
func made(ctx context.Context, row store.Thread, top string) ([]string, error) {
	repo, err := git.Open(ctx, row.Workspace)
	if err != nil {
		return nil, err
	}
	work, err := repo.Worktree(ctx, top)
	if err != nil {
		return nil, err
	}
	l, err := work.Leftovers(ctx, git.Caches{})
	names := l.Caches
	for _, found := range l.Left {
		if found.Why == git.Ignored {
			names = append(names, found.Path)
		}
	}
	return names, err
}

// A Tree is a worktree that was made for a thread.
type Tree struct {
	Thread string       `json:"thread"` // its id
	Task   string       `json:"task"`   // the id of the task
	Status store.Status `json:"status"` // of the thread
	Dir    string       `json:"dir"`    // absolute
	Ended  int64        `json:"ended"`  // when the thread ended, Unix ms; 0: it has not
	thread.KeptTree
}

// Existing returns the worktrees that exist of some threads.
func (t *Trees) Existing(ctx context.Context, rows []store.Thread) ([]Tree, error) {
	out := []Tree{}
	for _, row := range rows {
		top := root(row)
		if _, err := os.Lstat(top); err != nil || !Own(row) {
			continue
		}
		has, _, err := t.left(ctx, row)
		if err != nil {
			return nil, fmt.Errorf("look into %s: %w", top, err)
		}
		has.Left = append([]thread.Left{}, has.Left...)
		out = append(out, Tree{Thread: row.ID, Task: row.Task, Status: row.Status, Dir: top, Ended: row.EndedAt,
			KeptTree: has})
	}
	return out, nil
}

// Drop removes the worktree of an ended thread with all that it has, and keeps a snapshot if git can make one.
func (t *Trees) Drop(ctx context.Context, row store.Thread) error {
	repo, err := git.Open(ctx, row.Workspace)
	if err != nil {
		return err
	}
	if work, err := repo.Worktree(ctx, root(row)); err == nil {
		work.Snapshot(ctx, ref(row.ID, "dropped"))
	}
	return discard(repo, row)
}
