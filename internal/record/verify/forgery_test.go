package verify_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/testing/mem"
)

// A forgery copies a record with nodes edited: each edited node, and all nodes
// that name it, are encoded and hashed again, and the rows follow. Every hash is
// correct.
type forgery struct {
	*testing.T
	from    *grove
	edits   map[dag.Hash]func(payload map[string]any)
	became  map[dag.Hash]dag.Hash
	objects map[dag.Hash]store.Object
	made    []store.Object
}

func forge(t *testing.T, from *grove, edits map[dag.Hash]func(map[string]any)) (*mem.Store, *forgery) {
	t.Helper()
	f := &forgery{t, from, edits, map[dag.Hash]dag.Hash{}, map[dag.Hash]store.Object{}, nil}
	var all []dag.Hash
	for e, err := range from.s.List(ctx) {
		from.must(err)
		all = append(all, e.Hash)
	}
	for _, h := range all {
		f.node(h)
	}
	rows, err := from.s.Threads(ctx, store.ThreadFilter{})
	from.must(err)
	attempts, err := from.s.Attempts(ctx, store.AttemptFilter{})
	from.must(err)
	batch := store.Batch{Objects: f.made}
	for _, row := range rows {
		row.Head, row.Start = f.now(row.Head), f.now(row.Start)
		if row.Parent != nil {
			row.Parent = &store.Parent{Thread: row.Parent.Thread, From: f.now(row.Parent.From)}
		}
		if row.Path != nil {
			path := *row.Path
			path.Fork = f.now(path.Fork)
			row.Path = &path
		}
		batch.Threads = append(batch.Threads, store.ThreadChange{Row: row})
	}
	for _, a := range attempts {
		a.From, a.Prompt = f.now(a.From), f.now(a.Prompt)
		batch.Attempts = append(batch.Attempts, store.AttemptChange{Row: a})
	}
	s := mem.New(mem.Config{})
	if err := s.Commit(ctx, batch); err != nil {
		t.Fatal(err)
	}
	return s, f
}

// now returns the hash of a node in the copy.
func (f *forgery) now(h dag.Hash) dag.Hash {
	if to, ok := f.became[h]; ok {
		return to
	}
	return h
}

// node copies a node after those that it names, with their new hashes in it.
func (f *forgery) node(h dag.Hash) {
	f.Helper()
	if _, ok := f.became[h]; ok {
		return
	}
	f.became[h] = h
	o, err := f.from.s.Get(ctx, h)
	f.from.must(err)
	defer func() { f.made = append(f.made, o) }()
	if o.Kind != store.Node {
		return
	}
	n, err := dag.Decode(o.Data)
	f.from.must(err)
	if n.Type == dag.TypeContent {
		return
	}
	for _, r := range n.Refs {
		f.node(r)
	}
	payload := n.Payload
	if edit := f.edits[h]; edit != nil {
		var fields map[string]any
		f.from.must(json.Unmarshal(payload, &fields))
		edit(fields)
		payload, err = json.Marshal(fields)
		f.from.must(err)
	}
	text := string(payload)
	for old, to := range f.became {
		if old != to {
			text = strings.ReplaceAll(text, old.String(), to.String())
		}
	}
	if text == string(n.Payload) {
		return
	}
	o.Data, err = dag.Encode(n.Type, json.RawMessage(text))
	f.from.must(err)
	o.Hash = dag.Sum(o.Data)
	f.became[h] = o.Hash
}

func hashes(hs []dag.Hash) []any {
	out := make([]any, len(hs))
	for i, h := range hs {
		out[i] = h.String()
	}
	return out
}

// at returns the newest step of a role in a thread.
func (g *grove) at(row store.Thread, role string) dag.Hash {
	g.Helper()
	for s, err := range g.reader.Walk(ctx, row.Head) {
		g.must(err)
		if s.State.Role == role {
			return s.Hash
		}
	}
	g.Fatalf("thread %s has no step of %s", row.ID, role)
	return dag.Hash{}
}

func (g *grove) state(h dag.Hash) *thread.State {
	g.Helper()
	s, err := g.reader.State(ctx, h)
	g.must(err)
	return s
}

// ended returns the thread whose last step is h.
func (g *grove) ended(h dag.Hash) store.Thread {
	g.Helper()
	rows, err := g.s.Threads(ctx, store.ThreadFilter{})
	g.must(err)
	i := slices.IndexFunc(rows, func(t store.Thread) bool { return t.Head == h })
	if i < 0 {
		g.Fatalf("no thread ended at %s", h)
	}
	return rows[i]
}

// asked returns the prompt of the newest step at or before h that an agent made.
func (g *grove) asked(h dag.Hash) dag.Hash {
	g.Helper()
	for s, err := range g.reader.Walk(ctx, h) {
		g.must(err)
		d, err := g.reader.Detail(ctx, s.State.Detail)
		g.must(err)
		if d != nil && !d.Prompt.IsZero() {
			return d.Prompt
		}
	}
	g.Fatal("no step was done by an agent")
	return dag.Hash{}
}
