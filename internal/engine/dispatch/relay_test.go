package dispatch_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/engine/dispatch"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/testing/housetest"
	"github.com/plait-run/plait/internal/testing/mem"
)

const flow = `
version: 1
name: one
roles: {a: {description: d}}
graph:
  $START: {new: {role: a, prompt: "{{ prompt }}"}}
  a: {done: {role: $END}}
`

// TestRelay pokes what has not ended at the start, and then whatever has news, even after the engine was unavailable.
func TestRelay(t *testing.T) {
	s := mem.New(mem.Config{Proven: true})
	begin := func(id string) store.Thread {
		return housetest.Begin(t.Context(), t, s, store.Thread{ID: id, CreatedAt: 1, Workspace: t.TempDir()}, housetest.Bundle(t, flow), "go")
	}
	happens := func(row store.Thread, p event.Payload) {
		t.Helper()
		if err := s.Commit(t.Context(), store.Batch{Events: []store.Event{event.New(row, 1, p)}}); err != nil {
			t.Fatal(err)
		}
	}
	const mine, other, late = "01JD0000000000000000000000", "01JD0000000000000000000001", "01JD0000000000000000000002"
	row, theirs := begin(mine), begin(other)
	var away atomic.Bool
	poked := make(chan string, 10)
	away.Store(true)
	r := dispatch.Relay{Store: s, Types: event.Types(event.TaskUpdated{}), Log: slog.New(slog.DiscardHandler),
		Mine: func(row store.Thread) bool { return row.ID != other },
		Poke: func(_ context.Context, id string) error {
			if away.CompareAndSwap(true, false) {
				return errors.New("the engine is away")
			}
			poked <- id
			return nil
		}}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.Run(ctx)
	}()
	want := func(id string) {
		t.Helper()
		select {
		case got := <-poked:
			if got != id {
				t.Fatalf("%s was poked, want %s", got, id)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%s is not poked", id)
		}
	}
	want(mine)
	happens(theirs, event.TaskUpdated{})
	happens(row, event.NotesRead{}) // nothing follows this
	happens(row, event.TaskUpdated{})
	want(mine)
	happens(begin(late), event.TaskUpdated{})
	want(late)
	cancel()
	<-ended
	if len(poked) > 0 {
		t.Errorf("%s was poked too", <-poked)
	}
}
