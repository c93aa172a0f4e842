package control

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// A finding reports what a check found wrong; rapid's T can be one.
type finding func(format string, args ...any)

// tree reads the rows of the task by their position: of a path that was taken up again,
// the newest.
func (w *world) tree(wrong finding) (byPos, byID map[string]store.Thread) {
	rows, err := w.disk.Threads(context.Background(), store.ThreadFilter{})
	if err != nil {
		wrong("threads: %v", err)
	}
	byPos, byID = map[string]store.Thread{}, map[string]store.Thread{}
	for _, row := range rows {
		byID[row.ID] = row
		pos, ok := w.pos[row.ID]
		if !ok {
			wrong("nobody saw thread %s begin", row.ID)
		}
		if was, ok := byPos[pos]; !ok || later(row, was) {
			byPos[pos] = row
		}
	}
	return byPos, byID
}

// later reports whether a took up what b left.
func later(a, b store.Thread) bool {
	return a.Path != nil && b.Path != nil && a.Path.N > b.Path.N
}

// compare compares the task's outcome with the oracle's.
func (w *world) compare(wrong finding) {
	byPos, byID := w.tree(wrong)
	for pos, l := range w.oracle.lines {
		row, ok := byPos[pos]
		switch {
		case l.lost():
			continue
		case !ok:
			wrong("there is no thread %q", pos)
			continue
		}
		reason := ""
		if row.Status == store.Blocked && row.Reason != nil {
			reason = string(row.Reason.Kind)
		}
		if l.status == store.Failed && row.Status == store.Cancelled && row.Path != nil && row.Path.N > 1 &&
			l.up.reason == "join" {
			continue // taken up again for nothing: its join was decided before it began
		}
		if row.Status != l.status || reason != l.reason {
			wrong("thread %q is %s{%s}, want %s{%s}: %+v", pos, row.Status, reason, l.status, l.reason, row.Reason)
		}
		if row.Status != store.Cancelled {
			if got := w.chain(row.Head, wrong); !slices.Equal(got, l.chain) {
				wrong("thread %q is %v, want %v", pos, got, l.chain)
			}
		}
	}
	for _, row := range byID {
		if w.oracle.lines[w.pos[row.ID]] == nil {
			wrong("thread %q (%s) was not to be", w.pos[row.ID], row.ID)
		}
	}
}

func (w *world) chain(head dag.Hash, wrong finding) []string {
	steps, err := w.reader().Steps(context.Background(), head)
	if err != nil {
		wrong("chain of %s: %v", head.Short(), err)
	}
	var roles []string
	for _, s := range steps {
		roles = append(roles, s.State.Role)
	}
	return roles
}

// sound checks that the record is consistent.
func (w *world) sound(wrong finding) {
	ctx := context.Background()
	_, rows := w.tree(wrong)
	for _, row := range rows {
		pos := w.pos[row.ID]
		up := rows[""]
		if row.Parent != nil {
			var ok bool
			if up, ok = rows[row.Parent.Thread]; !ok {
				wrong("thread %q has no parent", pos)
			}
			if up.Ended() && !row.Ended() {
				wrong("thread %q is %s below one that is %s", pos, row.Status, up.Status)
			}
		}
		if row.Ended() != (row.EndedAt != 0) || row.Status != store.Running && row.InFlight != "" {
			wrong("thread %q: %s, ended at %d, in flight %q", pos, row.Status, row.EndedAt, row.InFlight)
		}
		if done := row.Status == store.Completed || row.Status == store.Failed; done && len(row.Decision) > 0 &&
			string(row.Decision) != "null" {
			wrong("thread %q has ended with the decision %s", pos, row.Decision)
		}
		for _, was := range rows {
			if later(row, was) && w.pos[was.ID] == pos && *was.Parent == *row.Parent && was.Status == store.Completed {
				wrong("path %q was taken up again though it had completed", pos)
			}
		}
		steps, err := w.reader().Steps(ctx, row.Head)
		if err != nil {
			wrong("thread %q: %v", pos, err)
		}
		if len(steps) != row.Steps {
			wrong("thread %q has %d steps, its row says %d", pos, len(steps), row.Steps)
		}
		w.soundStart(row, wrong)
		before := []dag.Hash{}
		prev := row.Start
		for i, s := range steps {
			want := before
			if i > 0 {
				want = append([]dag.Hash{prev}, before[:min(len(before), thread.Window-1)]...)
			}
			if !slices.Equal(s.State.Ancestors, want) || s.State.Start != row.Start {
				wrong("thread %q: step %d does not follow step %d", pos, i+1, i)
			}
			if !s.State.ChildThread.IsZero() {
				w.soundCall(rows, prev, s.State, wrong)
			}
			if s.State.Paths != nil {
				w.soundJoin(rows, pos, prev, i, s.State, wrong)
			}
			before, prev = s.State.Ancestors, s.Hash
		}
	}
	attempts, err := w.disk.Attempts(ctx, store.AttemptFilter{})
	if err != nil {
		wrong("attempts: %v", err)
	}
	done := map[string]string{}
	for _, a := range attempts {
		switch a.Status {
		case store.AttemptRunning:
			wrong("attempt %s of %s still runs", a.ID, a.Role)
		case store.AttemptDone:
			key := a.Thread + a.From.String()
			if done[key] != "" {
				wrong("attempts %s and %s became the same step", done[key], a.ID)
			}
			done[key] = a.ID
		}
	}
}

func (w *world) soundStart(row store.Thread, wrong finding) {
	start, err := w.reader().Start(context.Background(), row.Start)
	if err != nil {
		wrong("start of %s: %v", row.ID, err)
		return
	}
	if row.Kind == store.KindCall && start.ParentState != row.Parent.From {
		wrong("the start of %q names %s, it was called from %s", w.pos[row.ID], start.ParentState.Short(),
			row.Parent.From.Short())
	}
	depth := 0
	for at := start; !at.ParentState.IsZero(); depth++ {
		up, err := w.reader().StartOf(context.Background(), at.ParentState)
		if err != nil {
			wrong("caller of %q: %v", w.pos[row.ID], err)
			return
		}
		if at, err = w.reader().Start(context.Background(), up); err != nil {
			wrong("caller of %q: %v", w.pos[row.ID], err)
			return
		}
	}
	if start.Depth != depth {
		wrong("the depth of %q is %d, the walk is %d", w.pos[row.ID], start.Depth, depth)
	}
}

// soundCall checks a calling step against its child.
func (w *world) soundCall(rows map[string]store.Thread, prev dag.Hash, s *thread.State, wrong finding) {
	for _, child := range rows {
		if child.Kind == store.KindCall && child.Head == s.ChildThread {
			if !child.Ended() || child.Parent.From != prev {
				wrong("the call %s follows %s, its child %q is %s and was called from %s", s.Role, prev.Short(),
					w.pos[child.ID], child.Status, child.Parent.From.Short())
			}
			return
		}
	}
	wrong("the call %s names a child that is nobody's end", s.Role)
}

// soundJoin checks the step of a join against its paths and the oracle.
func (w *world) soundJoin(rows map[string]store.Thread, pos string, prev dag.Hash, before int, s *thread.State,
	wrong finding) {
	var meta struct {
		Status    string  `json:"$status"`
		DecidedBy *string `json:"decidedBy"`
	}
	if err := json.Unmarshal(s.Meta, &meta); err != nil {
		wrong("join %s: %v", s.Role, err)
	}
	got := joining{verdict: verdict{outcome: meta.Status}}
	if meta.DecidedBy != nil {
		got.by = *meta.DecidedBy
	}
	var ids []string
	var up string
	for _, p := range s.Paths {
		row := rows[p.Thread]
		if row.Path == nil || row.Path.ID != p.ID || row.Head != p.Head || row.Status != p.Status ||
			row.Path.Fork != s.Fork || row.Path.Join != s.Role {
			wrong("join %s names path %+v, which is %+v", s.Role, p, row)
			return
		}
		ids = append(ids, p.ID)
		got.paths = append(got.paths, string(p.Status))
		if p.Head == prev && prev != s.Fork {
			got.follows = p.ID
		}
		up = w.pos[row.Parent.Thread]
	}
	want, ok := w.oracle.joins[keyOf(up, before)]
	switch l := w.oracle.lines[up]; {
	case l == nil:
		wrong("join %s is of %q, which was not to be", s.Role, up)
	case l.status == store.Cancelled || l.lost():
		return // that is as far as it got
	case !ok:
		wrong("thread %q was not to join at step %d (%s)", up, before+1, s.Role)
	}
	// A path with no steps is where the fork is.
	if want.follows != "" && prev == s.Fork {
		got.follows = want.follows
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		wrong("join %s in %q came to %+v, want %+v", s.Role, up, got, want)
	}
	for _, b := range w.joinsOf() {
		if b.join == s.Role && !slices.Equal(ids, b.ids) {
			wrong("join %s has its paths in the order %v, its fork %v", s.Role, ids, b.ids)
		}
	}
}

// joinsOf lists the forks of the program.
func (w *world) joinsOf() []*branching {
	var out []*branching
	for _, n := range w.nodes {
		if n.fork != nil {
			out = append(out, n.fork)
		}
	}
	return out
}

// allCancelled checks that nothing continues below a cancelled task.
func (w *world) allCancelled(wrong finding) {
	_, rows := w.tree(wrong)
	for _, row := range rows {
		if !row.Ended() {
			wrong("thread %q is %s though the task was cancelled", w.pos[row.ID], row.Status)
		}
	}
}

// lost reports whether a path was cancelled.
func (w *world) lost() bool {
	rows, err := w.disk.Threads(context.Background(),
		store.ThreadFilter{Kind: store.KindPath, Statuses: []store.Status{store.Cancelled}})
	return err != nil || len(rows) > 0
}
