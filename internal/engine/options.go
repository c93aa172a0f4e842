package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// A Resumption is what a request asks for, besides resuming a task or passing on its text.
type Resumption struct {
	Full    bool           `json:"full,omitempty"` // from older versions: Options.Context is record.ContextFull
	Options record.Options `json:"options"`        // override those the task was started with

	About *thread.Comment `json:"about,omitempty"` // of input: the lines that it is about
}

// limitsOf returns the limits of a thread.
func (e *Engine) limitsOf(ctx context.Context, row store.Thread) (flow.Limits, error) {
	def, err := e.record.Definition(ctx, row)
	if err != nil {
		return flow.Limits{}, err
	}
	return record.Limits(row, def, e.cfg.Limits)
}

// setOptions gives the threads of a task that have not ended further options, for a person, and uses the gates that
// raise limits. A limit that is higher already stays: as the options of a task count for all its threads, the lower
// limit of one would stop the others.
func (e *Engine) setOptions(ctx context.Context, rows []store.Thread, over record.Options, raised flow.Limits,
	by string, approved ...store.Gate) error {
	if over.Empty() && len(approved) == 0 {
		return nil
	}
	var batch store.Batch
	for _, g := range approved {
		change, ev, err := e.gates.Using(ctx, g)
		if err != nil {
			return fmt.Errorf("resume thread %s: %w", g.Thread, err)
		}
		batch.Gates, batch.Events = append(batch.Gates, change), append(batch.Events, ev)
	}
	for _, row := range rows {
		if row.Ended() {
			continue
		}
		next, err := e.WithOptions(ctx, row, over)
		if err != nil {
			return err
		}
		if raised != (flow.Limits{}) {
			now, err := e.limitsOf(ctx, next)
			if err != nil {
				return err
			}
			own := over
			own.Limits = over.Limits.With(raised.Above(now))
			if next, err = e.WithOptions(ctx, row, own); err != nil {
				return err
			}
		}
		if next.UpdatedAt = e.now(); next.Intent != store.IntentCancel && !bytes.Equal(next.Options, row.Options) {
			next.Intent = store.IntentOptions(next.Options)
		}
		batch.Threads = append(batch.Threads, store.ThreadChange{Row: next, From: row.State()})
	}
	if len(batch.Threads) > 0 {
		given := over
		given.Limits = over.Limits.With(raised)
		options, err := json.Marshal(given)
		if err != nil {
			return err
		}
		batch.Events = append(batch.Events, event.New(rows[0], e.now(), event.TaskOptions{By: by, Options: options}))
	}
	if err := e.cfg.Store.Commit(ctx, batch); err != nil {
		return fmt.Errorf("resume thread %s: %w", rows[0].ID, err)
	}
	for _, t := range batch.Threads {
		e.forget(t.Row.ID)
		limits, err := e.limitsOf(ctx, t.Row)
		if err != nil {
			return fmt.Errorf("read the limits of thread %s: %w", t.Row.ID, err)
		}
		e.slots.limit(t.Row.ID, limits.MaxConcurrent)
	}
	return nil
}

// readOptions takes over options that were given to the thread while it was driven, before a decision that they affect.
func (e *Engine) readOptions(ctx context.Context, c *threadState) error {
	row, err := e.cfg.Store.Thread(ctx, c.Row.ID)
	if err != nil {
		return fmt.Errorf("read thread %s: %w", c.Row.ID, err)
	}
	now := c.Row
	now.Options, now.Intent = row.Options, row.Intent
	return e.setRow(c, now)
}

// setRow sets the row of a thread, and what its options say.
func (e *Engine) setRow(c *threadState, row store.Thread) (err error) {
	given := !bytes.Equal(row.Options, c.Row.Options)
	if c.Row = row; given {
		if c.Options, err = record.OptionsOf(row); err == nil {
			c.Limits, err = record.Limits(row, c.Def, e.cfg.Limits)
		}
	}
	return err
}

// WithOptions returns row with further options. It refuses options that leave a role without an agent.
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
	return row, e.cfg.Agents.Check(row, *bundle)
}
