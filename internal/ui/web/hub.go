package web

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/plait-run/plait/internal/record/store"
)

// A hub reads the journal once for all open pages, so that the store has a single reader.
type hub struct {
	journal store.Journal

	mu   sync.Mutex
	pos  int64         // of the newest event read
	ring []store.Event // the newest events, oldest first: up to twice ringSize
	news chan struct{} // closed when there are more events
	gone error         // why no more events will follow
}

// ringSize is how many events a page can lag behind without reading the store.
const ringSize = 4096

func newHub(journal store.Journal) *hub { return &hub{journal: journal, news: make(chan struct{})} }

// run reads the journal until ctx ends. It retries after errors: open pages outlive them.
func (h *hub) run(ctx context.Context) {
	pos := int64(-1)
	for ctx.Err() == nil {
		var err error
		if pos, err = h.read(ctx, pos); err != nil {
			select {
			case <-time.After(readAgain):
			case <-ctx.Done():
			}
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.gone = ctx.Err()
	close(h.news)
}

// read waits for events after pos, adds them, and returns the new position. A negative pos means
// to start at the end.
func (h *hub) read(ctx context.Context, pos int64) (int64, error) {
	now, err := h.journal.Wait(ctx, pos)
	if err != nil {
		return pos, err
	}
	if pos < 0 {
		h.add(nil, now) // wakes pages that were waiting already
		return now, nil
	}
	events, err := h.journal.Events(ctx, pos, store.EventFilter{Limit: ringSize})
	if err != nil || len(events) == 0 {
		return min(pos, now), err
	}
	pos = events[len(events)-1].Pos
	h.add(events, pos)
	return pos, nil
}

// readAgain is how long a hub waits after an error.
const readAgain = time.Second

// add adds the events up to pos.
func (h *hub) add(events []store.Event, pos int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ring = append(h.ring, events...)
	if over := len(h.ring) - ringSize; over >= ringSize { // copied, since readers may hold the old slice
		h.ring = slices.Clone(h.ring[over:])
	}
	h.pos = pos
	close(h.news)
	h.news = make(chan struct{})
}

// readAtOnce limits how many events are read in one call for a page that is far behind.
const readAtOnce = 1000

// ready is a channel that reports more events immediately.
var ready = func() <-chan struct{} { c := make(chan struct{}); close(c); return c }()

// after returns the events after pos that the filter selects, in order, the reader's new
// position, and a channel that is closed when there are more. It does not wait.
func (h *hub) after(ctx context.Context, pos int64, f store.EventFilter) (events []store.Event, at int64,
	more <-chan struct{}, err error) {
	h.mu.Lock()
	upTo, ring, news, err := h.pos, h.ring, h.news, h.gone
	h.mu.Unlock()
	switch {
	case err != nil || pos >= upTo:
		return nil, pos, news, err
	case len(ring) == 0 || ring[0].Pos > pos+1: // before the oldest event in the ring
		f.Limit = readAtOnce
		if events, err = h.journal.Events(ctx, pos, f); err != nil {
			return nil, pos, news, err
		}
		if n := len(events); n > 0 {
			upTo = max(upTo, events[n-1].Pos)
			if n == readAtOnce {
				return events, events[n-1].Pos, ready, nil
			}
		}
		return events, upTo, news, nil
	}
	from, _ := slices.BinarySearchFunc(ring, pos+1, func(ev store.Event,
		pos int64) int {
		return cmp.Compare(ev.Pos, pos)
	})
	for _, ev := range ring[from:] { // the events of a slice never change
		if matches(f, ev) {
			events = append(events, ev)
		}
	}
	return events, upTo, news, nil
}

// matches reports whether a filter selects an event.
func matches(f store.EventFilter, ev store.Event) bool {
	of := cmp.Or(ev.Task, ev.Thread) // the removal of a task belongs to none
	if f.Task != "" && of != f.Task || f.Thread != "" && ev.Thread != f.Thread {
		return false
	}
	return len(f.Types) == 0 || slices.Contains(f.Types, ev.Type)
}

// heartbeat is how often an idle stream sends a comment, so that clients can tell it from a dead
// one.
const heartbeat = 15 * time.Second
