package verify_test

import (
	"encoding/json"
	"testing"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

func TestRows(t *testing.T) {
	tests := []struct {
		name   string
		thread string
		change func(w *world, row *store.Thread)
		what   string
	}{
		{"steps", "L", func(_ *world, r *store.Thread) { r.Steps-- }, "its row counts 13 steps, its chain has 14"},
		{"completed without an end", "L", func(_ *world, r *store.Thread) { r.Status = store.Completed }, "has no end"},
		{"running after its end", "A", func(_ *world, r *store.Thread) { r.Status = store.Running }, "its chain has ended"},
		{"completed in place of failed", "F", func(_ *world, r *store.Thread) { r.Status = store.Completed },
			"its end has return code 1"},
		{"failed in place of cancelled", "C", func(_ *world, r *store.Thread) { r.Status = store.Failed },
			"its end has return code 130"},
		{"a path with an end", "A", func(_ *world, r *store.Thread) { r.Kind = store.KindPath }, "has an end of its own"},
		{"another start", "A", func(w *world, r *store.Thread) { r.Start = w.begin("Z", "z").Start },
			"its head belongs to the start"},
		{"start is a step", "A", func(_ *world, r *store.Thread) { r.Start = r.Head }, "its start"},
		{"head is a text", "L", func(w *world, r *store.Thread) { r.Head = w.content("x") }, "its head is a content node"},
		{"head is another start", "L", func(w *world, r *store.Thread) { r.Head = w.begin("Z", "z").Start },
			"the start of another thread"},
		{"no head", "L", func(_ *world, r *store.Thread) { r.Head = dag.Hash{} }, "names no head"},
		{"bundle", "L", func(w *world, r *store.Thread) { r.Bundle = w.put(dag.TypeFlow, thread.Bundle{Name: "x"}) },
			"its row names the bundle"},
		{"flow", "L", func(_ *world, r *store.Thread) { r.Flow = "play" }, `its row names the flow "play"`},
		{"fork of elsewhere", "F", func(w *world, r *store.Thread) { r.ForkedFrom.Step = w.begin("Z", "z").Head },
			"where it was forked"},
		{"path of elsewhere", "J-a", func(w *world, r *store.Thread) { r.Path.Fork = w.begin("Z", "z").Head },
			"does not go through its fork"},
		{"caller", "K", func(w *world, r *store.Thread) { r.Parent.From = w.begin("Z", "z").Head },
			"its start has the parentState"},
		{"a path of another id", "J-a", func(_ *world, r *store.Thread) { r.Path.ID = "b" },
			"its row is in path b"},
		{"a path that the flow has not", "J-a", func(_ *world, r *store.Thread) { r.Path.ID = "z" },
			`flow work has no path "z"`},
		{"a path's join", "J-a", func(_ *world, r *store.Thread) { r.Path.Join = "other" }, `its row names the join "other"`},
		{"a path's key", "J-a", func(_ *world, r *store.Thread) { r.Path.Key = "other" }, `its row has the path key "other"`},
		{"a path's number", "J-a", func(_ *world, r *store.Thread) { r.Path.N = 2 }, "its id does not match a path of J"},
		{"a path that failed at its join", "J-a", func(_ *world, r *store.Thread) { r.Status = store.Failed },
			"its row is failed, but path a has reached its join"},
		{"a path completed before its join", "J-a", func(w *world, r *store.Thread) { r.Head = r.Path.Fork; r.Steps-- },
			"its row is completed, but path a has no step"},
		{"a path without a parent", "J-a", func(_ *world, r *store.Thread) { r.Parent = nil },
			"it is a path and has no parent"},
		{"a path that left its parent elsewhere", "J-a", func(_ *world, r *store.Thread) { r.Parent.From = r.Start },
			"and names no such fork"},
		{"a parent that is not there", "J-a", func(_ *world, r *store.Thread) { r.Parent.Thread = "nobody" },
			"there is no thread nobody, its parent"},
		{"another parent", "J-a", func(_ *world, r *store.Thread) { r.Parent.Thread = "L" },
			"its parent L does not go through"},
		{"a caller that is not there", "K", func(_ *world, r *store.Thread) { r.Parent.Thread = "nobody" },
			"there is no thread nobody, its parent"},
		{"a root with a caller", "K", func(_ *world, r *store.Thread) { r.Kind = store.KindRoot },
			"it is a root and has a parent"},
		{"another task", "K", func(_ *world, r *store.Thread) { r.Task = "L" }, "it belongs to task L, its parent to P"},
		{"a head in a path", "J", func(w *world, r *store.Thread) {
			s, err := w.reader.State(ctx, r.Head)
			w.must(err)
			r.Head, r.Steps = s.Paths[1].Head, r.Steps-1
		}, "its head is in a path of flow work, but its row is not"},
		{"a worker of another action", "O-x", func(_ *world, r *store.Thread) { r.Path.ID = "y" },
			"it is a worker, and the mode of action y is fork"},
		{"a worker of no action", "O-x", func(_ *world, r *store.Thread) { r.Path.ID = "z" }, `the plan at`},
		{"a worker's key", "O-x", func(_ *world, r *store.Thread) { r.Path.Key = "other" },
			`its row has the path key "other"`},
		{"a worker's number", "O-x", func(_ *world, r *store.Thread) { r.Path.N = 2 }, "its id does not match a worker of O"},
		{"a worker's join", "O-x", func(_ *world, r *store.Thread) { r.Path.Join = "gathered" },
			`flow worker has no path "x"`},
		{"a worker without a place", "O-x", func(_ *world, r *store.Thread) { r.Path = nil }, "and names no such fork"},
		{"a worker that left its planner elsewhere", "O-x", func(_ *world, r *store.Thread) { r.Parent.From = r.Start },
			"its start has the parentState"},
		{"a worker that is a path", "O-x", func(_ *world, r *store.Thread) { r.Kind = store.KindPath },
			"it is a path, and the mode of action x is spawn"},
		{"a forked action that is a worker", "O-y", func(_ *world, r *store.Thread) { r.Kind = store.KindWorker },
			"it is a worker, and the mode of action y is fork"},
		{"a forked action's key", "O-y", func(_ *world, r *store.Thread) { r.Path.Key = "other" },
			`its row has the path key "other"`},
		{"a forked action that failed at its join", "O-y", func(_ *world, r *store.Thread) { r.Status = store.Failed },
			"its row is failed, but path y has reached its join"},
		{"an action of no plan", "O-y", func(_ *world, r *store.Thread) { r.Path.Fork = r.Head },
			"its row says that it is an action of a plan at"},
		{"a decision at no fork", "L", func(_ *world, r *store.Thread) {
			r.Decision = json.RawMessage(`{"decidedBy":"","join":"gathered","outcome":"joined"}`)
		}, "its row has a decision, but its head is not at a fork"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w, s := memWorld(t)
			was := w.fill()[tt.thread]
			row, err := s.Thread(ctx, was.ID) // a copy: its pointers are not shared
			w.must(err)
			tt.change(w, &row)
			w.change(was, row)
			mustName(t, s, row.Head, "thread "+was.ID+": ", false)
			mustName(t, s, row.Head, tt.what, false)
		})
	}
}

// What a join or a caller waited for but does not name is found.
func TestUnnamedThreads(t *testing.T) {
	w, s := memWorld(t)
	row := w.step(w.begin("X", "x"), "planner", "calls", "calls")
	first := w.child(row)
	objects, second, err := thread.Call(thread.Child{
		Parent: row, Since: w.stamp(row), Role: "caller", N: 2, Flow: "work", Depth: 1, Prompt: "called", Now: w.now(),
	})
	w.must(err)
	w.commit(store.Batch{Objects: objects, Threads: []store.ThreadChange{{Row: second}}})
	second = w.over(second)
	row = w.back(row, first)
	mustName(t, s, row.Head, "its childThread is not "+second.Head.String(), false)

	w, s = memWorld(t)
	row = w.step(w.begin("X", "x"), "planner", "forks", "forks")
	paths, join := w.fork(row)
	next := thread.Path(row, w.stamp(row), store.Path{Key: paths[1].Path.Key, ID: "b", Join: "gathered", N: 2}, w.now())
	next.Head, next.Steps = paths[1].Head, paths[1].Steps
	w.commit(store.Batch{Threads: []store.ThreadChange{{Row: next}}})
	was := next
	next.Status = store.Completed
	w.change(was, next)
	row = w.joined(row, join)
	mustName(t, s, row.Head, "path b was "+next.ID+", which it does not name", false)

	w, s = memWorld(t)
	row = w.step(w.begin("X", "x"), "planner", "forks", "forks")
	w.fork(row)
	was = row
	row.Decision = json.RawMessage(`{"decidedBy":"","join":"other","outcome":"joined"}`)
	w.change(was, row)
	mustName(t, s, row.Head, "its row has a decision that is not for the join gathered", false)
}

func TestAttempts(t *testing.T) {
	w, s := memWorld(t)
	rows := w.fill()
	a, err := s.Attempt(ctx, "L.14")
	w.must(err)
	done := func(change func(*store.Attempt)) {
		b := a
		b.ID = "L.99"
		change(&b)
		w.commit(store.Batch{Attempts: []store.AttemptChange{{Row: b}}})
	}
	done(func(b *store.Attempt) { b.From = rows["L"].Head })
	mustName(t, s, rows["L"].Head, "attempt L.99 is done, but produced no", true)
	done(func(b *store.Attempt) { b.ID = "nobody.1"; b.Thread = "nobody"; b.Status = store.AttemptFailed })
	mustName(t, s, dag.Hash{}, "attempt nobody.1: there is no thread nobody", false)
	done(func(b *store.Attempt) { b.ID = "L.98" })
	mustName(t, s, a.From, "attempt L.98 is done, but produced no", true)
	done(func(b *store.Attempt) { b.ID = "L.97"; b.Role = "tester" })
	mustName(t, s, a.From, "attempt L.97 is done, but produced no tester step", true)
}
