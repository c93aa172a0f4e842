package store

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/plait-run/plait/internal/record/dag"
)

// A Name is an object that a row names.
type Name struct {
	What  string // its role in the row, for people: %s is the row's id
	Hash  dag.Hash
	Maybe bool // see Root
}

// Names returns the objects that t names.
func (t Thread) Names() []Name {
	names := []Name{
		{What: "head of thread %s", Hash: t.Head},
		{What: "start of thread %s", Hash: t.Start},
		{What: "bundle of thread %s", Hash: t.Bundle},
		{What: "files of thread %s", Hash: t.Files},
	}
	if t.Parent != nil {
		names = append(names, Name{What: "call or fork point of thread %s", Hash: t.Parent.From})
	}
	if t.Path != nil {
		names = append(names, Name{What: "fork of path %s", Hash: t.Path.Fork})
	}
	if t.ForkedFrom != nil {
		names = append(names, Name{What: "origin of fork %s", Hash: t.ForkedFrom.Step})
	}
	return present(names, "pending decision of thread %s", t.Decision)
}

// Names returns the objects that a names.
func (a Attempt) Names() []Name {
	names := []Name{
		{What: "prompt of attempt %s", Hash: a.Prompt},
		{What: "transcript of attempt %s", Hash: a.Transcript},
		{What: "stderr of attempt %s", Hash: a.Stderr},
		{What: "calls of attempt %s", Hash: a.Calls},
	}
	for _, h := range a.Pins {
		names = append(names, Name{What: "pin of attempt %s", Hash: h})
	}
	return present(names, "", nil)
}

// Names returns the objects that g names.
func (g Gate) Names() []Name {
	names := present([]Name{{What: "diff of gate %s", Hash: g.Diff}}, "action of gate %s", g.Action)
	return present(names, "approved action of gate %s", g.Edited)
}

// Names returns the objects that f names.
func (f Flow) Names() []Name {
	names := []Name{{What: "flow %s in the registry", Hash: f.Hash}}
	for i, v := range f.History {
		names = append(names, Name{What: fmt.Sprintf("flow %%s in the registry, history %d", i+1), Hash: v.Hash})
	}
	return present(names, "", nil)
}

// present returns the names that are not zero, followed by every string in raw that is spelled like a
// hash.
func present(names []Name, what string, raw json.RawMessage) []Name {
	names = slices.DeleteFunc(names, func(n Name) bool { return n.Hash.IsZero() })
	for _, h := range Spelled(raw) {
		names = append(names, Name{What: what, Hash: h, Maybe: true})
	}
	return names
}

// Roots returns what Index.Roots yields for t.
func (t Thread) Roots() []Root { return roots("thread", t.ID, t.Names()) }

// Roots returns what Index.Roots yields for a.
func (a Attempt) Roots() []Root { return roots("attempt", a.ID, a.Names()) }

// Roots returns what Index.Roots yields for g.
func (g Gate) Roots() []Root { return roots("gate", g.ID, g.Names()) }

// Roots returns what Index.Roots yields for f.
func (f Flow) Roots() []Root { return roots("flow", f.Name, f.Names()) }

func roots(row, id string, names []Name) []Root {
	all := make([]Root, len(names))
	for i, n := range names {
		all[i] = Root{Hash: n.Hash, Row: row, ID: id, Maybe: n.Maybe}
	}
	return all
}

// Spelled returns the strings in raw that are spelled like hashes, up to where raw stops being valid JSON.
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
