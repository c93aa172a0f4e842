package verify

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// A threadIndex holds all rows, threads also by id and by parent, and the steps that record them: joins by fork, all
// steps by the node they follow.
type threadIndex struct {
	*check
	rows
	byID      map[string]store.Thread
	children  map[string][]store.Thread // by parent
	joins     map[dag.Hash][]*object    // by fork
	following map[dag.Hash][]*object    // steps, by what they follow
}

// index returns the index of rows, and of the steps that are reached.
func (c *check) index(r rows) *threadIndex {
	k := &threadIndex{
		c, r, map[string]store.Thread{}, map[string][]store.Thread{}, map[dag.Hash][]*object{}, map[dag.Hash][]*object{},
	}
	for _, t := range r.threads {
		k.byID[t.ID] = t
		if t.Parent != nil {
			k.children[t.Parent.Thread] = append(k.children[t.Parent.Thread], t)
		}
	}
	for _, o := range c.objects {
		if !o.reached || o.state == nil {
			continue
		}
		if o.problem == nil && o.state.Paths != nil {
			k.joins[o.state.Fork] = append(k.joins[o.state.Fork], o)
		}
		if o.problem == nil || o.problem.Kind == redacted {
			h := o.state.Previous()
			k.following[h] = append(k.following[h], o)
		}
	}
	return k
}

// checkThreads compares the rows of paths and calls with those of their parents, and with
// the steps that record them.
func (k *threadIndex) checkThreads(ctx context.Context) error {
	for _, joins := range k.joins {
		for _, o := range joins {
			k.checkJoinRows(o)
		}
	}
	for _, t := range k.threads {
		if err := k.checkPosition(ctx, t); err != nil {
			return err
		}
		switch t.Kind {
		case store.KindPath, store.KindCall, store.KindWorker:
			k.checkParent(t)
		default:
			if t.Parent != nil {
				k.wrongRow(t, "it is a %s and has a parent", t.Kind)
			}
		}
	}
	return ctx.Err()
}

// wrongRow reports a problem of a row, under the row's head.
func (k *threadIndex) wrongRow(t store.Thread, format string, args ...any) {
	k.wrong(t.Head, "thread %s: %s", t.ID, fmt.Sprintf(format, args...))
}

// checkPosition compares a row with the position of its head in the flow. The head must be in the row's own
// path, or in none; at the join if the path is completed; and at a fork if the row has a decision about one.
func (k *threadIndex) checkPosition(ctx context.Context, t store.Thread) error {
	def, own := k.defs[t.Start], ""
	if def == nil {
		return nil
	}
	if t.Path != nil {
		own = t.Path.ID
		node, _, ok := def.Branch(own)
		join := def.Forks[node].Join
		if t.Path.Join == thread.RoleJoin {
			var acts bool
			if own, acts = k.checkAction(t); !acts {
				return nil
			}
			ok, join = true, thread.RoleJoin
		}
		switch {
		case !ok:
			k.wrongRow(t, "flow %s has no path %q", t.Flow, own)
			return nil
		case t.Path.Join != join:
			k.wrongRow(t, "its row names the join %q, but path %s leads to %q", t.Path.Join, own, join)
		case t.Kind == store.KindPath && join != thread.RoleJoin && t.Path.Key != thread.PathKey(t, node, own):
			k.wrongRow(t, "its row has the path key %q, want %q", t.Path.Key, thread.PathKey(t, node, own))
		}
		if t.Head == t.Path.Fork { // before its first step
			if t.Kind == store.KindPath && t.Status == store.Completed {
				k.wrongRow(t, "its row is completed, but path %s has no step", own)
			}
			return nil
		}
	}
	head, ok := k.sound(t.Head)
	if !ok || head.state == nil || head.state.Start != t.Start {
		return k.checkDecision(ctx, t, def, own)
	}
	// In older versions, rows do not name the path in which a manual fork was made.
	named := t.Path != nil || t.ForkedFrom == nil
	if named && head.chain.position != nil && head.chain.position.path != own {
		if own == "" {
			k.wrongRow(t, "its head is in a path of flow %s, but its row is not", t.Flow)
		} else {
			k.wrongRow(t, "its row is in path %s of flow %s, but its head is not", own, t.Flow)
		}
		return nil
	}
	if t.Path != nil && t.Kind == store.KindPath && (t.Status == store.Completed || t.Status == store.Failed) {
		arrived, ok, err := k.reachesJoin(ctx, head, t.Path.Fork, own, t.Path.Join)
		switch {
		case err != nil:
			return err
		case ok && !arrived && t.Status == store.Completed:
			k.wrongRow(t, "its row is completed, but path %s has not reached its join", own)
		case ok && arrived && t.Status == store.Failed:
			k.wrongRow(t, "its row is failed, but path %s has reached its join", own)
		}
	}
	return k.checkDecision(ctx, t, def, own)
}

// checkDecision checks the join decision in a row, which stays until the join is committed.
func (k *threadIndex) checkDecision(ctx context.Context, t store.Thread, def *flow.Definition, path string) error {
	if t.Ended() || len(t.Decision) == 0 || string(t.Decision) == "null" {
		return nil
	}
	next, ok, err := k.next(ctx, def, t.Head, t.Start, path)
	if err != nil || !ok {
		return err
	}
	fork, ok := next.(flow.Fork)
	var d struct{ Join, Outcome string }
	switch {
	case !ok:
		k.wrongRow(t, "its row has a decision, but its head is not at a fork")
	case json.Unmarshal(t.Decision, &d) != nil || d.Join != fork.Join || d.Outcome == "":
		k.wrongRow(t, "its row has a decision that is not for the join %s: %s", fork.Join, t.Decision)
	}
	return nil
}

// checkParent compares the row of a path or call with the row of its parent.
func (k *threadIndex) checkParent(t store.Thread) {
	if t.Parent == nil {
		k.wrongRow(t, "it is a %s and has no parent", t.Kind)
		return
	}
	if (t.Kind == store.KindPath || t.Kind == store.KindWorker) && (t.Path == nil || t.Path.Fork != t.Parent.From) {
		k.wrongRow(t, "its row says that it left its parent at %s, and names no such fork", t.Parent.From)
		return
	}
	parent, ok := k.byID[t.Parent.Thread]
	if !ok {
		if k.complete {
			k.wrongRow(t, "there is no thread %s, its parent", t.Parent.Thread)
		}
		return
	}
	switch {
	case t.Task != parent.Task || t.Root != parent.Root:
		k.wrongRow(t, "it belongs to task %s, its parent to %s", t.Task, parent.Task)
	case t.Bundle != parent.Bundle:
		k.wrongRow(t, "it runs the bundle %s, its parent %s", t.Bundle, parent.Bundle)
	case t.Kind == store.KindPath && t.Start != parent.Start:
		k.wrongRow(t, "its start %s is not its parent's, %s", t.Start, parent.Start)
	}
	if !k.mayPassThrough(parent.Head, t.Parent.From, false) {
		k.wrongRow(t, "its parent %s does not go through %s, where this one left it", parent.ID, t.Parent.From)
		return
	}
	if _, ok := k.tryNumber(t, parent); !ok {
		k.wrongRow(t, "its id does not match a %s of %s made at %s", t.Kind, parent.ID, t.Parent.From)
	}
	switch {
	case !t.Ended():
	case t.Kind == store.KindPath, t.Kind == store.KindWorker:
		k.checkJoined(t, parent)
	case t.Kind == store.KindCall:
		k.checkReturned(t, parent)
	}
}

// tryNumber returns which try of its path or call a thread is, from 1. Ids are derived from the parent, its
// head, a name and that number, so it searches for the number that gives the thread's id. It returns 0 if the
// number cannot be known. ok is false if no number gives the id.
func (k *threadIndex) tryNumber(t, parent store.Thread) (n int, ok bool) {
	stamps := k.headTimes(parent, t.Parent.From)
	var names []string
	first, last := 1, 1
	switch def := k.defs[parent.Start]; {
	case t.Path != nil:
		names, first, last = []string{t.Path.ID}, t.Path.N, t.Path.N
	case t.Kind == store.KindCall && def != nil:
		for name, role := range def.Roles {
			if role.Flow == t.Flow {
				names = append(names, name)
			}
		}
		for _, other := range k.children[parent.ID] {
			if other.Kind == store.KindCall && other.Parent.From == t.Parent.From {
				last++
			}
		}
	default:
		return 0, true
	}
	for _, at := range stamps {
		for _, name := range names {
			for n := first; n <= last; n++ {
				if thread.DerivedID(at, parent.ID, t.Parent.From, name, n) == t.ID {
					return n, true
				}
			}
		}
	}
	return 0, len(stamps) == 0
}

// headTimes returns the times at which the node where a thread left its parent may have been made, none if
// unknown.
func (k *threadIndex) headTimes(parent store.Thread, from dag.Hash) []int64 {
	if o, ok := k.sound(from); ok && o.state != nil {
		return []int64{o.state.Timestamp}
	}
	if from != parent.Start {
		return nil
	}
	// A path without a step is at its parent's head; its parent may be such a path too.
	var out []int64
	for p, ok := parent, true; ok && len(out) <= len(k.byID); p, ok = k.byID[p.Parent.Thread] {
		out = append(out, p.CreatedAt)
		if p.Parent == nil || p.Kind != store.KindPath {
			break
		}
	}
	return out
}

// checkJoined compares a path that has ended with the join of its parent, if there is one
// yet: the join names this path's thread, or a later try of it.
func (k *threadIndex) checkJoined(t, parent store.Thread) {
	for _, o := range k.joins[t.Path.Fork] {
		if on, _ := k.passesThrough(parent.Head, o.hash, false); !on || o.state.Role != t.Path.Join {
			continue
		}
		i := slices.IndexFunc(o.state.Paths, func(p thread.PathHead) bool { return p.ID == t.Path.ID })
		if i < 0 {
			continue // already reported for the join
		}
		taken := o.state.Paths[i].Thread
		if later, ok := k.byID[taken]; taken != t.ID &&
			(!ok || later.Path == nil || later.Path.N <= t.Path.N || t.Status == store.Completed) {
			k.wrong(o.hash, "join %s: path %s was %s, which it does not name as its thread", o.state.Role, t.Path.ID, t.ID)
		}
	}
}

// checkReturned compares a called thread that has ended with the step of its caller, if
// there is one yet: the step names this thread, or a later try of the call.
func (k *threadIndex) checkReturned(t, parent store.Thread) {
	step := k.nextRouted(parent, t.Parent.From)
	if step == nil || step.state.ChildThread == t.Head {
		return
	}
	n, _ := k.tryNumber(t, parent)
	if !slices.ContainsFunc(k.children[parent.ID], func(other store.Thread) bool {
		m, _ := k.tryNumber(other, parent)
		earlier := n > 0 && m > 0 && m < n && other.Parent.From == t.Parent.From
		return other.Kind == store.KindCall && other.Head == step.state.ChildThread && !earlier
	}) {
		k.wrong(step.hash, "state of %s: its childThread is not %s, the last step of thread %s, which it waited for",
			step.state.Role, t.Head, t.ID)
	}
}

// nextRouted returns the first routed step after from in a thread's chain, nil for none.
func (k *threadIndex) nextRouted(t store.Thread, from dag.Hash) *object {
	for h := from; ; {
		i := slices.IndexFunc(k.following[h], func(o *object) bool {
			on, _ := k.passesThrough(t.Head, o.hash, false)
			return on
		})
		if i < 0 {
			return nil
		}
		o := k.following[h][i]
		if thread.Routed(o.state.Role) {
			return o
		}
		h = o.hash
	}
}

// checkJoinRows compares the paths of a join with their rows. The rows of a task are removed
// together: if one is there, all must be.
func (k *threadIndex) checkJoinRows(o *object) {
	known := false
	for _, p := range o.state.Paths {
		_, ok := k.byID[p.Thread]
		known = known || ok
	}
	if !known {
		return
	}
	for i, p := range o.state.Paths {
		row, ok := k.byID[p.Thread]
		var what string
		switch {
		case slices.ContainsFunc(o.state.Paths[:i], func(q thread.PathHead) bool { return q.Thread == p.Thread }):
			what = "is that of another path too"
		case !ok && k.complete:
			what = "is not there"
		case !ok:
		case row.Head != p.Head:
			what = fmt.Sprintf("has the head %s, want %s", row.Head, p.Head)
		case row.Status != p.Status:
			what = fmt.Sprintf("is %s, want %s", row.Status, p.Status)
		case row.Path != nil && (row.Path.ID != p.ID || row.Path.Fork != o.state.Fork):
			what = fmt.Sprintf("is path %s of the fork %s", row.Path.ID, row.Path.Fork)
		}
		if what != "" {
			k.wrong(o.hash, "join %s: path %s: its thread %s %s", o.state.Role, p.ID, p.Thread, what)
		}
	}
}
