package dispatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/plait-run/plait/internal/record/store"
)

// A Relay pokes an engine about what happens in the record: the journal is the outbox, so code that
// changes something needs to know no engine. Duplicates do no harm, so every worker has one.
type Relay struct {
	Store interface {
		store.Journal
		store.Index
	}
	Types []string                            // events after which there may be something to do
	Mine  func(root store.Thread) bool        // reports whether a task is the engine's
	Poke  func(context.Context, string) error // with the id of a task
	Log   *slog.Logger
}

const (
	relayPage  = 500                   // events at a time
	relayEvery = 50 * time.Millisecond // between two looks: one that advances a step makes several commits
	relayPause = 2 * time.Second       // before a retry
)

// Open returns the engine's tasks that have not ended.
func (r Relay) Open(ctx context.Context) ([]string, error) {
	open := []store.Status{store.Pending, store.Running, store.Blocked}
	rows, err := r.Store.Threads(ctx, store.ThreadFilter{Kind: store.KindRoot, Statuses: open})
	if err != nil {
		return nil, fmt.Errorf("list open tasks: %w", err)
	}
	var ids []string
	for _, row := range rows {
		if r.Mine(row) {
			ids = append(ids, row.ID)
		}
	}
	return ids, nil
}

// Run pokes every task that has not ended, and then each one with news, until ctx ends. If the record or the engine
// cannot be reached it retries from the start.
func (r Relay) Run(ctx context.Context) {
	for ctx.Err() == nil {
		if err := r.follow(ctx); ctx.Err() == nil {
			r.Log.Warn("relay waits", "error", err)
			pause(ctx, relayPause)
		}
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// follow returns only with an error.
func (r Relay) follow(ctx context.Context) error {
	newest, err := r.Store.Events(ctx, 0, store.EventFilter{Newest: true, Limit: 1})
	if err != nil {
		return err
	}
	var pos int64
	if len(newest) > 0 {
		pos = newest[0].Pos
	}
	open, err := r.Open(ctx) // after reading the position: what begins from now on is news
	if err != nil {
		return err
	}
	for _, id := range open {
		if err := r.Poke(ctx, id); err != nil {
			return err
		}
	}
	for {
		last, err := r.Store.Wait(ctx, pos)
		switch {
		case err == nil && last < pos:
			err = fmt.Errorf("events %d to %d are gone: all open tasks are looked at again", last+1, pos)
		case err == nil:
			err = r.news(ctx, pos, last)
		}
		if err != nil {
			return err
		}
		pos = last
		pause(ctx, relayEvery)
	}
}

// news pokes each task with events after one position, up to another.
func (r Relay) news(ctx context.Context, pos, last int64) error {
	poked := map[string]bool{}
	for {
		events, err := r.Store.Events(ctx, pos, store.EventFilter{Types: r.Types, Before: last + 1, Limit: relayPage})
		if err != nil {
			return err
		}
		for _, e := range events {
			pos = e.Pos
			if poked[e.Task] {
				continue
			}
			poked[e.Task] = true
			row, err := r.Store.Thread(ctx, e.Task)
			if errors.Is(err, store.ErrNotFound) || err == nil && (row.Ended() || !r.Mine(row)) {
				continue
			}
			if err == nil {
				err = r.Poke(ctx, e.Task)
			}
			if err != nil {
				return err
			}
		}
		if len(events) < relayPage {
			return nil
		}
	}
}
