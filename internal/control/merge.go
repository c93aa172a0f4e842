package control

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/engine"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/git"
	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/thread"
)

// What becomes, at a join, of the files that paths changed in worktrees of their own.
const (
	MergeAuto = "auto" // they are merged; where that cannot be, a person is asked
	MergeAsk  = "ask"  // a person is asked before any is merged
	MergeKeep = "keep" // they stay on branches
)

// A sided path is one that changed files in a worktree of its own.
type sided struct {
	row store.Thread
	thread.MergedSide
}

// merge brings what the paths of a decided join left into the tree of their thread, and
// keeps each of them on a branch; of a join that is not met, that is all, for a planner that
// goes on. Not done: a person is asked first, and the row says
// so.
func (p *paths) merge(ctx context.Context) (row store.Thread, done bool, err error) {
	ctx = context.WithoutCancel(ctx)
	d, at := p.drive, p.at
	fail := func(err error) (store.Thread, bool, error) {
		err = fmt.Errorf("merge the files of join %s in thread %s: %w", p.fork.Join, at.ID, err)
		if !errors.Is(err, git.ErrRefused) {
			return at.Thread, false, err
		}
		// An agent has left it so, and no further try mends it.
		if p.fork.Decision.Merge != nil {
			if err := p.keep(ctx, nil); err != nil {
				return at.Thread, false, err
			}
		}
		row, err := d.engine.Block(ctx, at.ID, at.Head, store.Reason{Kind: store.ReasonAttempts,
			Message: err.Error() + "; mend it and resume, or resume with --merge keep: then all of it stays on branches"})
		return row, false, err
	}
	if p.fork.Decision.Outcome != flow.Joined && p.fork.Plan != nil && !p.fork.Plan.Replans() {
		return at.Thread, true, nil // nothing goes on from here
	}
	var changed error
	for range 3 { // unless a person changes the files at the same time
		if p.fork.Decision.Merge == nil {
			m, why, err := d.trial(ctx, at, p.fork)
			switch {
			case err != nil:
				return fail(err)
			case why != nil:
				row, err := d.engine.Block(ctx, at.ID, at.Head, *why)
				return row, false, err
			case m == nil:
				return at.Thread, true, nil
			}
			if err := p.keep(ctx, m); err != nil {
				return fail(err)
			}
		}
		err := d.apply(ctx, at.Thread, p.fork.Decision.Merge)
		if err == nil {
			return at.Thread, true, nil
		}
		if changed = err; !errors.Is(err, git.ErrChanged) {
			return fail(err)
		}
		if err := p.keep(ctx, nil); err != nil {
			return fail(err)
		}
	}
	row, err = d.engine.Block(ctx, at.ID, at.Head, store.Reason{Kind: store.ReasonConflict,
		Message: unsettled + treeOf(at.Thread) + ": " + changed.Error() + "; resume when they are at rest and nothing is in the way"})
	return row, false, err
}

// unsettled begins why a merge waits for no answer, but for files to come to rest.
const unsettled = "files cannot be merged into those in "

// keep notes what is to become of the files before any is touched.
func (p *paths) keep(ctx context.Context, m *thread.Merge) error {
	f, err := p.engine.Merge(ctx, p.at.ID, p.at.Head, m)
	if err == nil {
		p.fork = f
	}
	return err
}

// sides returns the paths that changed files in worktrees of their own, with the branches
// that keep what they left.
func (d *drive) sides(ctx context.Context, repo *git.Repo, f *engine.Fork) ([]sided, error) {
	var out []sided
	joined, err := d.joinedBefore(ctx, f)
	if err != nil {
		return nil, err
	}
	for _, row := range f.Paths {
		if !ownTree(row) || row.Status != store.Completed {
			continue
		}
		left, err := d.leftTree(ctx, row.Head, row.Parent.From)
		if err != nil {
			return nil, err
		}
		base, err := d.beganWith(ctx, repo, row)
		if err != nil {
			return nil, err
		}
		if left == "" || left == base {
			continue
		}
		if base == "" {
			return nil, fmt.Errorf("%w: the snapshots below refs/plait/ that tell how the files of %s were are gone", git.ErrRefused, row.Path.ID)
		}
		s := sided{row, thread.MergedSide{Path: row.Path.ID, Base: base, Tree: left, Conflicts: []string{}, Protected: []string{}}}
		s.Branch = branchOf(row, joined[row.Path.ID])
		changes, err := repo.Changed(ctx, base, left)
		if err != nil {
			return nil, err
		}
		for _, c := range changes {
			if agent.Protected(c.Path) {
				s.Protected = append(s.Protected, shown(c.Path))
			}
		}
		asOf, err := d.forkRef(ctx, repo, row)
		if err != nil {
			return nil, err
		}
		if _, err := repo.Branch(ctx, s.Branch, left, asOf, "What "+row.Path.ID+" did for task "+row.Task, time.UnixMilli(row.EndedAt)); err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

// forkRef returns the ref that keeps the files of a path's parent as of the fork, "" when
// there is none.
func (d *drive) forkRef(ctx context.Context, repo *git.Repo, row store.Thread) (string, error) {
	from := []string{row.Parent.Thread}
	if parent, err := d.cfg.Store.Thread(ctx, row.Parent.Thread); err != nil {
		return "", err
	} else if parent.ForkedFrom != nil {
		from = append(from, parent.ForkedFrom.Thread)
	}
	for _, id := range from {
		if tree, err := keptTree(ctx, repo, id, forkTree(row)); err != nil || tree != "" {
			return treeRef(id, forkTree(row)), err
		}
	}
	return "", nil
}

// beganWith returns the tree that a path's worktree was like when its first agent began:
// as the record has it, where it does, since agents may be able to move refs; else that of
// the thread which made its first step, since a path may go on from where another one was.
func (d *drive) beganWith(ctx context.Context, repo *git.Repo, row store.Thread) (string, error) {
	first, before, alone := row.ID, "", false
	for s, err := range d.reader.Walk(ctx, row.Head) {
		if err != nil {
			return "", err
		}
		if s.Hash == row.Parent.From {
			break
		}
		if !thread.Routed(s.State.Role) {
			continue
		}
		detail, err := d.reader.Detail(ctx, s.State.Detail)
		if err != nil {
			return "", err
		}
		if first, alone = "", false; detail == nil {
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
		if tree, err := keptTree(ctx, repo, first, engine.TreeBefore(1)); err != nil || tree != "" {
			return tree, err
		}
	}
	ref, err := d.forkRef(ctx, repo, row)
	if err != nil || ref == "" {
		return before, err
	}
	return keptAt(ctx, repo, ref)
}

// shown is a file's name as a record can hold it: git allows any bytes.
func shown(name string) string { return strings.ToValidUTF8(name, "\uFFFD") }

func shownAll(names []string) []string {
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = shown(name)
	}
	return out
}

// joinedBefore tells which paths the thread of a fork has joined before: a flow may come to
// the same fork again.
func (d *drive) joinedBefore(ctx context.Context, f *engine.Fork) (map[string]bool, error) {
	ids := map[string]bool{}
	for s, err := range d.reader.Walk(ctx, f.Paths[0].Parent.From) {
		if err != nil {
			return nil, err
		}
		for _, p := range s.State.Paths {
			ids[p.ID] = true
		}
	}
	return ids, nil
}

// branchOf names the branch that keeps what a path left.
func branchOf(row store.Thread, again bool) string {
	name := row.Path.ID
	if again || row.Path.N > 1 || row.Parent.Thread != row.Root {
		name += "-" + strings.ToLower(row.ID[max(len(row.ID)-8, 0):])
	}
	return "plait/" + row.Task + "/" + name
}

// trial finds out what the files of the paths come to. It touches none. why is set when a
// person has to be asked first; m is nil when nobody changed a file.
func (d *drive) trial(ctx context.Context, at engine.Stand, f *engine.Fork) (m *thread.Merge, why *store.Reason, err error) {
	if !slices.ContainsFunc(f.Paths, ownTree) {
		return nil, nil, nil
	}
	repo, err := git.Open(ctx, at.Workspace)
	if err != nil {
		return nil, nil, err
	}
	sides, err := d.sides(ctx, repo, f)
	if err != nil || len(sides) == 0 {
		return nil, nil, err
	}
	m = &thread.Merge{}
	policy, err := mergePolicy(at.Thread)
	if err != nil {
		return nil, nil, err
	}
	work, err := repository(ctx, at.Thread)
	if err != nil {
		return nil, nil, err
	}
	if m.From, err = work.Snapshot(ctx, treeRef(at.ID, "join-"+at.Head.Short())); err != nil {
		return nil, nil, err
	}
	if policy == MergeKeep || f.Decision.Outcome != flow.Joined {
		m.To = m.From
		for _, s := range sides {
			m.Sides = append(m.Sides, s.MergedSide)
		}
		return m, nil, nil
	}
	list := make([]git.Side, len(sides))
	for i, s := range sides {
		list[i] = git.Side{Name: s.Path, Base: s.Base, Tree: s.Tree}
	}
	merged, err := repo.Merge(ctx, m.From, list)
	if err != nil {
		return nil, nil, err
	}
	asked := policy == MergeAsk || len(merged.Conflicts) > 0 || slices.ContainsFunc(sides, func(s sided) bool { return len(s.Protected) > 0 })
	if asked {
		g, err := d.askMerge(ctx, at, f, repo, m.From, sides, merged)
		switch {
		case err != nil:
			return nil, nil, err
		case g.State == store.GateOpen:
			return nil, asksMerge(g), nil
		case g.State != store.GateApproved:
			merged = git.Merged{Tree: m.From, Conflicts: merged.Conflicts}
		}
	}
	m.To = merged.Tree
	for _, s := range sides {
		s.Merged = slices.Contains(merged.Taken, s.Path)
		for _, c := range merged.Conflicts {
			if c.Name == s.Path {
				s.Conflicts = shownAll(c.Paths)
			}
		}
		m.Sides = append(m.Sides, s.MergedSide)
	}
	return m, nil, nil
}

// apply brings the files of a thread's tree from before the merge to after it. It may be
// repeated.
func (d *drive) apply(ctx context.Context, row store.Thread, m *thread.Merge) error {
	if m.From == m.To {
		return nil
	}
	work, err := repository(ctx, row)
	if err != nil {
		return err
	}
	return work.Apply(ctx, m.From, m.To)
}

func mergePolicy(row store.Thread) (string, error) {
	o, err := optionsOf(row)
	if o.Merge == "" {
		return MergeAuto, err
	}
	return o.Merge, err
}

// tidy takes away the worktrees of paths that were merged, or changed nothing: those in
// which nothing has happened since. What a person may want to look at stays, and of what
// goes a snapshot is kept.
func (d *drive) tidy(ctx context.Context, f *engine.Fork) error {
	ctx = context.WithoutCancel(ctx)
	if f.Decision == nil || f.Decision.Outcome != flow.Joined {
		return nil
	}
	kept := map[string]bool{}
	if f.Decision.Merge != nil {
		for _, s := range f.Decision.Merge.Sides {
			kept[s.Path] = !s.Merged
		}
	}
	for _, row := range f.Paths {
		if !ownTree(row) || row.Status != store.Completed || kept[row.Path.ID] {
			continue
		}
		repo, err := git.Open(ctx, row.Workspace)
		if err != nil {
			return err
		}
		root := worktreeRoot(row)
		if _, err := os.Lstat(root); err != nil {
			continue
		}
		left, err := d.leftTree(ctx, row.Head, row.Parent.From)
		if err != nil {
			return err
		}
		work, err := repo.Worktree(ctx, root)
		if err != nil {
			continue // an agent has left it unusable: it stays for a person to look at
		}
		now, err := work.Snapshot(ctx, "")
		if err != nil || left != "" && now != left {
			continue
		}
		_, err = repo.Remove(ctx, root, treeRef(row.ID, "joined"))
		if err == nil {
			err = os.RemoveAll(root + ".ready")
		}
		if err != nil && !errors.Is(err, git.ErrHeld) {
			return fmt.Errorf("remove the working tree of thread %s: %w", row.ID, err)
		}
	}
	return nil
}
