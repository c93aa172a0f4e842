package event

import (
	"context"

	"github.com/plait-run/plait/internal/record/store"
)

// page is how many events are read from the journal at a time.
const page = 1000

// Each calls do with the events after pos that f selects, in order, until do returns an error. It
// sets pos to the position of the last one.
func Each(ctx context.Context, journal store.Journal, f store.EventFilter, pos *int64,
	do func(store.Event) error) error {
	f.Limit = page
	for {
		events, err := journal.Events(ctx, *pos, f)
		if err != nil {
			return err
		}
		for _, ev := range events {
			*pos = ev.Pos
			if err := do(ev); err != nil {
				return err
			}
		}
		if len(events) < page {
			return nil
		}
	}
}
