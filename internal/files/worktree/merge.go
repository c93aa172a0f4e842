package worktree

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/plait-run/plait/internal/files/git"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// Why files cannot be merged.
var (
	// ErrRefused reports that a tree was left in a state that no retry can use.
	ErrRefused = git.ErrRefused
	// ErrChanged reports that files changed during a merge, or are in the way.
	ErrChanged = git.ErrChanged
	// ErrAway reports that the repository lacks the result of a merge: it was made on another machine, or git has
	// removed it meanwhile.
	ErrAway = errors.New("what was merged is not in this repository")
	// ErrTooLarge reports that a diff is too long to show.
	ErrTooLarge = git.ErrTooLarge
)

// A Merged is the result of merging sides as git trees. No working tree has changed.
type Merged struct {
	Tree      string
	Taken     []string            // the paths that merged
	Conflicts map[string][]string // the files of each path that did not
	Overlaps  map[string][]string // by file: the paths that changed it, if there are several
}

// Sides returns the paths of a join that changed files in their own worktrees, and keeps the work of each on
// a branch.
func (t *Trees) Sides(ctx context.Context, paths []store.Thread) ([]thread.MergedSide, error) {
	if !slices.ContainsFunc(paths, Own) {
		return nil, nil
	}
	if t.placed(paths[0]) {
		if err := t.gatherSides(ctx, paths); err != nil {
			return nil, err
		}
	}
	repo, err := git.Open(ctx, paths[0].Workspace)
	if err != nil {
		return nil, err
	}
	joined, err := t.joinedBefore(ctx, paths[0].Parent.From)
	if err != nil {
		return nil, err
	}
	var out []thread.MergedSide
	for _, row := range paths {
		if !Own(row) || row.Status != store.Completed {
			continue
		}
		left, err := t.Left(ctx, row.Head, row.Parent.From)
		if err != nil {
			return nil, err
		}
		base, err := t.firstTree(ctx, repo, row)
		if err != nil {
			return nil, err
		}
		if base != "" && t.placed(row) {
			if has, err := repo.Has(ctx, base); err != nil {
				return nil, err
			} else if !has { // a snapshot from another machine
				asOf := ref(row.Parent.Thread, asOfFork(row))
				if base, err = treeAt(ctx, repo, asOf); err != nil {
					return nil, err
				}
			}
		}
		if left == "" || left == base {
			continue
		}
		if base == "" {
			return nil, fmt.Errorf("%w: the snapshots of %s below refs/plait/ are missing",
				git.ErrRefused, row.Path.ID)
		}
		s := thread.MergedSide{
			Path: row.Path.ID, Base: base, Tree: left, Conflicts: []string{}, Protected: []string{},
		}
		s.Branch = branchOf(row, joined[row.Path.ID])
		changes, err := repo.Changed(ctx, base, left)
		if err != nil {
			return nil, err
		}
		for _, name := range changes {
			if Protected(name) {
				s.Protected = append(s.Protected, validName(name))
			}
		}
		_, asOf, err := t.forkSnapshot(ctx, repo, row)
		if err != nil {
			return nil, err
		}
		message := "What " + row.Path.ID + " did for task " + row.Task
		if _, err := repo.Branch(ctx, s.Branch, left, asOf, message, time.UnixMilli(row.EndedAt)); err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

// Try merges the sides into a tree of row's repository, without touching any files.
func (t *Trees) Try(ctx context.Context, row store.Thread, into string, sides []thread.MergedSide) (Merged, error) {
	repo, err := git.Open(ctx, row.Workspace)
	if err != nil {
		return Merged{}, err
	}
	list := make([]git.Side, len(sides))
	for i, s := range sides {
		list[i] = git.Side{Name: s.Path, Base: s.Base, Tree: s.Tree}
	}
	found, err := repo.Merge(ctx, into, list)
	if err != nil {
		return Merged{}, err
	}
	m := Merged{Tree: found.Tree, Taken: found.Taken, Conflicts: map[string][]string{}, Overlaps: map[string][]string{}}
	for _, c := range found.Conflicts {
		m.Conflicts[c.Name] = validNames(c.Paths)
	}
	for file, names := range found.Touched {
		if len(names) > 1 {
			m.Overlaps[validName(file)] = names
		}
	}
	return m, nil
}

// Changed returns the names of the files that two trees of the repository of a directory differ in, none if it does not
// have the trees.
func Changed(ctx context.Context, dir, from, to string) []string {
	repo, err := git.Open(ctx, dir)
	if err != nil {
		return nil
	}
	names, _ := repo.Changed(ctx, from, to)
	return names
}

// Diff returns the patch from one tree to another. The error matches ErrTooLarge if it is too long.
func (t *Trees) Diff(ctx context.Context, row store.Thread, from, to string) (string, error) {
	repo, err := git.Open(ctx, row.Workspace)
	if err != nil {
		return "", err
	}
	diff, err := repo.Diff(ctx, from, to)
	return validName(string(diff)), err
}

// File returns a file of a git tree of a thread.
func (t *Trees) File(ctx context.Context, row store.Thread, tree, path string) (string, error) {
	repo, err := git.Open(ctx, row.Workspace)
	if err != nil {
		return "", err
	}
	data, err := repo.File(ctx, tree, path)
	return string(data), err
}

// Apply changes the files of a thread's tree from before the merge to after it. It may be repeated. If the
// error matches ErrAway, the merge has to be repeated here.
func (t *Trees) Apply(ctx context.Context, row store.Thread, m *thread.Merge) error {
	if m.From == m.To {
		return nil
	}
	work, err := repository(ctx, row)
	if err != nil {
		return err
	}
	for _, tree := range []string{m.From, m.To} {
		if has, err := work.Has(ctx, tree); err != nil {
			return err
		} else if !has {
			return fmt.Errorf("apply %s: %w", tree, ErrAway)
		}
	}
	return work.Apply(ctx, m.From, m.To)
}

// Tidy removes the worktrees of completed paths that were merged or changed nothing, and keeps a snapshot of each;
// the branch of what was merged goes too. It leaves a tree that has changed since the path's last step, that has what
// no snapshot can keep, or that cannot be opened: a person may want to look at it.
func (t *Trees) Tidy(ctx context.Context, paths []store.Thread, m *thread.Merge) error {
	ctx = context.WithoutCancel(ctx)
	kept, stays := map[string]bool{}, map[string]bool{}
	if m != nil {
		for _, s := range m.Sides {
			kept[s.Path] = !s.Merged
		}
		for _, k := range m.Kept {
			stays[k.Path] = true
		}
	}
	for _, row := range paths {
		if !Own(row) || row.Status != store.Completed || kept[row.Path.ID] {
			continue
		}
		repo, err := git.Open(ctx, row.Workspace)
		if err == nil {
			err = dropMerged(ctx, repo, m, row.Path.ID)
		}
		if err != nil {
			return err
		}
		top := root(row)
		if _, err := os.Lstat(top); err != nil || stays[row.Path.ID] {
			continue
		}
		left, err := t.Left(ctx, row.Head, row.Parent.From)
		if err != nil {
			return err
		}
		work, err := repo.Worktree(ctx, top)
		if err != nil {
			continue // an agent left it unusable: a person may want to look at it
		}
		now, err := work.Snapshot(ctx, "")
		if err != nil || left != "" && now != left {
			continue
		}
		lose, err := t.mayLose(top)
		if err == nil {
			_, err = repo.Remove(ctx, top, ref(row.ID, "joined"), lose)
		}
		if err == nil {
			err = os.RemoveAll(readyFile(top))
		}
		if err != nil && !errors.Is(err, git.ErrHeld) {
			return fmt.Errorf("remove the working tree of thread %s: %w", row.ID, err)
		}
	}
	return nil
}

// firstTree returns the git tree in which a path's first agent began. It is the recorded one if there is one,
// since agents may move refs; otherwise the snapshot of the thread that made the path's first step, since a
// path may continue another one.
func (t *Trees) firstTree(ctx context.Context, repo *git.Repo, row store.Thread) (string, error) {
	first, before, alone := row.ID, "", false
	for s, err := range t.cfg.Reader.Walk(ctx, row.Head) {
		if err != nil {
			return "", err
		}
		if s.Hash == row.Parent.From {
			break
		}
		if !thread.Routed(s.State.Role) {
			continue
		}
		detail, err := t.cfg.Reader.Detail(ctx, s.State.Detail)
		if err != nil {
			return "", err
		}
		first, alone = "", false
		if detail == nil {
			continue
		}
		first, _, _ = strings.Cut(detail.Attempt, ".")
		if detail.TreeBefore != nil {
			before, alone = *detail.TreeBefore, len(detail.Attempts) == 0
		}
	}
	if alone {
		return before, nil
	}
	if first != "" {
		if tree, err := treeAt(ctx, repo, ref(first, Before(1))); err != nil || tree != "" {
			return tree, err
		}
	}
	forked, _, err := t.forkSnapshot(ctx, repo, row)
	return cmp.Or(forked, before), err
}

// joinedBefore returns the ids of the paths that were joined before a head, since a flow may reach the same
// fork more than once.
func (t *Trees) joinedBefore(ctx context.Context, head dag.Hash) (map[string]bool, error) {
	ids := map[string]bool{}
	for s, err := range t.cfg.Reader.Walk(ctx, head) {
		if err != nil {
			return nil, err
		}
		for _, p := range s.State.Paths {
			ids[p.ID] = true
		}
	}
	return ids, nil
}

// branchOf returns the name of the branch that keeps a path's work.
func branchOf(row store.Thread, again bool) string {
	name := row.Path.ID
	if again || row.Path.N > 1 || row.Parent.Thread != row.Root {
		name += "-" + strings.ToLower(row.ID[max(len(row.ID)-8, 0):])
	}
	return branchBase + row.Task + "/" + name
}

// branchBase is the prefix of branch names.
const branchBase = "plait/"

// validName returns a file's name as valid UTF-8; git allows any bytes.
func validName(name string) string { return strings.ToValidUTF8(name, "\uFFFD") }

// validNames returns names as valid UTF-8.
func validNames(names []string) []string {
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = validName(name)
	}
	return out
}
