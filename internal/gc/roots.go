package gc

import (
	"bytes"
	"context"
	"encoding/json"
	"strconv"

	"github.com/plait-run/plait/internal/dag"
	"github.com/plait-run/plait/internal/store"
)

// A root is an object that a row names. Its name is put together only on demand: there
// are many roots, and they are read under the lock.
type root struct {
	hash              dag.Hash
	label, id, detail string
}

func (r root) String() string { return r.label + r.id + r.detail }

// A rootSet is all that is kept whatever refers to it.
type rootSet struct {
	certain []root // have to be there
	likely  []root // look like hashes, and are roots if they name an object
	pins    []dag.Hash
}

func (s *rootSet) add(h dag.Hash, label, id string) {
	if !h.IsZero() {
		s.certain = append(s.certain, root{h, label, id, ""})
	}
}

// roots reads every row that names objects.
func roots(ctx context.Context, v store.View) (s rootSet, err error) {
	threads, err := v.Threads(ctx, store.ThreadFilter{})
	if err != nil {
		return s, err
	}
	for _, t := range threads {
		s.thread(t)
	}
	attempts, err := v.Attempts(ctx, store.AttemptFilter{})
	if err != nil {
		return s, err
	}
	for _, a := range attempts {
		s.add(a.Prompt, "prompt of attempt ", a.ID)
		s.add(a.Transcript, "transcript of attempt ", a.ID)
		s.add(a.Stderr, "stderr of attempt ", a.ID)
		s.add(a.Calls, "calls of attempt ", a.ID)
		for _, h := range a.Pins {
			s.add(h, "pin of attempt ", a.ID)
		}
	}
	gates, err := v.Gates(ctx, store.GateFilter{})
	if err != nil {
		return s, err
	}
	for _, g := range gates {
		s.add(g.Diff, "diff of gate ", g.ID)
		s.scan(g.Action, "action of gate ", g.ID)
		s.scan(g.Edited, "approved action of gate ", g.ID)
	}
	flows, err := v.Flows(ctx)
	if err != nil {
		return s, err
	}
	for _, f := range flows {
		s.certain = append(s.certain, root{f.Hash, "flow ", f.Name, " in the registry"})
		for i, old := range f.History {
			where := " in the registry, history " + strconv.Itoa(i+1)
			s.certain = append(s.certain, root{old.Hash, "flow ", f.Name, where})
		}
	}
	s.pins, err = v.Pins(ctx)
	return s, err
}

func (s *rootSet) thread(t store.Thread) {
	s.add(t.Head, "head of thread ", t.ID)
	s.add(t.Start, "start of thread ", t.ID)
	s.add(t.Bundle, "bundle of thread ", t.ID)
	if t.Parent != nil {
		s.add(t.Parent.From, "call or fork point of thread ", t.ID)
	}
	if t.Path != nil {
		s.add(t.Path.Fork, "fork of path ", t.ID)
	}
	if t.ForkedFrom != nil {
		s.add(t.ForkedFrom.Step, "origin of fork ", t.ID)
	}
	s.scan(t.Decision, "pending decision of thread ", t.ID)
}

// scan adds every string in raw that is spelled like a hash.
func (s *rootSet) scan(raw json.RawMessage, label, id string) {
	if len(raw) < 2*dag.Size {
		return
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	for {
		tok, err := dec.Token()
		if err != nil {
			return // at the end, or not JSON: then it names nothing
		}
		text, ok := tok.(string)
		if !ok {
			continue
		}
		if h, err := dag.ParseHash(text); err == nil && !h.IsZero() {
			s.likely = append(s.likely, root{h, label, id, ""})
		}
	}
}
