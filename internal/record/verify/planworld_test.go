package verify_test

import (
	"encoding/json"
	"fmt"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

const planOfTwo = `{"$status":"planned","actions":[{"id":"x","prompt":"do x"},` +
	`{"id":"y","mode":"fork","prompt":"do y"}],"sessionGoal":"the goal"}`

// succeeded is the output of an action's agent.
func succeeded(summary string) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"$status":"success","status":"success","summary":%q}`, summary))
}

// plan adds O to rows, which plans two actions: O-x is spawned, O-y inherits the conversation.
// Their join follows O-y.
func (w *world) plan(rows map[string]store.Thread) {
	w.Helper()
	o := w.step(w.begin("O", "plan"), "planner", "plans", "plans")
	o = w.take(o, "orchestrator", json.RawMessage(planOfTwo), "the plan")
	def := new(flow.Definition)
	w.must(json.Unmarshal(w.bundle.Flows["work"], def))
	var meta map[string]any
	w.must(json.Unmarshal([]byte(planOfTwo), &meta))
	plan, err := def.ReadPlan(meta, 0)
	w.must(err)

	x := w.spawn(o, plan, "x")
	x = w.take(x, "x", succeeded("X is done."), "all of x")
	x = w.end(x, 0, "X is done.")

	y := thread.Path(o, w.stamp(o), w.action(o, "y"), w.now())
	y.Status = store.Running
	w.commit(store.Batch{Threads: []store.ThreadChange{{Row: y}}})
	y = w.take(y, "y", succeeded("Y is done."), "all of y")
	was := y
	y.Status = store.Completed
	w.change(was, y)

	d := thread.JoinDraft{Node: thread.RoleJoin, Outcome: flow.Joined, At: w.now()}
	for _, row := range []store.Thread{x, y} {
		end := thread.PathEnd{Row: row, Meta: succeeded(map[string]string{"x": "X is done.", "y": "Y is done."}[row.Path.ID])}
		var fields map[string]any
		w.must(json.Unmarshal(end.Meta, &fields))
		end.Text = flow.Outcome(row.Path.ID, fields)
		d.Paths = append(d.Paths, end)
	}
	main, err := w.reader.Tip(ctx, y.Head)
	w.must(err)
	ch, err := thread.Join(o, main, y.Steps, d)
	w.must(err)
	w.commit(store.Batch{Objects: ch.Objects, Threads: []store.ThreadChange{{Row: ch.Row, From: o.State()}}})
	rows["O"], rows["O-x"], rows["O-y"] = ch.Row, x, y
}

// action returns the place of an action of the plan at row's head.
func (w *world) action(row store.Thread, id string) store.Path {
	return store.Path{Key: thread.PathKey(row, "orchestrator", id), ID: id, Join: thread.RoleJoin, N: 1}
}

// spawn begins the thread of an action that row has planned at its head.
func (w *world) spawn(row store.Thread, plan *flow.Plan, id string) store.Thread {
	w.Helper()
	objects, child, err := thread.Spawn(
		thread.Child{Parent: row, Since: w.stamp(row), Flow: flow.WorkerFlow, Depth: 1, Prompt: plan.Brief(id), Now: w.now()},
		w.action(row, id))
	w.must(err)
	child.Status = store.Running
	w.commit(store.Batch{Objects: objects, Threads: []store.ThreadChange{{Row: child}}})
	return child
}
