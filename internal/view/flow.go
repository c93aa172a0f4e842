package view

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// A FlowRow is a name in the registry.
type FlowRow struct {
	store.Flow
	Description string `json:"description"`
}

// Flows lists the registry.
func (b *Reader) Flows(ctx context.Context) ([]FlowRow, error) {
	flows, err := b.Store.Flows(ctx)
	if err != nil {
		return nil, err
	}
	out := []FlowRow{}
	for _, f := range flows {
		r := FlowRow{Flow: f}
		if bundle, err := b.Nodes.Bundle(ctx, f.Hash); err == nil {
			var d flow.Definition
			if json.Unmarshal(bundle.Flows[bundle.Name], &d) == nil {
				r.Description = d.Description
			}
		}
		out = append(out, r)
	}
	return out, nil
}

// A Flow is a bundle: a flow and all flows that it calls.
type Flow struct {
	Flows   map[string]json.RawMessage `json:"flows"` // definitions, by name
	Hash    dag.Hash                   `json:"hash"`  // of the bundle
	History []store.Version            `json:"history"`
	Name    string                     `json:"name"` // of the flow that calls the others
}

// Flow describes a bundle that was found under a name. history is the registry's entry for the
// name, if there is one.
func (b *Reader) Flow(ctx context.Context, name string, bundle thread.Bundle, hash dag.Hash) (*Flow, error) {
	reg, err := b.Store.Flow(ctx, name)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	v := &Flow{Flows: bundle.Flows, Hash: hash, History: reg.History, Name: bundle.Name}
	if v.History == nil {
		v.History = []store.Version{}
	}
	return v, nil
}
