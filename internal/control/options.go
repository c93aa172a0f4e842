package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/plait-run/plait/internal/store"
)

// setOptions gives further options to the threads of a task that have not ended.
func (c *Controller) setOptions(ctx context.Context, rows []store.Thread, over Options) error {
	if over.empty() {
		return nil
	}
	var batch store.Batch
	for i, row := range rows {
		if row.Ended() {
			continue
		}
		next, err := c.withOptions(ctx, row, over)
		if err != nil {
			return err
		}
		next.UpdatedAt = c.cfg.Now().UnixMilli()
		batch.Threads = append(batch.Threads, store.ThreadChange{Row: next, From: row.State()})
		rows[i] = next
	}
	err := c.cfg.Store.Commit(ctx, batch)
	if errors.Is(err, store.ErrConflict) {
		if now, readErr := c.cfg.Store.Thread(ctx, rows[0].ID); readErr == nil && now.Wanted != "" {
			return nil // it is to be cancelled: options do not matter any more
		}
	}
	if err != nil {
		return fmt.Errorf("resume thread %s: %w", rows[0].ID, err)
	}
	return nil
}

// withOptions returns row with further options, when every role still has an
// agent with them.
func (c *Controller) withOptions(ctx context.Context, row store.Thread, over Options) (store.Thread, error) {
	opts, err := optionsOf(row)
	if err != nil {
		return store.Thread{}, err
	}
	if row.Options, err = json.Marshal(opts.With(over)); err != nil {
		return store.Thread{}, err
	}
	bundle, err := c.reader.Bundle(ctx, row.Bundle)
	if err != nil {
		return store.Thread{}, err
	}
	return row, c.checkAgents(row, *bundle)
}
