package control

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
)

// Register binds name to a bundle. The previous bundle goes into the name's history. Binding a name to the
// bundle that it already has changes nothing.
func (c *Controller) Register(ctx context.Context, name string, f Found) (store.Flow, error) {
	old, err := c.cfg.Store.Flow(ctx, name)
	change := store.FlowChange{From: old.Hash}
	switch {
	case errors.Is(err, store.ErrNotFound):
		change.Row = store.Flow{Name: name}
	case err != nil:
		return store.Flow{}, fmt.Errorf("register flow %s: %w", name, err)
	case old.Hash == f.Object.Hash:
		return old, nil
	default:
		change.Row = old
		change.Row.History = append([]store.Version{{Hash: old.Hash, Timestamp: old.Timestamp}}, old.History...)
	}
	change.Row.Hash, change.Row.Timestamp = f.Object.Hash, c.cfg.Now().UnixMilli()
	return c.reregister(ctx, change, f.Object)
}

// Rollback binds name to an earlier bundle: the newest entry of its history, or the one whose hash begins with
// prefix. The current bundle goes into the history.
func (c *Controller) Rollback(ctx context.Context, name, prefix string) (store.Flow, error) {
	old, err := c.cfg.Store.Flow(ctx, name)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return store.Flow{}, fmt.Errorf("roll back flow %s: no flow is registered under this name: %w", name, err)
	case err != nil:
		return store.Flow{}, fmt.Errorf("roll back flow %s: %w", name, err)
	}
	at, err := version(old, prefix)
	if err != nil {
		return store.Flow{}, err
	}
	row := old
	row.Hash, row.Timestamp = old.History[at].Hash, c.cfg.Now().UnixMilli()
	row.History = []store.Version{{Hash: old.Hash, Timestamp: old.Timestamp}}
	for i, v := range old.History {
		if i != at {
			row.History = append(row.History, v)
		}
	}
	return c.reregister(ctx, store.FlowChange{Row: row, From: old.Hash})
}

// version finds an entry in the history of a flow: the newest one, or the only version whose hash begins with prefix.
func version(f store.Flow, prefix string) (at int, err error) {
	switch {
	case prefix == "" && len(f.History) == 0:
		return 0, usage("flow %s has no earlier version", f.Name)
	case prefix == "":
		return 0, nil
	case len(prefix) < dag.MinPrefix:
		return 0, usage("hash %q is too short: give at least %d digits", prefix, dag.MinPrefix)
	}
	at = -1
	for i, v := range f.History {
		if !strings.HasPrefix(v.Hash.String(), prefix) {
			continue
		}
		if at >= 0 && v.Hash != f.History[at].Hash {
			return 0, fmt.Errorf("roll back flow %s: more than one version in its history begins with %q: give more of "+
				"the hash: %w", f.Name, prefix, store.ErrNotFound)
		}
		if at < 0 {
			at = i
		}
	}
	if at < 0 {
		return 0, fmt.Errorf("roll back flow %s: no version in its history begins with %q: %w", f.Name, prefix,
			store.ErrNotFound)
	}
	return at, nil
}

// Unregister drops a name. Threads that run its bundle keep it.
func (c *Controller) Unregister(ctx context.Context, name string) error {
	old, err := c.cfg.Store.Flow(ctx, name)
	if err != nil {
		return fmt.Errorf("drop flow %s: %w", name, err)
	}
	_, err = c.reregister(ctx, store.FlowChange{Row: old, From: old.Hash, Delete: true})
	return err
}

func (c *Controller) reregister(ctx context.Context, change store.FlowChange, objects ...store.Object) (store.Flow,
	error) {
	by := gate.Person()
	said := event.Payload(event.FlowRegistered{Name: change.Row.Name, Hash: change.Row.Hash, By: by})
	if change.Delete {
		said = event.FlowRemoved{Name: change.Row.Name, Hash: change.Row.Hash, By: by}
	}
	err := c.cfg.Store.Commit(ctx, store.Batch{Objects: objects, Flows: []store.FlowChange{change},
		Events: []store.Event{event.New(store.Thread{}, c.cfg.Now().UnixMilli(), said)}})
	if err != nil {
		return store.Flow{}, fmt.Errorf("register flow %s: %w", change.Row.Name, err)
	}
	return change.Row, ignoreBusy(c.views.registry(ctx))
}
