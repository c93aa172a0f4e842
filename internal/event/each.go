package event

import (
	"context"

	"github.com/plait-run/plait/internal/store"
)

// page is how many events are read from the journal at a time.
const page = 1000

// Each calls do with the events that f lets through and that come after pos, in their order, until it
// returns an error. pos is that of the last one then.
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
