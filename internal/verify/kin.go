package verify

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/plait-run/plait/internal/dag"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/thread"
)

// kin are the rows, by what they say of one another.
type kin struct {
	*check
	whole bool // of every task among them, every row is here
	rows  map[string]store.Thread
	below map[string][]store.Thread // by parent
	joins map[dag.Hash][]*object    // by fork
	after map[dag.Hash][]*object    // steps, by what they follow
}

// kinship holds the rows of paths and calls against those of their parents, and
// against the steps that record them.
func (c *check) kinship(ctx context.Context, r rows, after map[dag.Hash][]*object) error {
	k := &kin{c, r.whole, map[string]store.Thread{}, map[string][]store.Thread{}, map[dag.Hash][]*object{}, after}
	for _, t := range r.threads {
		k.rows[t.ID] = t
		if t.Parent != nil {
			k.below[t.Parent.Thread] = append(k.below[t.Parent.Thread], t)
		}
	}
	for _, o := range c.objects {
		if o.reached && o.problem == nil && o.state != nil && o.state.Paths != nil {
			k.joins[o.state.Fork] = append(k.joins[o.state.Fork], o)
			k.recorded(o)
		}
	}
	for _, t := range r.threads {
		if err := k.placed(ctx, t); err != nil {
			return err
		}
		switch t.Kind {
		case store.KindPath, store.KindCall, store.KindWorker:
			k.descends(t)
		default:
			if t.Parent != nil {
				k.say(t, "it is a %s and has a parent", t.Kind)
			}
		}
	}
	return ctx.Err()
}

func (k *kin) say(t store.Thread, format string, args ...any) {
	k.wrong(t.Head, "thread %s: %s", t.ID, fmt.Sprintf(format, args...))
}

// placed holds a row against where its head stands in the flow: in its own path
// or in none; at the join when the path is completed; at a fork when something
// is decided about one.
func (k *kin) placed(ctx context.Context, t store.Thread) error {
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
			if own, acts = k.acted(t); !acts {
				return nil
			}
			ok, join = true, thread.RoleJoin
		}
		switch {
		case !ok:
			k.say(t, "flow %s has no path %q", t.Flow, own)
			return nil
		case t.Path.Join != join:
			k.say(t, "its row names the join %q, path %s comes to %q", t.Path.Join, own, join)
		case t.Kind == store.KindPath && join != thread.RoleJoin && t.Path.Key != thread.PathKey(t, node, own):
			k.say(t, "its row has the path key %q, want %q", t.Path.Key, thread.PathKey(t, node, own))
		}
		if t.Head == t.Path.Fork { // it is about to enter its path
			if t.Kind == store.KindPath && t.Status == store.Completed {
				k.say(t, "its row is completed, but path %s has no step", own)
			}
			return nil
		}
	}
	head, ok := k.sound(t.Head)
	if !ok || head.state == nil || head.state.Start != t.Start {
		return k.decision(ctx, t, def, own)
	}
	// A fork by hand may have been made before rows told of the path it was in.
	told := t.Path != nil || t.ForkedFrom == nil
	if told && head.place != nil && head.place.path != own {
		if own == "" {
			k.say(t, "its head lies in a path of flow %s, its row in none", t.Flow)
		} else {
			k.say(t, "its head does not lie in path %s of flow %s, as its row does", own, t.Flow)
		}
		return nil
	}
	if t.Path != nil && t.Kind == store.KindPath && (t.Status == store.Completed || t.Status == store.Failed) {
		arrived, ok, err := k.arrived(ctx, head, t.Path.Fork, own, t.Path.Join)
		switch {
		case err != nil:
			return err
		case ok && !arrived && t.Status == store.Completed:
			k.say(t, "its row is completed, but path %s has not come to its join", own)
		case ok && arrived && t.Status == store.Failed:
			k.say(t, "its row is failed, but path %s has come to its join", own)
		}
	}
	return k.decision(ctx, t, def, own)
}

// decision holds what a row keeps of a join that is decided and not yet there.
func (k *kin) decision(ctx context.Context, t store.Thread, def *flow.Definition, path string) error {
	if t.Ended() || len(t.Decision) == 0 || string(t.Decision) == "null" {
		return nil
	}
	at, last, ok, err := k.standing(ctx, t.Head, t.Start)
	if err != nil || !ok {
		return err
	}
	at.Path = path
	fork, ok := flow.Next(def, at, last).(flow.Fork)
	var d struct{ Join, Outcome string }
	switch {
	case !ok:
		k.say(t, "its row has a decision, but it stands at no fork")
	case json.Unmarshal(t.Decision, &d) != nil || d.Join != fork.Join || d.Outcome == "":
		k.say(t, "its row has a decision that is none of the join %s: %s", fork.Join, t.Decision)
	}
	return nil
}

// descends holds the row of a path or call against its parent's.
func (k *kin) descends(t store.Thread) {
	if t.Parent == nil {
		k.say(t, "it is a %s and has no parent", t.Kind)
		return
	}
	if (t.Kind == store.KindPath || t.Kind == store.KindWorker) && (t.Path == nil || t.Path.Fork != t.Parent.From) {
		k.say(t, "its row says that it left its parent at %s, and names no such fork", t.Parent.From)
		return
	}
	parent, ok := k.rows[t.Parent.Thread]
	if !ok {
		if k.whole {
			k.say(t, "there is no thread %s, its parent", t.Parent.Thread)
		}
		return
	}
	switch {
	case t.Task != parent.Task || t.Root != parent.Root:
		k.say(t, "it belongs to task %s, its parent to %s", t.Task, parent.Task)
	case t.Bundle != parent.Bundle:
		k.say(t, "it runs the bundle %s, its parent %s", t.Bundle, parent.Bundle)
	case t.Kind == store.KindPath && t.Start != parent.Start:
		k.say(t, "its start %s is not its parent's, %s", t.Start, parent.Start)
	}
	if !k.passes(parent.Head, t.Parent.From, false) {
		k.say(t, "its parent %s does not go through %s, where this one left it", parent.ID, t.Parent.From)
		return
	}
	if _, ok := k.number(t, parent); !ok {
		k.say(t, "its id is not that of a %s of %s made at %s", t.Kind, parent.ID, t.Parent.From)
	}
	switch {
	case !t.Ended():
	case t.Kind == store.KindPath, t.Kind == store.KindWorker:
		k.joined(t, parent)
	case t.Kind == store.KindCall:
		k.answered(t, parent)
	}
}

// number returns how many threads were made for the same path or call before this
// one, and one more, which its id says; 0 when that cannot be known. Not ok: the id
// follows from nothing.
func (k *kin) number(t, parent store.Thread) (n int, ok bool) {
	stamps := k.stamps(parent, t.Parent.From)
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
		for _, other := range k.below[parent.ID] {
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

// stamps returns when the head may have been made that a thread left its parent
// at, none when that cannot be known.
func (k *kin) stamps(parent store.Thread, from dag.Hash) []int64 {
	if o, ok := k.sound(from); ok && o.state != nil {
		return []int64{o.state.Timestamp}
	}
	if from != parent.Start {
		return nil
	}
	// A path that has no step yet stands where its parent does.
	var out []int64
	for p, ok := parent, true; ok && len(out) <= len(k.rows); p, ok = k.rows[p.Parent.Thread] {
		out = append(out, p.CreatedAt)
		if p.Parent == nil || p.Kind != store.KindPath {
			break
		}
	}
	return out
}

// joined holds a path that has ended against the join of its parent, if that has
// come: it is there, or a successor in its place.
func (k *kin) joined(t, parent store.Thread) {
	for _, o := range k.joins[t.Path.Fork] {
		if on, _ := k.through(parent.Head, o.hash, false); !on || o.state.Role != t.Path.Join {
			continue
		}
		i := slices.IndexFunc(o.state.Paths, func(p thread.PathHead) bool { return p.ID == t.Path.ID })
		if i < 0 {
			continue // reported against the flow
		}
		taken := o.state.Paths[i].Thread
		if later, ok := k.rows[taken]; taken != t.ID && (!ok || later.Path == nil || later.Path.N <= t.Path.N || t.Status == store.Completed) {
			k.wrong(o.hash, "join %s: path %s was %s, which it does not name as its thread", o.state.Role, t.Path.ID, t.ID)
		}
	}
}

// answered holds a called thread that has ended against the step of its caller,
// if that has come: it links this child, or a later one called in its place.
func (k *kin) answered(t, parent store.Thread) {
	step := k.next(parent, t.Parent.From)
	if step == nil || step.state.ChildThread == t.Head {
		return
	}
	n, _ := k.number(t, parent)
	if !slices.ContainsFunc(k.below[parent.ID], func(other store.Thread) bool {
		m, _ := k.number(other, parent)
		earlier := n > 0 && m > 0 && m < n && other.Parent.From == t.Parent.From
		return other.Kind == store.KindCall && other.Head == step.state.ChildThread && !earlier
	}) {
		k.wrong(step.hash, "state of %s: its childThread is not %s, the last step of thread %s, which it waited for", step.state.Role, t.Head, t.ID)
	}
}

// next returns the first step but reserved ones that follows from in a thread's
// chain, nil when there is none.
func (k *kin) next(t store.Thread, from dag.Hash) *object {
	for h := from; ; {
		i := slices.IndexFunc(k.after[h], func(o *object) bool {
			on, _ := k.through(t.Head, o.hash, false)
			return on
		})
		if i < 0 {
			return nil
		}
		o := k.after[h][i]
		if thread.Routed(o.state.Role) {
			return o
		}
		h = o.hash
	}
}

// recorded holds the paths of a join against their rows. The rows of one task are
// removed together: where one is known, all are.
func (k *kin) recorded(o *object) {
	known := false
	for _, p := range o.state.Paths {
		_, ok := k.rows[p.Thread]
		known = known || ok
	}
	if !known {
		return
	}
	for i, p := range o.state.Paths {
		row, ok := k.rows[p.Thread]
		var what string
		switch {
		case slices.ContainsFunc(o.state.Paths[:i], func(q thread.PathHead) bool { return q.Thread == p.Thread }):
			what = "is that of another path too"
		case !ok && k.whole:
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
