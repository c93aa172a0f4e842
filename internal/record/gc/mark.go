package gc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
)

// marks is the set of objects that are known to be kept.
type marks struct {
	walker dag.Walker
	// suspects were marked without following their refs, and may get some: a blob with the bytes of a node
	// becomes a node when that node is put, and a missing object may be put. They are read again under the
	// lock.
	suspects map[dag.Hash]struct{}
	// scanned is what was read before marking began. It is not used under the lock, where new objects are
	// read.
	scanned refTable

	progress func(done, total int)
	total    int
	roots    int // when marking began
}

// mark marks what rows and pins reach now and was not marked before. After an error the marks are incomplete
// and must be discarded.
func (m *marks) mark(ctx context.Context, v store.View) error {
	for _, h := range slices.Collect(maps.Keys(m.suspects)) {
		delete(m.suspects, h)
		refs, err := m.refs(ctx, v, h)
		if isDamaged(err) {
			m.suspect(h) // it may still be put
			continue
		}
		if err != nil {
			return err
		}
		if err := m.markKept(ctx, v, refs); err != nil {
			return err
		}
	}
	rs, err := roots(ctx, v)
	if err != nil {
		return err
	}
	if err := m.markReachable(ctx, v, rs); err != nil {
		return err
	}
	return m.markKept(ctx, v, rs.pins)
}

// markReachable marks what rows reach. A missing object is an error.
func (m *marks) markReachable(ctx context.Context, v store.View, rs rootSet) error {
	hs := make([]dag.Hash, 0, len(rs.certain))
	for _, r := range rs.certain {
		hs = append(hs, r.Hash)
	}
	for _, r := range rs.likely {
		if m.walker.Seen(r.Hash) {
			continue
		}
		kept, err := v.Has(ctx, r.Hash)
		if err != nil {
			return err
		}
		if kept {
			hs = append(hs, r.Hash)
		}
	}
	return m.walker.Walk(hs, func(h dag.Hash) ([]dag.Hash, error) {
		refs, err := m.refs(ctx, v, h)
		if errors.Is(err, store.ErrNotFound) {
			return nil, &MissingError{Hash: h}
		}
		return refs, err
	})
}

// markKept marks what is kept without a row that names it, and what exists below it.
func (m *marks) markKept(ctx context.Context, v store.View, hs []dag.Hash) error {
	return m.walker.Walk(hs, func(h dag.Hash) ([]dag.Hash, error) {
		refs, err := m.refs(ctx, v, h)
		if isDamaged(err) {
			m.suspect(h)
			return nil, nil
		}
		return refs, err
	})
}

func (m *marks) suspect(h dag.Hash) {
	if m.suspects == nil {
		m.suspects = make(map[dag.Hash]struct{})
	}
	m.suspects[h] = struct{}{}
}

func isDamaged(err error) bool {
	return errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrCorrupt)
}

// nodePrefix is the beginning of every node.
const nodePrefix = `{"payload":`

// refs returns what h refers to: nothing for a blob, of which it reads only the beginning.
func (m *marks) refs(ctx context.Context, v store.View, h dag.Hash) ([]dag.Hash, error) {
	if n := m.walker.Len(); n%1024 == 0 {
		m.report()
	}
	if refs, ok := m.scanned.refs(h); ok {
		return refs, nil
	}
	data, kind, err := read(ctx, v, h)
	if err != nil {
		return nil, err
	}
	if kind != store.Node {
		if string(data) == nodePrefix {
			m.suspect(h)
		}
		return nil, nil
	}
	refs, err := dag.RefsOf(data)
	if err != nil {
		return nil, fmt.Errorf("object %s: %w: %w", h, store.ErrCorrupt, err)
	}
	return refs, nil
}

// read returns a node's bytes, or enough of a blob's beginning to see whether it looks like a node.
func read(ctx context.Context, v store.View, h dag.Hash) ([]byte, store.Kind, error) {
	r, e, err := v.Open(ctx, h)
	if err != nil {
		return nil, 0, err
	}
	defer r.Close()
	if e.Kind != store.Node {
		head := make([]byte, len(nodePrefix))
		n, _ := io.ReadFull(r, head)
		return head[:n], e.Kind, nil
	}
	// The size in the row is only a hint, within bounds.
	b := bytes.NewBuffer(make([]byte, 0, max(0, min(e.Size, dag.MaxBytes))+bytes.MinRead))
	_, err = b.ReadFrom(r)
	return b.Bytes(), e.Kind, err
}

func (m *marks) report() {
	if m.progress != nil {
		m.progress(min(m.walker.Len(), m.total), m.total)
	}
}

// order returns the hashes of entries with every referrer before what it refers to. An
// object that cannot be read refers to nothing.
func (m *marks) order(ctx context.Context, v store.View, entries []store.Entry) ([]dag.Hash, error) {
	place := make(map[dag.Hash]int32, len(entries))
	for i, e := range entries {
		place[e.Hash] = int32(i)
	}
	below := make([][]int32, len(entries))
	above := make([]int32, len(entries)) // number of referrers not yet ordered
	for i, e := range entries {
		if e.Kind != store.Node {
			continue
		}
		refs, err := m.refs(ctx, v, e.Hash)
		if err != nil && !isDamaged(err) {
			return nil, err
		}
		for _, h := range refs {
			if j, ok := place[h]; ok {
				below[i] = append(below[i], j)
				above[j]++
			}
		}
	}
	ready := make([]int32, 0, len(entries))
	for i := range entries {
		if above[i] == 0 {
			ready = append(ready, int32(i))
		}
	}
	// A hash cannot depend on itself, so there are no cycles and every entry gets its turn.
	for k := 0; k < len(ready); k++ {
		for _, j := range below[ready[k]] {
			above[j]--
			if above[j] == 0 {
				ready = append(ready, j)
			}
		}
	}
	hashes := make([]dag.Hash, len(ready))
	for k, i := range ready {
		hashes[k] = entries[i].Hash
	}
	return hashes, nil
}
