package postgres

import (
	"context"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
)

const (
	// scanners is how many parts of the table are read concurrently.
	scanners = 3
	// scanBlocks is how many blocks of the table are read in one statement.
	scanBlocks = 256
	// scanLong is the size in bytes above which a body does not fit into a block and is stored elsewhere, so that
	// the number of blocks says nothing about it.
	scanLong = 8 << 10
	// scanBytes is how many bytes of such bodies are read in one statement.
	scanBytes = 4 << 20
)

// Scan calls visit with every intact object whose bytes are in its row, block by block in table
// order. A row that is written meanwhile moves and may be missed; it is not visited twice.
func (r reads) Scan(ctx context.Context, visit func(store.Object) error) error {
	var blocks int64
	err := r.with(ctx, func(ctx context.Context, c *pgx.Conn) error {
		const q = "SELECT pg_relation_size('plait.objects') / current_setting('block_size')::bigint"
		return c.QueryRow(ctx, q).Scan(&blocks)
	})
	if err != nil {
		return fmt.Errorf("scan objects: %w", err)
	}
	seen := &hashSet{all: map[dag.Hash]bool{}}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(scanners)
	for from := int64(0); from < blocks && ctx.Err() == nil; from += scanBlocks {
		g.Go(func() error { return r.scan(ctx, from, seen, visit) })
	}
	if err := g.Wait(); err != nil {
		return fmt.Errorf("scan objects: %w", err)
	}
	return nil
}

type hashSet struct {
	mu  sync.Mutex
	all map[dag.Hash]bool
}

// add reports whether h is new.
func (s *hashSet) add(h dag.Hash) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all[h] {
		return false
	}
	s.all[h] = true
	return true
}

// scan visits the objects of some blocks, after all of them were read.
func (r reads) scan(ctx context.Context, from int64, seen *hashSet, visit func(store.Object) error) error {
	q := query{sql: fmt.Sprintf("SELECT %s, CASE WHEN octet_length(body) <= %d THEN body END, loc FROM plait.objects",
		entryColumns, scanLong)}
	q.and("body IS NOT NULL")
	q.and(fmt.Sprintf("ctid >= '(%d,0)'::tid AND ctid < '(%d,0)'::tid", from, from+scanBlocks))
	rows, err := many(ctx, r, "objects", q, scanFound)
	if err != nil {
		return err
	}
	var long []dag.Hash
	size := int64(0)
	for i, f := range rows {
		if f.data == nil {
			long, size = append(long, f.Hash), size+f.Size
		}
		if len(long) == 0 || size < scanBytes && i < len(rows)-1 {
			continue
		}
		more, err := r.look(ctx, long)
		if err == nil {
			err = visitSound(more, seen, visit)
		}
		if err != nil {
			return err
		}
		long, size = nil, 0
	}
	return visitSound(rows, seen, visit)
}

// visitSound visits those of the rows whose bytes are there and intact.
func visitSound(rows []found, seen *hashSet, visit func(store.Object) error) error {
	for _, f := range rows {
		if f.unpack() != nil || int64(len(f.data)) != f.Size || dag.Sum(f.data) != f.Hash || !seen.add(f.Hash) {
			continue
		}
		if err := visit(store.Object{Hash: f.Hash, Kind: f.Kind, Data: f.data}); err != nil {
			return err
		}
	}
	return nil
}
