package gc

import (
	"bytes"
	"context"
	"errors"
	"sync"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
)

// A refTable holds the refs of objects, in four bytes each. All objects are read in one pass, in storage order,
// before any of them is marked.
type refTable struct {
	number map[dag.Hash]int32
	hashes []dag.Hash // by number
	below  [][]int32  // by number; nil: the object was not read
}

// scan reads what the store can read in one pass. What the pass leaves out, or everything if it fails, is read
// when it is marked.
func (m *marks) scan(ctx context.Context, s store.Store) error {
	t := refTable{number: make(map[dag.Hash]int32, m.total)}
	var mu sync.Mutex
	err := s.Scan(ctx, func(o store.Object) error {
		refs := []dag.Hash{}
		switch {
		case o.Kind == store.Node:
			var err error
			if refs, err = dag.RefsOf(o.Data); err != nil {
				return nil
			}
		case bytes.HasPrefix(o.Data, []byte(nodePrefix)):
			return nil // a suspect
		}
		mu.Lock()
		defer mu.Unlock()
		t.add(o.Hash, refs)
		return nil
	})
	m.scanned = t
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.Is(err, store.ErrBroken) {
		return err
	}
	return nil
}

func (t *refTable) add(h dag.Hash, refs []dag.Hash) {
	below := make([]int32, len(refs))
	for i, r := range refs {
		below[i] = t.numberOf(r)
	}
	t.below[t.numberOf(h)] = below
}

func (t *refTable) numberOf(h dag.Hash) int32 {
	n, ok := t.number[h]
	if !ok {
		n = int32(len(t.hashes))
		t.number[h] = n
		t.hashes = append(t.hashes, h)
		t.below = append(t.below, nil)
	}
	return n
}

// refs returns the refs of h, if h was read.
func (t *refTable) refs(h dag.Hash) (refs []dag.Hash, ok bool) {
	n, ok := t.number[h]
	if !ok || t.below[n] == nil {
		return nil, false
	}
	for _, r := range t.below[n] {
		refs = append(refs, t.hashes[r])
	}
	return refs, true
}
