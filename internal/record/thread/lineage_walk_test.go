package thread

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/record/store"
)

// solve makes a thread with a call, a fork of three with a fork and a call inside,
// and a step after the join. It returns the root, the path that lost, and the join.
func solve(t *testing.T) (c *chain, root, lost *grown, joined Step) {
	c = newChain(t)
	root = c.root()
	c.step(root, Draft{Role: "preparer", Text: "ready"})
	child := c.call(root, "developer", 0, 1)
	c.step(child, Draft{Role: "planner", Text: "a plan"})
	last := c.end(child, 0)
	c.step(root, Draft{Role: "developer", Text: "built", ChildThread: last.Hash})
	paths := c.fork(root, "api", "db", "ui")
	api, db, ui := paths[0], paths[1], paths[2]
	c.step(db, Draft{Role: "read-db", Text: "bad"})
	c.mark(db, store.Failed)
	inner := c.fork(api, "left", "right")
	c.step(inner[0], Draft{Role: "look-left", Text: "l"})
	c.step(inner[1], Draft{Role: "look-right", Text: "r"})
	c.mark(inner[0], store.Completed)
	c.mark(inner[1], store.Completed)
	c.join(api, inner[1], inner...)
	deep := c.call(api, "digger", 0, 1)
	c.step(deep, Draft{Role: "dig", Text: "deep"})
	c.step(api, Draft{Role: "digger", Text: "dug", ChildThread: c.end(deep, 1).Hash})
	c.mark(api, store.Completed)
	c.mark(ui, store.Cancelled)
	joined = c.join(root, api, paths...)
	c.step(root, Draft{Role: "submitter", Text: "sent"})
	c.end(root, 0)
	return c, root, db, joined
}

// TestWhoCalled follows paths and manual forks up to the calling threads.
func TestWhoCalled(t *testing.T) {
	c := newChain(t)
	root := c.root()
	c.step(root, Draft{Role: "preparer", Text: "ready"})
	paths := c.fork(root, "a", "b")
	child := c.call(paths[1], "developer", 0, 1)
	s := c.step(child, Draft{Role: "planner", Text: "a plan"})
	within := c.fork(child, "x")
	forked := Fork(within[0].row, "01JZ0000000000000000000000", s, 1, 9)
	c.commit(nil, forked, nil)
	k := c.lineage(forked)
	for _, tt := range []struct{ name, chain, caller string }{
		{root.row.ID, root.row.ID, ""},
		{paths[1].row.ID, root.row.ID, ""},
		{child.row.ID, child.row.ID, paths[1].row.ID},
		{within[0].row.ID, child.row.ID, paths[1].row.ID},
		{forked.ID, forked.ID, paths[1].row.ID},
	} {
		row, ok := k.Thread(tt.name)
		if !ok {
			t.Fatalf("%s is not in the lineage", tt.name)
		}
		caller, _ := k.Caller(row)
		if got := k.Chain(row).ID; got != tt.chain || caller.ID != tt.caller {
			t.Errorf("%s: chain of %s, called by %q; want %s, %q", tt.name, got, caller.ID, tt.chain, tt.caller)
		}
	}
}

// TestRowsInACircle checks that the walk also ends for rows that are each other's parents.
func TestRowsInACircle(t *testing.T) {
	c := newChain(t)
	a, b := c.row, c.row
	a.ID, a.Kind, a.Parent = "A", store.KindCall, &store.Parent{Thread: "B"}
	b.ID, b.Kind, b.Parent = "B", store.KindPath, &store.Parent{Thread: "A"}
	k := Lineage{
		rows:     map[string]store.Thread{"A": a, "B": b},
		children: map[string][]store.Thread{"A": {b}, "B": {a}},
	}
	if got := k.Chain(b).ID; got != "A" {
		t.Errorf("the chain is that of %s", got)
	}
	a.Kind, a.ForkedFrom = store.KindPath, &store.ForkedFrom{Thread: "B"}
	k.rows["A"] = a
	k.Chain(a)
	a.Kind, a.Parent, b.Kind, b.Parent = store.KindRoot, nil, store.KindRoot, nil
	b.ForkedFrom = &store.ForkedFrom{Thread: "A"}
	k.rows["A"], k.rows["B"] = a, b
	if got, ok := k.Caller(a); ok {
		t.Errorf("nobody called A, got %s", got.ID)
	}
}

func TestViaAndMain(t *testing.T) {
	c, root, _, joined := solve(t)
	steps, err := c.r.Steps(t.Context(), root.row.Head)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"", "", "api/right", "api", "api", "", "", ""}
	if diff := cmp.Diff(want, StepPaths(steps, "")); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if got := joined.State.MainPath(); got != 0 {
		t.Errorf("the join follows path %d, want 0", got)
	}
	if got := steps[0].State.MainPath(); got != -1 {
		t.Errorf("a step that is no join follows path %d", got)
	}
	// A join at its fork point follows none, though a path without steps has that head.
	c = newChain(t)
	g := c.root()
	c.step(g, Draft{Role: "one", Text: "1"})
	paths := c.fork(g, "a", "b")
	c.step(paths[1], Draft{Role: "two", Text: "2"})
	if got := c.join(g, nil, paths...).State.MainPath(); got != -1 {
		t.Errorf("a join at its fork point follows path %d", got)
	}
}
