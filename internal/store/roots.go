package store

import (
	"bytes"
	"encoding/json"

	"github.com/plait-run/plait/internal/dag"
)

// Roots returns what t names: what Index.Roots yields of it.
func (t Thread) Roots() []Root {
	r := rootsOf{row: "thread", id: t.ID}
	r.add(t.Bundle, t.Start, t.Head, t.Files)
	if t.Parent != nil {
		r.add(t.Parent.From)
	}
	if t.Path != nil {
		r.add(t.Path.Fork)
	}
	if t.ForkedFrom != nil {
		r.add(t.ForkedFrom.Step)
	}
	r.scan(t.Decision)
	return r.all
}

// Roots returns what a names.
func (a Attempt) Roots() []Root {
	r := rootsOf{row: "attempt", id: a.ID}
	r.add(a.Prompt, a.Transcript, a.Stderr, a.Calls)
	r.add(a.Pins...)
	return r.all
}

// Roots returns what g names.
func (g Gate) Roots() []Root {
	r := rootsOf{row: "gate", id: g.ID}
	r.add(g.Diff)
	r.scan(g.Action)
	r.scan(g.Edited)
	return r.all
}

// Roots returns what f names.
func (f Flow) Roots() []Root {
	r := rootsOf{row: "flow", id: f.Name}
	r.add(f.Hash)
	for _, v := range f.History {
		r.add(v.Hash)
	}
	return r.all
}

// Roots of one row.
type rootsOf struct {
	row, id string
	all     []Root
}

func (r *rootsOf) add(hs ...dag.Hash) {
	for _, h := range hs {
		if !h.IsZero() {
			r.all = append(r.all, Root{Hash: h, Row: r.row, ID: r.id})
		}
	}
}

// scan adds every string in raw that is spelled like a hash.
func (r *rootsOf) scan(raw json.RawMessage) {
	for _, h := range Spelled(raw) {
		r.all = append(r.all, Root{Hash: h, Row: r.row, ID: r.id, Maybe: true})
	}
}

// Spelled returns the strings in raw that are spelled like hashes, up to where it is no JSON.
func Spelled(raw json.RawMessage) (found []dag.Hash) {
	if len(raw) < 2*dag.Size {
		return nil
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	for {
		tok, err := dec.Token()
		if err != nil {
			return found // at the end, or not JSON
		}
		if text, ok := tok.(string); ok {
			if h, err := dag.ParseHash(text); err == nil && !h.IsZero() {
				found = append(found, h)
			}
		}
	}
}
