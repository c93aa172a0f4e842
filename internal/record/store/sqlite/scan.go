package sqlite

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"
	"zombiezen.com/go/sqlite"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/store/pack"
)

// A place is where the bytes of an object are stored, and what its row says about them.
type place struct {
	body, size int64
	hash       dag.Hash
	kind       store.Kind
}

const (
	// placePage is how many rows one statement reads, so that none keeps an old snapshot of
	// the database for long.
	placePage = 20_000
	// scanPart is how many bodies one statement reads.
	scanPart = 500
)

// Scan calls visit with every sound object that is not a file of its own. Rows are sorted by hash and
// bodies by when they were put: reading objects one by one would take two tree searches for each.
func (r reads) Scan(ctx context.Context, visit func(store.Object) error) error {
	places, err := r.places(ctx)
	if err != nil {
		return fmt.Errorf("scan objects: %w", err)
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for part := range slices.Chunk(places, scanPart) {
		if ctx.Err() != nil {
			break
		}
		g.Go(func() error { return r.scan(ctx, part, visit) })
	}
	if err := g.Wait(); err != nil {
		return fmt.Errorf("scan objects: %w", err)
	}
	return nil
}

// places returns where the bytes of objects are stored, in storage order.
func (r reads) places(ctx context.Context) ([]place, error) {
	scan := func(r *row) place {
		return place{hash: r.hash(), kind: store.Kind(r.int()), size: r.int(), body: r.int()}
	}
	// Read recent first: a row that moves meanwhile may be found twice, but is never missed.
	recent, err := many(ctx, r, "objects", query{sql: "SELECT hash, kind, size, id FROM recent"}, scan)
	if err != nil {
		return nil, err
	}
	var all []place
	for last := []byte{}; ; last = all[len(all)-1].hash[:] {
		q := query{sql: "SELECT hash, kind, size, body FROM objects"}
		q.and("hash > ?", last)
		q.end(" ORDER BY hash", placePage)
		page, err := many(ctx, r, "objects", q, scan)
		if err != nil {
			return nil, err
		}
		all = append(all, page...)
		if len(page) < placePage {
			all = slices.DeleteFunc(append(all, recent...), func(p place) bool { return p.body == 0 })
			slices.SortFunc(all, func(a, b place) int {
				return cmp.Or(cmp.Compare(a.body, b.body), compare(a.hash, b.hash))
			})
			return slices.CompactFunc(all, func(a, b place) bool { return a.body == b.body && a.hash == b.hash }), nil
		}
	}
}

// scan visits the objects of a part.
func (r reads) scan(ctx context.Context, part []place, visit func(store.Object) error) error {
	const q = "SELECT id, data FROM bodies WHERE id BETWEEN ? AND ? ORDER BY id"
	var failed error
	err := r.with(ctx, func(c *sqlite.Conn) error {
		return each(c, q, func(row *row) {
			id := row.int()
			for len(part) > 0 && part[0].body < id {
				part = part[1:]
			}
			if failed != nil || len(part) == 0 || part[0].body != id {
				return
			}
			p := part[0]
			data, err := pack.Unpack(row.bytes(), p.kind, p.size)
			if err == nil && int64(len(data)) == p.size && dag.Sum(data) == p.hash {
				failed = visit(store.Object{Hash: p.hash, Kind: p.kind, Data: data})
			}
		}, part[0].body, part[len(part)-1].body)
	})
	if failed != nil {
		return failed
	}
	return err
}
