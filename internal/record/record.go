// Package record reads the position of a thread: its flow, its conversation as the flow sees it, the action it
// carries out, the path it is in, and how paths ended.
//
// It turns rows and nodes into positions and definitions. Every value follows from the record alone, so
// running, verifying and showing a thread all read the same.
//
// Laws:
//
//   - It only reads, and decides nothing: what comes next is up to [flow.Next].
//   - Nodes never change, so what was read from them is cached.
//   - Fields that nodes of older versions lack are read from rows.
package record

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// A Reader reads positions. Methods may be called concurrently.
type Reader struct {
	// AsRecorded means that routes see the pointers of joins of before schema 9, as in a replay. Set it first.
	AsRecorded bool

	nodes *thread.Reader
	rows  store.Index

	mu    sync.Mutex
	flows map[string]*flow.Definition // by bundle hash and flow name, of actions by their thread or fork
	plans map[dag.Hash]*flow.Plan     // by the step that planned
}

// New returns a reader. It reads nothing yet.
func New(nodes *thread.Reader, rows store.Index) *Reader {
	return &Reader{
		nodes: nodes, rows: rows,
		flows: make(map[string]*flow.Definition), plans: make(map[dag.Hash]*flow.Plan),
	}
}

// Nodes returns the underlying reader of nodes.
func (r *Reader) Nodes() *thread.Reader { return r.nodes }

// Definition returns the flow that a thread runs, from the row's bundle. For a thread that carries out an
// action, it is the flow made for that action.
func (r *Reader) Definition(ctx context.Context, row store.Thread) (*flow.Definition, error) {
	def, err := r.Flow(ctx, row.Bundle, row.Flow)
	if err != nil {
		return nil, err
	}
	id := Action(row)
	switch {
	case id != "":
		return cached(r, r.flows, string(row.Kind)+"/"+row.Path.Fork.String()+"/"+id, func() (*flow.Definition, error) {
			plan, err := r.Plan(ctx, row.Path.Fork)
			if err != nil {
				return nil, err
			}
			if row.Kind == store.KindWorker {
				return def.SpawnedAction(plan, id), nil
			}
			worker, err := r.Flow(ctx, row.Bundle, flow.WorkerFlow)
			if err != nil {
				return nil, err
			}
			return def.ForkedAction(worker, plan, id), nil
		})
	case row.Flow != flow.WorkerFlow:
		return def, nil
	}
	// This may be a manual fork of an action's thread: the start names the action.
	return cached(r, r.flows, "start/"+row.Start.String(), func() (*flow.Definition, error) {
		start, err := r.nodes.Start(ctx, row.Start)
		if err != nil {
			return nil, err
		}
		id := start.Action.ID
		if !start.Action.Present {
			if id, err = r.actionOfOrigin(ctx, row); err != nil {
				return nil, err
			}
		}
		if id == "" {
			return def, nil
		}
		plan, err := r.Plan(ctx, start.ParentState)
		if err != nil {
			return nil, err
		}
		return def.SpawnedAction(plan, id), nil
	})
}

// Flow returns a flow of a bundle. The error matches store.ErrNotFound if the bundle has no such flow.
func (r *Reader) Flow(ctx context.Context, bundle dag.Hash, name string) (*flow.Definition, error) {
	return cached(r, r.flows, bundle.String()+"/"+name, func() (*flow.Definition, error) {
		b, err := r.nodes.Bundle(ctx, bundle)
		if err != nil {
			return nil, err
		}
		raw, ok := b.Flows[name]
		if !ok {
			return nil, fmt.Errorf("bundle %s: no flow %q: %w", bundle.Short(), name, store.ErrNotFound)
		}
		def := new(flow.Definition)
		if err := json.Unmarshal(raw, def); err != nil {
			return nil, fmt.Errorf("bundle %s: flow %q: %w", bundle.Short(), name, err)
		}
		return def, nil
	})
}

// cached returns the value under key in a map of r, reading and storing it first if necessary.
func cached[K comparable, V any](r *Reader, known map[K]*V, key K, read func() (*V, error)) (*V, error) {
	r.mu.Lock()
	v := known[key]
	r.mu.Unlock()
	if v != nil {
		return v, nil
	}
	v, err := read()
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	known[key] = v
	return v, nil
}

// Action returns the action that a row carries out, "" for none.
func Action(row store.Thread) string {
	if row.Path == nil || row.Path.Join != thread.RoleJoin {
		return ""
	}
	return row.Path.ID
}

// actionOfOrigin returns the action of the thread that row was manually forked from, or "" if that thread has
// none or was removed. The starts of older versions do not name the action.
func (r *Reader) actionOfOrigin(ctx context.Context, row store.Thread) (string, error) {
	for row.ForkedFrom != nil {
		from, ok, err := thread.Origin(ctx, r.rows, row)
		if err != nil || !ok {
			return "", err
		}
		row = from
	}
	return Action(row), nil
}

// ErrNoPlan is the error for a step that made no plan.
var ErrNoPlan = errors.New("no plan")

// Plan returns the plan of the step at a node. The error matches ErrNoPlan when the step made none.
func (r *Reader) Plan(ctx context.Context, at dag.Hash) (*flow.Plan, error) {
	return cached(r, r.plans, at, func() (*flow.Plan, error) { return r.readPlan(ctx, at) })
}

func (r *Reader) readPlan(ctx context.Context, at dag.Hash) (*flow.Plan, error) {
	s, err := r.nodes.State(ctx, at)
	if err != nil {
		return nil, errors.Join(ErrNoPlan, err)
	}
	start, err := r.nodes.Start(ctx, s.Start)
	if err != nil {
		return nil, err
	}
	def, err := r.Flow(ctx, start.Hash, start.Name)
	if err != nil {
		return nil, err
	}
	var meta map[string]any
	if err := json.Unmarshal(s.Meta, &meta); err != nil || !def.Roles[s.Role].Plan || meta["$status"] != flow.Planned {
		return nil, fmt.Errorf("step %s of %s: %w", at.Short(), s.Role, ErrNoPlan)
	}
	return def.RecordedPlan(meta)
}
