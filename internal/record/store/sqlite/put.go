package sqlite

import (
	"fmt"
	"slices"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
)

// put stores an object, with its packed bytes as body. The caller's hash is trusted, as it was just
// computed; every read checks it.
func (t *tx) put(o store.Object, body []byte) error {
	if found, err := t.renew(o.Hash, o.Kind); found || err != nil {
		return err
	}
	// With ABORT, the default, SQLite would copy each page that it changes.
	const q = "INSERT OR FAIL INTO recent (id, hash, kind, size, put) SELECT ?1, ?2, ?3, ?4, ?5 " +
		"WHERE NOT EXISTS (SELECT 1 FROM objects WHERE hash = ?2)"
	if err := exec(t.Conn, q, t.body+1, o.Hash, int(o.Kind), len(o.Data), t.now); err != nil {
		return err
	}
	if t.Changes() == 0 {
		return t.refresh(o.Hash, o.Kind)
	}
	t.body++
	t.fresh[o.Hash] = t.body
	return exec(t.Conn, "INSERT INTO bodies (id, data) VALUES (?,?)", t.body, body)
}

// Putting an object again counts as putting it now, and turns a blob into a node if it is put as one.
const putAgain = " SET put = max(put, ?), kind = max(kind, ?) WHERE "

// renew refreshes an object that is still in recent, and reports whether it was there.
func (t *tx) renew(h dag.Hash, k store.Kind) (bool, error) {
	id, ok := t.row(h)
	if !ok {
		return false, nil
	}
	err := exec(t.Conn, "UPDATE recent"+putAgain+"id = ? AND hash = ?", t.now, int(k), id, h)
	return t.Changes() > 0, err
}

// refresh refreshes an object that has moved to objects. Changes says whether there is one.
func (t *tx) refresh(h dag.Hash, k store.Kind) error {
	return exec(t.Conn, "UPDATE objects"+putAgain+"hash = ?", t.now, int(k), h)
}

// named refuses a row that would newly name a missing object. What the row already
// named is not checked: a lost object must not keep its thread from failing.
func (t *tx) named(batch []store.Object, had []dag.Hash, names ...dag.Hash) error {
	for _, h := range names {
		if h.IsZero() || slices.Contains(had, h) ||
			slices.ContainsFunc(batch, func(o store.Object) bool { return o.Hash == h }) {
			continue
		}
		kept, err := t.has(h)
		if err != nil {
			return err
		}
		if !kept {
			return fmt.Errorf("object %s: %w", h, store.ErrNotFound)
		}
	}
	return nil
}
