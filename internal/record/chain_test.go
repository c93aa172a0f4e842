package record_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/testing/housetest"
	"github.com/plait-run/plait/internal/testing/mem"
)

const flowFile = `version: 1
name: work
context: {pin: [critic]}
roles:
  writer: {description: writes}
  critic: {description: reads}
  boss: {plan: true}
  left: {description: goes left}
  right: {description: goes right}
gates:
  check: {kind: input, question: "Is it good?"}
forks:
  split:
    forkPaths:
      - {pathId: a, childNodeId: left}
      - {pathId: b, childNodeId: right}
joins:
  gathered: {forkPathIds: [a, b]}
graph:
  $START: {new: {role: writer, prompt: "{{ prompt }}", location: docs}}
  writer:
    ready: {role: critic, prompt: "{{ _body }}", location: review}
    asks: {role: check}
    forks: {role: split, prompt: look}
    plans: {role: boss, prompt: plan}
  critic:
    bad: {role: writer, prompt: "again: {{ _body }}"}
    good: {role: $END, prompt: "{{ _body }}"}
  check: {answered: {role: critic, prompt: "{{ answer }}"}}
  boss: {finished: {role: $END, prompt: "{{ summary }}"}}
  left: {done: {role: gathered}}
  right: {done: {role: gathered}}
  gathered: {joined: {role: critic, prompt: "{{ paths.b.text }}"}}
`

const planOfTwo = `{"$status":"planned","actions":[{"id":"x","prompt":"do x"},` +
	`{"id":"y","mode":"fork","prompt":"do y"}],"sessionGoal":"the goal"}`

// A chain writes threads into a store the way the engine does, and reads them back.
type chain struct {
	*testing.T
	store  *mem.Store
	nodes  *thread.Reader
	record *record.Reader
	clock  int64

	pointing bool // joins are made as before schema 9
}

func newChain(t *testing.T) *chain {
	t.Helper()
	s := mem.New(mem.Config{})
	t.Cleanup(func() { s.Close() })
	nodes := thread.NewReader(s)
	return &chain{T: t, store: s, nodes: nodes, record: record.New(nodes, s), clock: 1_700_000_000_000}
}

func (c *chain) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

func (c *chain) now() int64 { c.clock++; return c.clock }

func (c *chain) commit(b store.Batch) {
	c.Helper()
	c.must(c.store.Commit(context.Background(), b))
}

// add commits a new row with the objects that it names, and returns it running.
func (c *chain) add(objects []store.Object, row store.Thread) store.Thread {
	c.Helper()
	row.Status = store.Running
	c.commit(store.Batch{Objects: objects, Threads: []store.ThreadChange{{Row: row}}})
	return row
}

// begin adds a task of the flow work.
func (c *chain) begin(id string) store.Thread {
	c.Helper()
	objects, row, err := thread.Begin(thread.NewTask{
		Row: store.Thread{ID: id, CreatedAt: c.now()}, Bundle: housetest.Bundle(c, flowFile), Prompt: "write a page",
	})
	c.must(err)
	return c.add(objects, row)
}

// append commits a step after row's head.
func (c *chain) append(row store.Thread, d thread.Draft) store.Thread {
	c.Helper()
	d.At = c.now()
	return housetest.Append(c.Context(), c, c.store, row, d)
}

// step commits the step of a role with only a status and a text.
func (c *chain) step(row store.Thread, role, status, text string) store.Thread {
	c.Helper()
	return c.append(row, thread.Draft{Role: role, Meta: json.RawMessage(`{"$status":"` + status + `"}`), Text: text})
}

func (c *chain) input(row store.Thread, text string) store.Thread {
	c.Helper()
	return c.append(row, thread.Draft{Role: thread.RoleInput, Meta: thread.InputMeta("resume", ""), Text: text})
}

// by commits the step of a role with the instance that made it.
func (c *chain) by(row store.Thread, role, instance, meta, text string) store.Thread {
	c.Helper()
	return c.append(row, thread.Draft{
		Role: role, Meta: json.RawMessage(meta), Text: text,
		Detail: &thread.Detail{Instance: instance, Attempts: []thread.EarlierAttempt{}, Context: []thread.ContextUse{}},
	})
}

// end changes only the status of a row.
func (c *chain) end(row store.Thread, status store.Status) store.Thread {
	c.Helper()
	was := row.State()
	row.Status = status
	c.commit(store.Batch{Threads: []store.ThreadChange{{Row: row, From: was}}})
	return row
}

// path adds the n-th try of a path that leaves row at its head.
func (c *chain) path(row store.Thread, fork, join, id string, n int) store.Thread {
	c.Helper()
	p := store.Path{Key: thread.PathKey(row, fork, id), ID: id, Join: join, N: n}
	return c.add(nil, thread.Path(row, c.clock, p, c.now()))
}

// spawn adds the thread of an action of the plan at row's head.
func (c *chain) spawn(row store.Thread, id string, n int) store.Thread {
	c.Helper()
	plan, err := c.record.Plan(c.Context(), row.Head)
	c.must(err)
	objects, child, err := thread.Spawn(thread.Child{
		Parent: row, Since: c.clock, Flow: flow.WorkerFlow, Depth: 1, Prompt: plan.Brief(id), Now: c.now(),
	}, store.Path{Key: thread.PathKey(row, "boss", id), ID: id, Join: thread.RoleJoin, N: n})
	c.must(err)
	return c.add(objects, child)
}

// planned begins a task whose head is a plan of two actions: x, spawned, and y, forked.
func (c *chain) planned(id string) store.Thread {
	c.Helper()
	row := c.step(c.begin(id), "writer", "plans", "let us plan")
	return c.append(row, thread.Draft{Role: "boss", Meta: json.RawMessage(planOfTwo), Text: "the plan"})
}

// join commits the join of paths that have ended at row's head, after the first of them.
func (c *chain) join(row store.Thread, node string, paths ...store.Thread) store.Thread {
	c.Helper()
	d := thread.JoinDraft{Node: node, Outcome: flow.Joined, At: c.now(), Pointing: c.pointing}
	for _, p := range paths {
		end, _, err := c.record.PathEnd(c.Context(), p)
		c.must(err)
		d.Paths = append(d.Paths, end)
	}
	tip, err := c.nodes.Tip(c.Context(), paths[0].Head)
	c.must(err)
	ch, err := thread.Join(row, tip, paths[0].Steps, d)
	c.must(err)
	c.commit(store.Batch{Objects: ch.Objects, Threads: []store.ThreadChange{{Row: ch.Row, From: row.State()}}})
	return ch.Row
}

func (c *chain) position(row store.Thread) *record.Position {
	c.Helper()
	p, _, err := c.record.Position(c.Context(), row)
	c.must(err)
	return p
}
