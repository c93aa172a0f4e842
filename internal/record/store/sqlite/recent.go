package sqlite

import (
	"context"
	"maps"
	"sync"

	"zombiezen.com/go/sqlite"

	"github.com/plait-run/plait/internal/record/dag"
)

// The rows of objects are in hash order, so that each new one would change a page of its own. New rows
// therefore wait in another table, in insertion order, until there are enough of them to share pages; then
// they move (fold). Which row of that table an object has is kept in memory.

const (
	// leastFold and mostFold bound how many rows wait before they move. Each process that reads
	// one of them first lists them all.
	leastFold, mostFold = 512, 16 << 10
	// foldPart says that one in so many of all objects may wait.
	foldPart = 8
)

const lastFolded = "coalesce((SELECT value FROM counters WHERE name = 'folded'), 0)"

// recent is an index of the table of that name. An entry may belong to a row that has moved since, so
// reads of the row ask for its hash too.
type recent struct {
	mu   sync.RWMutex
	ids  map[dag.Hash]int64
	upto int64 // the highest row that was read; later ones are higher
	fold int   // number of entries at which to try moving them next
	most int   // how many may wait; 0: depends on the number of objects
}

func (r *recent) id(h dag.Hash) (int64, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	id, ok := r.ids[h]
	return id, ok
}

// committed records what a transaction did, once it is durable.
func (r *recent) committed(t *tx) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ids == nil {
		r.ids = make(map[dag.Hash]int64)
	}
	maps.Copy(r.ids, t.fresh)
	r.upto = max(r.upto, t.body)
	if t.folded > 0 {
		r.drop(t.folded)
		r.fold = 0
	}
}

// behind reports whether there are rows that were not read yet.
func (r *recent) behind(last int64) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return last > r.upto
}

// catchUp reads which rows other processes have added. c must not see uncommitted rows: the numbers
// of a rolled-back transaction are assigned again.
func (r *recent) catchUp(c *sqlite.Conn) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ids == nil {
		r.ids = make(map[dag.Hash]int64)
	}
	if len(r.ids) > 2*mostFold { // others have moved most of them
		folded := int64(0)
		if _, err := first(c, "SELECT "+lastFolded, func(r *row) { folded = r.int() }); err != nil {
			return err
		}
		r.drop(folded)
	}
	return each(c, "SELECT id, hash FROM recent WHERE id > ? ORDER BY id", func(row *row) {
		id, h := row.int(), row.hash()
		r.ids[h], r.upto = id, id
	}, r.upto)
}

// drop forgets the rows up to upto, which have moved.
func (r *recent) drop(upto int64) {
	maps.DeleteFunc(r.ids, func(_ dag.Hash, id int64) bool { return id <= upto })
}

// due reports whether it is time to move rows. After that it waits for as many more.
func (r *recent) due() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	limit := r.most
	if limit == 0 {
		limit = int(min(max(r.upto/foldPart, leastFold), mostFold))
	}
	if len(r.ids) < max(limit, r.fold) {
		return false
	}
	r.fold = len(r.ids) + limit
	return true
}

// find calls scan with the row of an object, and reports whether there is one. inRecent takes a row of
// recent and its hash, inObjects a hash.
func (s *Store) find(c *sqlite.Conn, h dag.Hash, inRecent, inObjects string, scan func(*row)) (bool, error) {
	if found, err := s.look(c, h, inRecent, inObjects, scan); found || err != nil {
		return found, err
	}
	// Other processes may have put it since, or moved it.
	if err := s.recent.catchUp(c); err != nil {
		return false, err
	}
	return s.look(c, h, inRecent, inObjects, scan)
}

// look is find without what others did since this process last read or wrote.
func (s *Store) look(c *sqlite.Conn, h dag.Hash, inRecent, inObjects string, scan func(*row)) (bool, error) {
	if id, ok := s.recent.id(h); ok {
		if found, err := first(c, inRecent, scan, id, h); found || err != nil {
			return found, err
		}
	}
	return first(c, inObjects, scan, h)
}

// fold moves rows if there are enough of them. A failure is retried once there are more.
func (s *Store) fold() {
	if !s.recent.due() {
		return
	}
	r := newRequest(context.Background(), alone, (*tx).fold)
	s.round(r, false)
	<-r.done
}

// fold moves the rows of recent to objects. Their numbers are not assigned again.
func (t *tx) fold() error {
	t.folded = t.body
	for _, q := range []string{
		"UPDATE counters SET value = max(value, coalesce((SELECT max(id) FROM recent), 0)) WHERE name = 'folded'",
		"INSERT INTO objects (hash, kind, size, put, body) SELECT hash, kind, size, put, id FROM recent ORDER BY hash",
		"DELETE FROM recent",
	} {
		if err := exec(t.Conn, q); err != nil {
			return err
		}
	}
	return nil
}

// row returns the row of recent that an object has, if there is one.
func (t *tx) row(h dag.Hash) (int64, bool) {
	if id, ok := t.fresh[h]; ok {
		return id, true
	}
	return t.store.recent.id(h)
}

// has reports whether an object is kept.
func (t *tx) has(h dag.Hash) (bool, error) {
	if _, ok := t.fresh[h]; ok {
		return true, nil
	}
	return t.store.look(t.Conn, h, hasRecent, hasObject, func(*row) {})
}
