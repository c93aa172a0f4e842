package prompt

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/testing/mem"
)

// A chain is a thread under test, in its own store.
type chain struct {
	t     *testing.T
	store *mem.Store
	nodes *thread.Reader
	a     *Assembler
	*grown
	steps []thread.Step // that add made

	pointing bool // joins are made as before schema 9
}

// A grown is a thread that grows step by step.
type grown struct {
	row  store.Thread
	tip  thread.Tip
	said string // by the last step
	made int64
}

func newChain(t *testing.T) *chain {
	c := &chain{t: t, store: mem.New(mem.Config{})}
	c.nodes = thread.NewReader(c.store)
	c.a = NewAssembler(c.nodes)
	objects, row, err := thread.Begin(thread.NewTask{
		Row: store.Thread{ID: "01JD0000000000000000000000", CreatedAt: 1}, Prompt: "the task",
		Bundle: thread.Bundle{Name: "f", Flows: map[string]json.RawMessage{"f": json.RawMessage(`{}`)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	c.commit(objects, row, nil)
	c.grown = c.begin(row)
	return c
}

func (c *chain) commit(objects []store.Object, row store.Thread, from *store.ThreadState) {
	c.t.Helper()
	err := c.store.Commit(c.t.Context(),
		store.Batch{Objects: objects, Threads: []store.ThreadChange{{Row: row, From: from}}})
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *chain) begin(row store.Thread) *grown {
	c.t.Helper()
	tip, err := c.nodes.Tip(c.t.Context(), row.Head)
	if err != nil {
		c.t.Fatal(err)
	}
	return &grown{row: row, tip: tip, made: row.CreatedAt}
}

// start returns the content of the thread's prompt.
func (c *chain) start() dag.Hash {
	c.t.Helper()
	s, err := c.nodes.Start(c.t.Context(), c.row.Start)
	if err != nil {
		c.t.Fatal(err)
	}
	return s.Prompt
}

// add appends a step to the thread that newChain began.
func (c *chain) add(d thread.Draft) thread.Step {
	c.t.Helper()
	s := c.step(c.grown, d)
	c.steps = append(c.steps, s)
	return s
}

func (c *chain) grow(n int) *chain {
	for range n {
		c.add(thread.Draft{Role: "worker", Text: fmt.Sprintf("text %d", len(c.steps)+1)})
	}
	return c
}

// step appends a step to g and commits it.
func (c *chain) step(g *grown, d thread.Draft) thread.Step {
	c.t.Helper()
	if d.Meta == nil {
		d.Meta = json.RawMessage(`{"$status":"done"}`)
	}
	g.made++
	d.At = g.made
	ch, err := thread.Append(g.row, g.tip, d)
	return c.keep(g, ch, err)
}

func (c *chain) keep(g *grown, ch thread.Change, err error) thread.Step {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
	c.commit(ch.Objects, ch.Row, g.row.State())
	g.row, g.tip = ch.Row, ch.Tip
	if thread.Routed(ch.Step.State.Role) {
		g.said = ch.Content.Text
	}
	return ch.Step
}

// call makes the child thread that g calls at its head.
func (c *chain) call(g *grown, role string) *grown {
	c.t.Helper()
	g.made++
	objects, row, err := thread.Call(thread.Child{
		Parent: g.row, Since: g.made, Role: role, N: 1, Flow: "flow-of-" + role, Depth: 1, Prompt: "do " + role, Now: g.made,
	})
	if err != nil {
		c.t.Fatal(err)
	}
	c.commit(objects, row, nil)
	return c.begin(row)
}

// fork makes the paths of a fork at g's head.
func (c *chain) fork(g *grown, ids ...string) []*grown {
	c.t.Helper()
	g.made++
	var paths []*grown
	for _, id := range ids {
		row := thread.Path(g.row, g.made, store.Path{Key: "k/" + id, ID: id, Join: "gathered"}, g.made)
		c.commit(nil, row, nil)
		paths = append(paths, c.begin(row))
	}
	return paths
}

// join ends the fork of paths after the head of main.
func (c *chain) join(g, main *grown, paths ...*grown) thread.Step {
	c.t.Helper()
	d := thread.JoinDraft{Node: "gathered", Outcome: "joined", DecidedBy: main.row.Path.ID, Pointing: c.pointing}
	for _, p := range paths {
		d.Paths = append(d.Paths, thread.PathEnd{Row: p.row, Text: p.said})
		g.made = max(g.made, p.made)
	}
	g.made++
	d.At = g.made
	ch, err := thread.Join(g.row, main.tip, main.row.Steps, d)
	return c.keep(g, ch, err)
}
