package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/plait-run/plait/internal/attempt"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record"
	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/thread"
)

// Limits returns what bounds a thread: the flow's limits capped by the
// configuration's, and what the task was started with over both.
func (e *Engine) Limits(row store.Thread, def *flow.Definition) (flow.Limits, error) {
	o, err := record.OptionsOf(row)
	return def.Limits.Cap(e.cfg.Limits).With(o.Limits), err
}

// setOptions gives further options to the threads of a task that have not ended.
func (e *Engine) setOptions(ctx context.Context, rows []store.Thread, over record.Options) error {
	if over.Empty() {
		return nil
	}
	var batch store.Batch
	for _, row := range rows {
		if row.Ended() {
			continue
		}
		next, err := e.WithOptions(ctx, row, over)
		if err != nil {
			return err
		}
		next.UpdatedAt = e.now()
		batch.Threads = append(batch.Threads, store.ThreadChange{Row: next, From: row.State()})
	}
	if err := e.cfg.Store.Commit(ctx, batch); err != nil {
		return fmt.Errorf("resume thread %s: %w", rows[0].ID, err)
	}
	for _, t := range batch.Threads {
		e.forget(t.Row.ID)
	}
	return nil
}

// WithOptions returns row with further options, when every role still has an
// agent with them.
func (e *Engine) WithOptions(ctx context.Context, row store.Thread, over record.Options) (store.Thread, error) {
	opts, err := record.OptionsOf(row)
	if err != nil {
		return store.Thread{}, err
	}
	if row.Options, err = json.Marshal(opts.With(over)); err != nil {
		return store.Thread{}, err
	}
	bundle, err := e.cfg.Reader.Bundle(ctx, row.Bundle)
	if err != nil {
		return store.Thread{}, err
	}
	return row, e.CheckAgents(row, *bundle)
}

// CheckAgents makes the agent of each role of a bundle's flows once, so that a
// missing one is found before anything is written.
func (e *Engine) CheckAgents(row store.Thread, bundle thread.Bundle) error {
	opts, err := record.OptionsOf(row)
	if err != nil {
		return err
	}
	known := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(bundle.Flows)) {
		def := new(flow.Definition)
		if err := json.Unmarshal(bundle.Flows[name], def); err != nil {
			return fmt.Errorf("flow %s: %w", name, err)
		}
		for _, name := range slices.Sorted(maps.Keys(def.Roles)) {
			role := def.Roles[name]
			if role.Flow != "" {
				continue // its work is done by that flow's roles
			}
			known[name] = true
			if _, err := e.cfg.Agents.Worker(row, name, role); err != nil {
				return err
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(opts.Roles)) {
		if !known[name] {
			return attempt.Usage("--set %s.agent: flow %s has no role %q that an agent does", name, bundle.Name, name)
		}
	}
	return nil
}
