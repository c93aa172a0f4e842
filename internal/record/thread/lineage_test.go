package thread

import (
	"context"
	"encoding/json"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
)

// grown is a thread of a record under test, and the end of its chain.
type grown struct {
	row  store.Thread
	tip  Tip
	made int64 // time of the last step or thread, so that ids and hashes differ
}

// commit stores objects and the row that belongs to them.
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
	tip, err := c.r.Tip(c.t.Context(), row.Head)
	if err != nil {
		c.t.Fatal(err)
	}
	return &grown{row: row, tip: tip, made: row.CreatedAt}
}

// root is the thread that newChain began.
func (c *chain) root() *grown { return c.begin(c.row) }

func (c *chain) step(g *grown, d Draft) Step {
	c.t.Helper()
	if d.Meta == nil {
		d.Meta = json.RawMessage(`{"$status":"done"}`)
	}
	g.made++
	if d.At == 0 {
		d.At = g.made
	}
	ch, err := Append(g.row, g.tip, d)
	return c.keep(g, ch, err)
}

func (c *chain) keep(g *grown, ch Change, err error) Step {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
	c.commit(ch.Objects, ch.Row, g.row.State())
	g.row, g.tip = ch.Row, ch.Tip
	return ch.Step
}

func (c *chain) end(g *grown, code int) Step {
	c.t.Helper()
	g.made++
	ch, err := End(g.row, g.tip, code, "the end", g.made)
	return c.keep(g, ch, err)
}

// mark sets the status of g's thread.
func (c *chain) mark(g *grown, status store.Status) {
	c.t.Helper()
	row := g.row
	row.Status = status
	if row.Ended() {
		row.EndedAt = g.made
	}
	c.commit(nil, row, g.row.State())
	g.row = row
}

// call makes the child thread that g calls at its head.
func (c *chain) call(g *grown, role string, n, depth int) *grown {
	c.t.Helper()
	g.made++
	objects, row, err := Call(Child{
		Parent: g.row, Since: g.made, Role: role, N: n, Flow: "flow-of-" + role, Depth: depth,
		Prompt: "do " + role, Now: g.made,
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
	for i, id := range ids {
		row := Path(g.row, g.made, store.Path{Key: "k/" + id, ID: id, Join: "gathered"}, g.made)
		c.commit(nil, row, nil)
		p := c.begin(row)
		p.made += int64(i) * 100
		paths = append(paths, p)
	}
	return paths
}

// join ends the fork of paths after the head of main, or at the fork if main is nil.
func (c *chain) join(g, main *grown, paths ...*grown) Step {
	c.t.Helper()
	after, steps, d := g.tip, g.row.Steps, JoinDraft{Node: "gathered", Outcome: "joined", Pointing: c.pointing}
	if main != nil {
		after, steps, d.DecidedBy = main.tip, main.row.Steps, main.row.Path.ID
	}
	for _, p := range paths {
		last, err := LastRouted(c.r.Walk(c.t.Context(), p.row.Head), p.row.Path.Fork)
		if err != nil {
			c.t.Fatal(err)
		}
		end := PathEnd{Row: p.row}
		if last.State != nil {
			end.Text, err = c.r.Text(c.t.Context(), last.State.Content)
		}
		if err != nil {
			c.t.Fatal(err)
		}
		d.Paths = append(d.Paths, end)
		g.made = max(g.made, p.made)
	}
	g.made++
	d.At = g.made
	ch, err := Join(g.row, after, steps, d)
	return c.keep(g, ch, err)
}

func (c *chain) lineage(row store.Thread) Lineage {
	c.t.Helper()
	k, err := ReadLineage(c.t.Context(), c.store, row)
	if err != nil {
		c.t.Fatal(err)
	}
	return k
}

// An edited is an object store that returns other bytes for one hash, like a record
// that was tampered with.
type edited struct {
	store.Objects
	h    dag.Hash
	data []byte
}

func (e edited) Get(ctx context.Context, h dag.Hash) (store.Object, error) {
	if h == e.h {
		return store.Object{Hash: h, Kind: store.Node, Data: e.data}, nil
	}
	return e.Objects.Get(ctx, h)
}
