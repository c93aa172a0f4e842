package web

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/view"
)

// changes are what a task changed.
type changes struct {
	Diff       *diffView // of the task's own files, from its first step to its last; nil if nothing changed there
	Agents     []agentChange
	MoreAgents int               // steps whose patches are not read
	Apart      []agentChange     // changes that were not merged
	Kept       []thread.KeptTree // worktrees that stay
	Why        string            // why there are no changes
}

// An agentChange is what one agent changed in a step, or what is on a branch.
type agentChange struct {
	Name, Note     string
	Link           string // to the page of the change
	Files          int
	Added, Removed int
	paths          []string
}

// newAgentChange reads what changed from one tree to another.
func (s *Server) newAgentChange(ctx context.Context, root store.Thread, name, thread, from, to string) agentChange {
	files, why := s.patchBetween(ctx, root, from, to)
	c := agentChange{Name: name, Note: why, Link: changesLink(thread, from, to), Files: len(files)}
	for _, f := range files {
		c.Added, c.Removed = c.Added+f.Added, c.Removed+f.Removed
		c.paths = append(c.paths, f.Path)
	}
	return c
}

// maxPatched limits how many steps' patches a page shows.
const maxPatched = 40

// A treeChange is a change from one git tree to another.
type treeChange struct {
	from, to     string
	at           int64
	lane, thread string
}

// A changeLog is the changes of a task, as its steps recorded them.
type changeLog struct {
	own   []treeChange // of the task's own tree, oldest first
	each  []treeChange // of agents, oldest first
	apart []mergeSide  // that were not merged
	kept  []thread.KeptTree
	known bool // whether any tree is recorded
}

// A mergeSide is what a path offered to merge.
type mergeSide struct {
	thread.MergedSide
	thread string // that merged
}

// changes reads what a task changed, from the recorded trees.
func (s *Server) changes(ctx context.Context, rec view.TaskRecord, tl view.Timeline) (*changes, error) {
	root, out := rec.Root, &changes{}
	log, err := s.changeLog(ctx, rec, tl)
	if err != nil {
		return nil, err
	}
	if !log.known && s.cfg.Control != nil && !s.cfg.Control.UnderGit(ctx, root) {
		out.Why = "No changes were recorded: that takes a Git repository."
		return out, nil
	}
	out.Kept = log.kept
	out.Agents, out.MoreAgents = s.agentChanges(ctx, root, log.each)
	if n := len(log.own); n > 0 {
		from, to := log.own[0].from, log.own[n-1].to
		var files []changedFile
		if files, out.Why = s.patchBetween(ctx, root, from, to); len(files) > 0 {
			changedBy(files, out.Agents)
			said, err := s.given(ctx, tl)
			if err != nil {
				return nil, err
			}
			out.Diff = newDiffView(files, diffOptions{id: "changes", at: changesLink(root.ID, from, to), from: from, to: to,
				remark: s.remarkOn(root, root), given: said})
		}
	}
	for _, side := range log.apart {
		one := s.newAgentChange(ctx, root, side.Path, side.thread, side.Base, side.Tree)
		one.Note = cmp.Or(one.Note, "not merged: on branch "+side.Branch)
		out.Apart = append(out.Apart, one)
	}
	if out.Diff == nil && len(out.Apart)+len(out.Kept) == 0 && out.Why == "" {
		out.Why = "No files changed."
	}
	return out, ctx.Err()
}

// recordOf reads a task, with its timeline.
func (s *Server) recordOf(ctx context.Context, root store.Thread) (rec view.TaskRecord, tl view.Timeline, err error) {
	if rec, err = s.views.Record(ctx, root); err == nil {
		tl, err = s.views.Timeline(ctx, rec, time.Now())
	}
	return rec, tl, err
}

// changeLog reads the changes that a task's steps recorded.
func (s *Server) changeLog(ctx context.Context, rec view.TaskRecord, tl view.Timeline) (changeLog, error) {
	shared := map[string]bool{} // threads that work in the task's own tree
	for _, row := range rec.Threads {
		shared[row.ID] = row.Tree == rec.Root.Tree
	}
	var log changeLog
	for _, lane := range tl.Lanes {
		for _, h := range stepsOf(lane) {
			state, err := s.cfg.Reader.State(ctx, h)
			if err != nil {
				return log, err
			}
			d, err := s.cfg.Reader.Detail(ctx, state.Detail)
			if err != nil {
				return log, err
			}
			if d == nil {
				continue
			}
			one := treeChange{at: cmp.Or(d.EndedAt, state.Timestamp), lane: lane.Name, thread: lane.Thread}
			switch {
			case d.Merge != nil:
				log.known = true
				log.kept = append(log.kept, d.Merge.Kept...)
				for _, side := range d.Merge.Sides {
					if !side.Merged {
						log.apart = append(log.apart, mergeSide{side, lane.Thread})
					}
				}
				one.from, one.to, one.at = d.Merge.From, d.Merge.To, state.Timestamp
			case d.TreeBefore != nil && d.TreeAfter != nil:
				log.known = true
				if one.from, one.to = *d.TreeBefore, *d.TreeAfter; one.from != one.to {
					log.each = append(log.each, one)
				}
			}
			if one.from != one.to && shared[lane.Thread] {
				log.own = append(log.own, one)
			}
		}
	}
	for _, list := range [][]treeChange{log.own, log.each} {
		slices.SortStableFunc(list, func(a, b treeChange) int { return cmp.Compare(a.at, b.at) })
	}
	return log, nil
}

// stepChanges reads what a step of a thread changed. tl is the timeline of its task.
func (s *Server) stepChanges(ctx context.Context, c *selection, row, root store.Thread, tl view.Timeline) error {
	if c.Step.Detail == nil {
		return nil
	}
	from, to := c.Step.Detail.Trees()
	if from == to || from == "" || to == "" {
		return nil
	}
	var files []changedFile
	if files, c.DiffWhy = s.patchBetween(ctx, row, from, to); len(files) == 0 {
		return nil
	}
	said, err := s.given(ctx, tl)
	c.Diff = newDiffView(files, diffOptions{id: "step", at: changesLink(row.ID, from, to), from: from, to: to,
		remark: s.remarkOn(row, root), given: said})
	return err
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

// agentChanges reads what agents changed, and returns how many of their steps it did not read.
func (s *Server) agentChanges(ctx context.Context, root store.Thread, each []treeChange) (list []agentChange,
	more int) {
	for _, one := range each[:min(len(each), maxPatched)] {
		list = append(list, s.newAgentChange(ctx, root, one.lane, one.thread, one.from, one.to))
	}
	return list, len(each) - len(list)
}

// changedBy sets which agents changed each file.
func changedBy(files []changedFile, agents []agentChange) {
	for i := range files {
		f := &files[i]
		for _, a := range agents {
			if slices.Contains(a.paths, f.Path) && !slices.Contains(f.By, a.Name) {
				f.By = append(f.By, a.Name)
			}
		}
	}
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
