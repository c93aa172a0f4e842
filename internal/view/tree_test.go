package view_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/view"
)

// deep is a thread with a call, a fork of three with a fork and a call inside, and steps
// after the join; and the path that lost.
func deep(t *testing.T) (r *record, root, lost *line) {
	r, root = newRecord(t)
	r.step(root, thread.Draft{Role: "preparer", Text: "ready"})
	child := r.call(root, "developer")
	r.step(child, thread.Draft{Role: "planner", Text: "a plan"})
	r.step(root, thread.Draft{Role: "developer", Text: "built", ChildThread: r.end(child)})
	api, db, ui := r.path(root, "api"), r.path(root, "db"), r.path(root, "ui")
	r.step(db, thread.Draft{Role: "read-db", Text: "bad"})
	r.mark(db, store.Failed)
	left, right := r.path(api, "left"), r.path(api, "right")
	r.step(left, thread.Draft{Role: "look-left", Text: "l"})
	r.step(right, thread.Draft{Role: "look-right", Text: "r"})
	r.join(api, right, left, right)
	digger := r.call(api, "digger")
	r.step(digger, thread.Draft{Role: "dig", Text: "deep"})
	r.step(api, thread.Draft{Role: "digger", Text: "dug", ChildThread: r.end(digger)})
	r.mark(api, store.Completed)
	r.mark(ui, store.Cancelled)
	r.join(root, api, api, db, ui)
	r.step(root, thread.Draft{Role: "submitter", Text: "sent"})
	r.end(root)
	return r, root, db
}

// tree reads a tree and draws it, one line for each thing.
func (r *record) tree(row store.Thread, depth int) []string {
	r.t.Helper()
	v, err := r.book().Tree(r.t.Context(), view.Subject{Row: row, Head: row.Head}, depth)
	if err != nil {
		r.t.Fatal(err)
	}
	return treeLines(v.Steps, v.Loose, v.Cut, "")
}

func treeLines(steps []view.TreeStep, loose []view.Tree, cut bool, in string) []string {
	var out []string
	for _, s := range steps {
		line := fmt.Sprintf("%s%d %s", in, s.N, s.Role)
		if s.Path != "" {
			line += " in " + s.Path
		}
		out = append(out, line)
		if s.Child != nil {
			out = append(out, in+"  call "+s.Child.Flow+" "+string(s.Child.Kind)+" "+string(s.Child.Status))
			out = append(out, treeLines(s.Child.Steps, s.Child.Loose, s.Child.Cut, in+"    ")...)
		}
		for _, p := range s.Paths {
			line := in + "  path " + p.ID + " " + string(p.Status)
			if p.Main {
				line += " main"
			}
			out = append(append(out, line), treeLines(p.Steps, p.Loose, p.Cut, in+"    ")...)
		}
	}
	for _, l := range loose {
		id := l.Flow
		if l.Path != nil {
			id = l.Path.ID
		}
		out = append(out, in+"  loose "+string(l.Kind)+" "+id+" "+string(l.Status))
		out = append(out, treeLines(l.Steps, l.Loose, l.Cut, in+"    ")...)
	}
	if cut {
		out = append(out, in+"  cut")
	}
	return out
}

func TestTreeGoesAllTheWayDown(t *testing.T) {
	r, root, lost := deep(t)
	want := []string{
		"1 preparer",
		"2 developer",
		"  call developer-flow call completed",
		"    1 planner",
		"    2 __end__",
		"3 look-right in api/right",
		"4 gathered in api",
		"  path left completed",
		"    3 look-left",
		"  path right completed main",
		"5 digger in api",
		"  call digger-flow call completed",
		"    1 dig",
		"    2 __end__",
		"6 gathered",
		"  path api completed main",
		"  path db failed",
		"    3 read-db",
		"  path ui cancelled",
		"7 submitter",
		"8 __end__",
	}
	if diff := cmp.Diff(want, r.tree(root.row, -1)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if diff := cmp.Diff(want, r.tree(root.row, 1)); diff != "" {
		t.Errorf("one level is all there is: -want +got\n%s", diff)
	}
	flat := []string{
		"1 preparer", "2 developer", "3 look-right in api/right", "4 gathered in api",
		"  path left completed", "  path right completed main",
		"5 digger in api", "6 gathered", "  path api completed main", "  path db failed", "  path ui cancelled",
		"7 submitter", "8 __end__", "  cut",
	}
	if diff := cmp.Diff(flat, r.tree(root.row, 0)); diff != "" {
		t.Errorf("without going down: -want +got\n%s", diff)
	}
	// A path by itself: its own steps, numbered as in its whole conversation.
	if diff := cmp.Diff([]string{"3 read-db"}, r.tree(lost.row, -1)); diff != "" {
		t.Errorf("the path that lost: -want +got\n%s", diff)
	}
}

func TestTreeOfATaskThatRuns(t *testing.T) {
	r, root := newRecord(t)
	r.step(root, thread.Draft{Role: "preparer", Text: "ready"})
	r.end(r.call(root, "developer")) // and nothing was committed: blocked{child}, then called again
	again := r.call(root, "developer")
	r.step(again, thread.Draft{Role: "planner", Text: "a plan"})
	r.path(again, "a")
	r.step(r.path(again, "b"), thread.Draft{Role: "try", Text: "it"})
	got := r.tree(root.row, -1)
	want := []string{
		"1 preparer",
		"  loose call developer-flow completed",
		"    1 __end__",
		"  loose call developer-flow pending",
		"    1 planner",
		"      loose path a pending",
		"      loose path b pending",
		"        2 try",
	}
	slices.Sort(got)
	slices.Sort(want) // ids made in the same millisecond have no order
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if diff := cmp.Diff([]string{"1 preparer", "  cut"}, r.tree(root.row, 0)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// TestTreeOfAHandFork checks that what the steps before the fork called is still found.
func TestTreeOfAHandFork(t *testing.T) {
	r, root, _ := deep(t)
	forked := r.fork(root, "01KZ0000000000000000000000")
	if diff := cmp.Diff(r.tree(root.row, -1), r.tree(forked.row, -1)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// TestForgedTreesEnd checks that joins whose paths all name one chain, which
// would double the tree at every level, do not.
func TestForgedTreesEnd(t *testing.T) {
	r, root := newRecord(t)
	fork := r.step(root, thread.Draft{Role: "first", Text: "x"})
	head := r.step(root, thread.Draft{Role: "second", Text: "y"})
	for i := range 60 {
		other := r.step(root, thread.Draft{Role: "other", Text: fmt.Sprint(i)})
		paths := []thread.PathHead{{ID: "a", Head: head, Status: "completed"}, {ID: "b", Head: head, Status: "completed"}}
		head = r.step(root, thread.Draft{Role: "join", Fork: fork, Paths: paths})
		fork = other
	}
	v, err := r.book().Tree(t.Context(), view.Subject{Head: head}, -1)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(treeLines(v.Steps, v.Loose, v.Cut, "")); n > 20000 {
		t.Errorf("the tree has %d lines", n)
	}
}
