package gc

import (
	"context"
	"errors"
	"fmt"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
)

// A rootSet is what is kept whether or not anything refers to it.
type rootSet struct {
	certain []store.Root // must exist
	likely  []store.Root // look like hashes, and are roots if they name an object
	pins    []dag.Hash
}

// roots reads the objects that rows name.
func roots(ctx context.Context, v store.View) (s rootSet, err error) {
	for r, err := range v.Roots(ctx) {
		switch {
		case err != nil:
			return s, err
		case r.Maybe:
			s.likely = append(s.likely, r)
		default:
			s.certain = append(s.certain, r)
		}
	}
	s.pins, err = v.Pins(ctx)
	return s, err
}

// name describes a root, for a person, by the row that names it. It reads the row.
func name(ctx context.Context, v store.View, r store.Root) (string, error) {
	names, err := names(ctx, v, r)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return r.Row + " " + r.ID, nil // the row is gone
	case err != nil:
		return "", err
	}
	for _, n := range names {
		if n.Hash == r.Hash && n.Maybe == r.Maybe {
			return fmt.Sprintf(n.What, r.ID), nil
		}
	}
	return "row of " + r.Row + " " + r.ID, nil // it names something else by now
}

// names reads the objects that the row of a root names.
func names(ctx context.Context, v store.View, r store.Root) ([]store.Name, error) {
	switch r.Row {
	case "thread":
		t, err := v.Thread(ctx, r.ID)
		return t.Names(), err
	case "attempt":
		a, err := v.Attempt(ctx, r.ID)
		return a.Names(), err
	case "gate":
		g, err := v.Gate(ctx, r.ID)
		return g.Names(), err
	default:
		f, err := v.Flow(ctx, r.ID)
		return f.Names(), err
	}
}
