package event_test

import (
	"errors"
	"testing"

	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/testing/mem"
)

// TestEach checks that every event is passed once and in order, however many there are, and that a caller
// that stops in between continues after the event at which it stopped.
func TestEach(t *testing.T) {
	s := mem.New(mem.Config{})
	row := store.Thread{ID: "T", Task: "T"}
	const all = 2500
	for i := range all {
		if err := s.Commit(t.Context(), store.Batch{
			Events: []store.Event{event.New(row, int64(i), event.NotesRead{})},
		}); err != nil {
			t.Fatal(err)
		}
	}
	var pos, next int64
	stop := errors.New("stop")
	for _, until := range []int64{1500, all} {
		err := event.Each(t.Context(), s, store.EventFilter{Task: "T"}, &pos, func(ev store.Event) error {
			if ev.TS != next {
				t.Fatalf("event %d came, want %d", ev.TS, next)
			}
			if next++; next == until && until < all {
				return stop
			}
			return nil
		})
		if want := until < all; errors.Is(err, stop) != want || !want && err != nil || next != until {
			t.Errorf("%d were told, %v; want %d", next, err, until)
		}
	}
}
