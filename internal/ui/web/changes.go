package web

import (
	"cmp"
	"context"
	"slices"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/view"
)

// changes are the files that a task changed.
type changes struct {
	Files          []changedFile
	Added, Removed int
	Agents         []agentChanges
	MoreAgents     int               // steps whose patches are not read
	Apart          []agentChanges    // changes that were not merged
	Kept           []thread.KeptTree // worktrees that stay
	Why            string            // why there are no changes
}

// agentChanges are the files that one agent changed, or that are on a branch.
type agentChanges struct {
	Name, Note     string
	Files          []changedFile
	Added, Removed int
}

func (c *agentChanges) add(files []changedFile) {
	c.Files = append(c.Files, files...)
	for _, f := range files {
		c.Added, c.Removed = c.Added+f.Added, c.Removed+f.Removed
	}
}

// maxPatched limits how many steps' patches a page shows.
const maxPatched = 40

// A treeChange is a change from one git tree to another.
type treeChange struct {
	from, to string
	at       int64
	lane     string
}

// changes reads what a task changed, from the recorded trees.
func (s *Server) changes(ctx context.Context, rec view.TaskRecord, tl view.Timeline) (*changes, error) {
	root := rec.Root
	shared := map[string]bool{} // threads that work in the task's own tree
	for _, row := range rec.Threads {
		shared[row.ID] = row.Tree == root.Tree
	}
	out := &changes{}
	var own, each []treeChange
	var apart []thread.MergedSide
	known := false // whether any tree is recorded
	for _, lane := range tl.Lanes {
		for _, h := range stepsOf(lane) {
			state, err := s.cfg.Reader.State(ctx, h)
			if err != nil {
				return nil, err
			}
			d, err := s.cfg.Reader.Detail(ctx, state.Detail)
			if err != nil {
				return nil, err
			}
			if d == nil {
				continue
			}
			if d.Merge != nil {
				known = true
				if shared[lane.Thread] && d.Merge.From != d.Merge.To {
					own = append(own, treeChange{d.Merge.From, d.Merge.To, state.Timestamp, ""})
				}
				out.Kept = append(out.Kept, d.Merge.Kept...)
				for _, side := range d.Merge.Sides {
					if !side.Merged {
						apart = append(apart, side)
					}
				}
				continue
			}
			if d.TreeBefore == nil || d.TreeAfter == nil {
				continue
			}
			known = true
			if *d.TreeBefore == *d.TreeAfter {
				continue
			}
			one := treeChange{*d.TreeBefore, *d.TreeAfter, cmp.Or(d.EndedAt, state.Timestamp), lane.Name}
			each = append(each, one)
			if shared[lane.Thread] {
				own = append(own, one)
			}
		}
	}
	if !known && s.cfg.Control != nil && !s.cfg.Control.UnderGit(ctx, root) {
		out.Why = "No changes were recorded: that takes a Git repository."
		return out, nil
	}
	if err := s.agentsChanges(ctx, root, out, each); err != nil {
		return nil, err
	}
	if err := s.netChanges(ctx, root, out, own); err != nil {
		return nil, err
	}
	for _, side := range apart {
		files, why := s.patchBetween(ctx, root, side.Base, side.Tree)
		one := agentChanges{Name: side.Path, Note: cmp.Or(why, "not merged: on branch "+side.Branch)}
		one.add(files)
		out.Apart = append(out.Apart, one)
	}
	if len(out.Files)+len(out.Apart)+len(out.Kept) == 0 && out.Why == "" {
		out.Why = "No files changed."
	}
	return out, ctx.Err()
}

// stepsOf returns the steps on a lane.
func stepsOf(l view.TimelineLane) (list []dag.Hash) {
	for _, b := range l.Bars {
		if !b.Step.IsZero() {
			list = append(list, b.Step)
		}
	}
	for _, m := range l.Marks {
		if m.Kind == view.MarkJoin {
			list = append(list, m.Step)
		}
	}
	return list
}

// agentsChanges fills in the changes of each agent.
func (s *Server) agentsChanges(ctx context.Context, root store.Thread, out *changes, each []treeChange) error {
	slices.SortStableFunc(each, func(a, b treeChange) int { return cmp.Compare(a.at, b.at) })
	for i, one := range each {
		if i == maxPatched {
			out.MoreAgents = len(each) - i
			break
		}
		at := slices.IndexFunc(out.Agents, func(a agentChanges) bool { return a.Name == one.lane })
		if at < 0 {
			at = len(out.Agents)
			out.Agents = append(out.Agents, agentChanges{Name: one.lane})
		}
		files, why := s.patchBetween(ctx, root, one.from, one.to)
		out.Agents[at].add(files)
		out.Agents[at].Note = cmp.Or(out.Agents[at].Note, why)
	}
	return ctx.Err()
}

// netChanges fills in the changes of the task's own tree from its first step to its last.
func (s *Server) netChanges(ctx context.Context, root store.Thread, out *changes, own []treeChange) error {
	if len(own) == 0 {
		return nil
	}
	slices.SortStableFunc(own, func(a, b treeChange) int { return cmp.Compare(a.at, b.at) })
	out.Files, out.Why = s.patchBetween(ctx, root, own[0].from, own[len(own)-1].to)
	for i := range out.Files {
		f := &out.Files[i]
		out.Added, out.Removed = out.Added+f.Added, out.Removed+f.Removed
		for _, a := range out.Agents {
			if slices.ContainsFunc(a.Files, func(o changedFile) bool { return o.Path == f.Path }) {
				f.By = append(f.By, a.Name)
			}
		}
	}
	return ctx.Err()
}

// patchBetween returns the patch from one tree to another, or the reason why it cannot be shown.
func (s *Server) patchBetween(
	ctx context.Context, row store.Thread, from, to string,
) (files []changedFile, why string) {
	if text, ok := s.patches.get(from, to); ok {
		return splitPatch(text), ""
	}
	if s.cfg.Control == nil {
		return nil, "This is a copy: it has no files to compare."
	}
	text, err := s.cfg.Control.Changes(ctx, row, from, to)
	if err != nil {
		return nil, "The change cannot be shown: " + err.Error()
	}
	s.patches.put(from, to, text)
	return splitPatch(text), ""
}
