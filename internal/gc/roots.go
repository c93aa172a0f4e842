package gc

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/plait-run/plait/internal/dag"
	"github.com/plait-run/plait/internal/store"
)

// A rootSet is all that is kept whatever refers to it.
type rootSet struct {
	certain []store.Root // have to be there
	likely  []store.Root // look like hashes, and are roots if they name an object
	pins    []dag.Hash
}

// roots reads what rows name.
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

// name says what a root is to the row that names it, for a person. It reads the row.
func name(ctx context.Context, v store.View, r store.Root) (string, error) {
	name, err := naming(ctx, v, r)
	if errors.Is(err, store.ErrNotFound) {
		return r.Row + " " + r.ID, nil // the row has gone
	}
	return name, err
}

func naming(ctx context.Context, v store.View, r store.Root) (string, error) {
	is := func(h dag.Hash) bool { return !r.Maybe && h == r.Hash }
	what := "row"
	switch r.Row {
	case "thread":
		t, err := v.Thread(ctx, r.ID)
		if err != nil {
			return "", err
		}
		switch {
		case r.Maybe:
			what = "pending decision"
		case is(t.Head):
			what = "head"
		case is(t.Start):
			what = "start"
		case is(t.Bundle):
			what = "bundle"
		case t.Parent != nil && is(t.Parent.From):
			what = "call or fork point"
		case t.Path != nil && is(t.Path.Fork):
			return "fork of path " + r.ID, nil
		case t.ForkedFrom != nil && is(t.ForkedFrom.Step):
			return "origin of fork " + r.ID, nil
		}
	case "attempt":
		a, err := v.Attempt(ctx, r.ID)
		if err != nil {
			return "", err
		}
		switch {
		case is(a.Prompt):
			what = "prompt"
		case is(a.Transcript):
			what = "transcript"
		case is(a.Stderr):
			what = "stderr"
		case is(a.Calls):
			what = "calls"
		case slices.Contains(a.Pins, r.Hash):
			what = "pin"
		}
	case "gate":
		g, err := v.Gate(ctx, r.ID)
		if err != nil {
			return "", err
		}
		switch {
		case is(g.Diff):
			what = "diff"
		case slices.Contains(store.Spelled(g.Action), r.Hash):
			what = "action"
		case r.Maybe:
			what = "approved action"
		}
	case "flow":
		f, err := v.Flow(ctx, r.ID)
		if err != nil {
			return "", err
		}
		what := "flow " + r.ID + " in the registry"
		i := slices.IndexFunc(f.History, func(old store.Version) bool { return old.Hash == r.Hash })
		if !is(f.Hash) && i >= 0 {
			what += fmt.Sprintf(", history %d", i+1)
		}
		return what, nil
	}
	return what + " of " + r.Row + " " + r.ID, nil
}
