package gc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
)

// A Link is one object on the path from a root.
type Link struct {
	Hash dag.Hash `json:"hash"`
	What string   `json:"what"` // the root first, with its description; then "state planner", "content", "blob"
}

// A Reason says why an object is kept, or that nothing keeps it.
type Reason struct {
	Links []Link `json:"links"` // a shortest path from a root; empty: no row and no pin reaches the object
	Grace string `json:"grace"` // until when an object without links is kept; "" if it may be deleted
}

// Why returns the reason that h is kept. The error matches store.ErrNotFound if h does not exist.
func Why(ctx context.Context, cfg Config, h dag.Hash) (Reason, error) {
	cfg = cfg.withDefaults()
	r, err := cfg.why(ctx, h)
	if err != nil {
		return Reason{}, fmt.Errorf("trace object %s: %w", h, err)
	}
	return r, nil
}

func (c Config) why(ctx context.Context, h dag.Hash) (Reason, error) {
	f, e, err := c.Store.Open(ctx, h)
	if err != nil {
		return Reason{}, err
	}
	f.Close()
	reason := Reason{Links: []Link{}}
	for _, pins := range []bool{false, true} {
		links, err := trace(ctx, c.Store, h, pins)
		if err != nil {
			return Reason{}, err
		}
		if len(links) > 0 {
			reason.Links = links
			return reason, nil
		}
	}
	if age := c.Now().Sub(e.Put); age < c.Grace {
		reason.Grace = fmt.Sprintf("put %s, kept until %s",
			e.Put.UTC().Format(time.RFC3339), e.Put.Add(c.Grace).UTC().Format(time.RFC3339))
	}
	return reason, nil
}

// trace finds a shortest path to h from rows, otherwise from pins. It skips what is missing or damaged, and h
// itself need not exist.
func trace(ctx context.Context, v store.View, h dag.Hash, pins bool) ([]Link, error) {
	rs, err := roots(ctx, v)
	if err != nil {
		return nil, err
	}
	from := slices.Concat(rs.certain, rs.likely)
	if pins {
		from = from[:0]
		for _, p := range rs.pins {
			from = append(from, store.Root{Hash: p})
		}
	}
	type place struct {
		hash dag.Hash
		from int // previous place, or -1-i for root i
	}
	var queue []place
	seen := make(map[dag.Hash]struct{})
	push := func(to dag.Hash, from int) {
		if _, ok := seen[to]; !ok {
			seen[to] = struct{}{}
			queue = append(queue, place{to, from})
		}
	}
	for i, r := range from {
		push(r.Hash, -1-i)
	}
	var m marks
	for i := 0; i < len(queue); i++ {
		if queue[i].hash == h {
			var links []Link
			for ; i >= 0; i = queue[i].from {
				links = append(links, Link{queue[i].hash, describe(ctx, v, queue[i].hash)})
				if j := -1 - queue[i].from; j >= 0 {
					last := &links[len(links)-1]
					what := "pinned by a running attempt"
					if !pins {
						if what, err = name(ctx, v, from[j]); err != nil {
							return nil, err
						}
					}
					last.What = fmt.Sprintf("%s (%s)", what, last.What)
				}
			}
			slices.Reverse(links)
			return links, nil
		}
		refs, err := m.refs(ctx, v, queue[i].hash)
		if err != nil && !isDamaged(err) {
			return nil, err
		}
		for _, r := range refs {
			push(r, i)
		}
	}
	return nil, nil
}

// describe describes an object for a person: its type, and its role or name.
func describe(ctx context.Context, v store.View, h dag.Hash) string {
	data, kind, err := read(ctx, v, h)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return "missing"
	case err != nil:
		return "damaged"
	case kind != store.Node:
		return "blob"
	}
	n, err := dag.Decode(data)
	if err != nil {
		return "damaged"
	}
	var p struct{ Role, Name string }
	if json.Unmarshal(n.Payload, &p) != nil || p.Role+p.Name == "" {
		return n.Type // a content's payload is a text
	}
	return n.Type + " " + p.Role + p.Name
}
