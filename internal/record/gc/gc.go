// Package gc finds the objects that no row leads to, and deletes them.
//
// It takes a store, a clock and a grace period, and returns counts, or the reason that an object stays. The
// shape of a collection:
//
//	mark, alongside writers ─▶ candidates, referrers first ─▶ for some at a time,
//	under the store's lock: mark what is new, sweep what is still unmarked
//
// Laws:
//
//  1. An object stays if a row reaches it, if it is pinned, or if it was put within
//     the grace period; so does everything that it refers to. An object that is put
//     during a collection keeps only what was kept anyway: so a batch puts again what
//     its new objects refer to, unless a row or pin reaches it.
//  2. An object is deleted before what it refers to. Every object that exists at any
//     moment, even after a crash, still has everything below it.
//  3. A reachable object that is missing stops the collection before it deletes.
//  4. A second run finds nothing.
//
// The package reads refs and rows and nothing else: it knows no threads, so that
// a new kind of payload needs no change here. It never decodes a payload to find
// out what to keep, and never deletes a row.
package gc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
)

// DefaultGrace is how long an unreachable object is kept after it was last put.
const DefaultGrace = time.Hour

// Config configures a collection. Only Store is required; a zero Grace means no grace period.
type Config struct {
	Store    store.Store
	Now      func() time.Time      // nil: the store's
	Grace    time.Duration         // negative: DefaultGrace
	Progress func(done, total int) // objects marked, out of all; may be nil
}

// A Result counts objects. If writers are active, the counts are taken at slightly different times.
type Result struct {
	Scanned   int        `json:"scanned"`
	Reachable int        `json:"reachable"` // from rows
	Deleted   int        `json:"deleted"`   // for Plan: to be deleted
	Bytes     int64      `json:"bytes"`     // of the deleted objects
	Kept      int        `json:"kept"`      // unreachable, but young, pinned, or reachable from those
	Hashes    []dag.Hash `json:"-"`         // of the deleted objects, sorted
}

// A MissingError reports that a reachable object is missing. Nothing is deleted then, since what the missing
// object refers to would look like garbage.
type MissingError struct {
	Hash dag.Hash
	Path []Link // from a root; the last link is the missing object
}

func (e *MissingError) Error() string {
	text := fmt.Sprintf("object %s is missing", e.Hash)
	switch n := len(e.Path); n {
	case 0:
		return text
	case 1:
		return text + ", which is the " + e.Path[0].What
	default:
		by, root := e.Path[n-2], e.Path[0]
		text += fmt.Sprintf(", named by %s", by.Hash)
		if n > 2 {
			text += fmt.Sprintf(" (%s)", by.What)
		}
		return text + ", reached from the " + root.What
	}
}

// Unwrap makes the error match store.ErrNotFound.
func (e *MissingError) Unwrap() error { return store.ErrNotFound }

// sweepSize is how many candidates are examined under one lock: few enough that commits get their turn. If
// there are many roots, which are read under each lock, it is half their number instead.
const sweepSize = 10_000

// Plan returns what Run would delete now. It changes nothing.
func Plan(ctx context.Context, cfg Config) (Result, error) {
	cfg = cfg.withDefaults()
	var r Result
	err := cfg.again(ctx, func() error {
		p, err := cfg.prepare(ctx)
		if err != nil {
			return err
		}
		r = p.result
		for _, e := range p.candidates {
			r.count(e)
		}
		return nil
	})
	if err != nil {
		return Result{}, fmt.Errorf("plan garbage collection: %w", err)
	}
	return r.settled(), nil
}

// Run deletes what nothing keeps, then frees its space. If it fails midway, the result counts what was deleted
// so far.
func Run(ctx context.Context, cfg Config) (Result, error) {
	cfg = cfg.withDefaults()
	var done Result
	err := cfg.again(ctx, func() error {
		p, err := cfg.prepare(ctx)
		if err != nil {
			return err
		}
		done.Scanned, done.Reachable = p.result.Scanned+done.Deleted, p.result.Reachable
		hashes, err := p.order(ctx, cfg.Store, p.candidates)
		if err != nil {
			return err
		}
		p.scanned = refTable{}
		parts := slices.Collect(slices.Chunk(hashes, max(sweepSize, p.roots/2)))
		if len(parts) == 0 {
			parts = [][]dag.Hash{nil} // a store also sweeps what is not an object
		}
		for _, part := range parts {
			if err := p.mark(ctx, cfg.Store); err != nil { // as much as possible without blocking writers
				return err
			}
			gone, err := cfg.Store.Sweep(ctx, cfg.Grace, func(v store.View) ([]dag.Hash, error) {
				return p.choose(ctx, v, part)
			})
			for _, e := range gone {
				done.count(e)
			}
			if err != nil {
				return err
			}
		}
		return cfg.Store.Compact(ctx, cfg.Grace)
	})
	if err != nil {
		err = fmt.Errorf("collect garbage: %w", err)
	}
	return done.settled(), err
}

func (c Config) withDefaults() Config {
	if c.Now == nil {
		c.Now = c.Store.Now
	}
	if c.Grace < 0 {
		c.Grace = DefaultGrace
	}
	return c
}

// again runs f, and up to twice more if f finds an object missing: that also happens when another process
// removes and collects a thread during the mark.
func (c Config) again(ctx context.Context, f func() error) error {
	for try := 1; ; try++ {
		err := f()
		var missing *MissingError
		if !errors.As(err, &missing) {
			return err
		}
		kept, hasErr := c.Store.Has(ctx, missing.Hash)
		path, pathErr := trace(ctx, c.Store, missing.Hash, false)
		if hasErr != nil || pathErr != nil {
			return errors.Join(err, hasErr, pathErr)
		}
		if try == 3 || !kept && len(path) > 0 {
			missing.Path = path
			return err
		}
	}
}

func (r *Result) count(e store.Entry) {
	r.Deleted++
	r.Bytes += e.Size
	r.Hashes = append(r.Hashes, e.Hash)
}

func (r Result) settled() Result {
	slices.SortFunc(r.Hashes, compare)
	r.Kept = max(0, r.Scanned-r.Reachable-r.Deleted)
	return r
}

// A plan is what was found while writers were active.
type plan struct {
	*marks
	before     time.Time // what was put later stays
	result     Result    // Scanned and Reachable only
	candidates []store.Entry
}

// prepare lists all objects and marks those that are kept. It makes the list first, so that what is put later
// is not a candidate.
func (c Config) prepare(ctx context.Context) (*plan, error) {
	p := &plan{before: c.Now().Add(-c.Grace)}
	var entries []store.Entry
	for e, err := range c.Store.List(ctx) {
		if err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	p.result.Scanned = len(entries)
	p.marks = &marks{progress: c.Progress, total: len(entries)}
	rs, err := roots(ctx, c.Store)
	if err != nil {
		return nil, err
	}
	if err := p.scan(ctx, c.Store); err != nil {
		return nil, err
	}
	p.roots = len(rs.certain) + len(rs.likely) + len(rs.pins)
	if err := p.markReachable(ctx, c.Store, rs); err != nil {
		return nil, err
	}
	p.result.Reachable = p.walker.Len()
	if err := p.markKept(ctx, c.Store, rs.pins); err != nil {
		return nil, err
	}
	for _, e := range entries {
		if p.isYoung(e) {
			if err := p.markKept(ctx, c.Store, []dag.Hash{e.Hash}); err != nil {
				return nil, err
			}
		}
	}
	for _, e := range entries {
		if !p.walker.Seen(e.Hash) {
			p.candidates = append(p.candidates, e)
		}
	}
	p.report()
	return p, nil
}

// isYoung reports whether Sweep would keep e because of its age. Times are kept in milliseconds.
func (p *plan) isYoung(e store.Entry) bool { return e.Put.UnixMilli() > p.before.UnixMilli() }

// choose marks from the current roots, under the lock, reading only what was not marked before. It returns the
// objects of part that are still unmarked. An object that was put again since then stays, with all it refers
// to; since parts list referrers first, none of these was deleted before it.
func (p *plan) choose(ctx context.Context, v store.View, part []dag.Hash) ([]dag.Hash, error) {
	if err := p.mark(ctx, v); err != nil {
		return nil, err
	}
	unseen := slices.DeleteFunc(slices.SortedFunc(slices.Values(part), compare), p.walker.Seen)
	entries, err := v.Stat(ctx, unseen) // bytes do not matter: damaged garbage is still garbage
	if err != nil {
		return nil, err
	}
	there := make(map[dag.Hash]bool, len(entries)) // another collector took the rest
	for _, e := range entries {
		there[e.Hash] = true
		if !p.isYoung(e) {
			continue
		}
		if err := p.markKept(ctx, v, []dag.Hash{e.Hash}); err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc(slices.Clone(part), func(h dag.Hash) bool { return !there[h] || p.walker.Seen(h) }), nil
}

func compare(a, b dag.Hash) int { return slices.Compare(a[:], b[:]) }
