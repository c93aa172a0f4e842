package attempt

import (
	"context"
	"fmt"
	"testing"

	"github.com/plait-run/plait/internal/record/store"
)

// A requestingStore is one in which something else happens just before a commit.
type requestingStore struct {
	store.Store
	before []func() // each commit
	read   int      // events
}

func (s *requestingStore) Commit(ctx context.Context, b store.Batch) error {
	if len(s.before) > 0 {
		s.before[0]()
		s.before = s.before[1:]
	}
	return s.Store.Commit(ctx, b)
}

func (s *requestingStore) Events(ctx context.Context, after int64, f store.EventFilter) ([]store.Event, error) {
	events, err := s.Store.Events(ctx, after, f)
	s.read += len(events)
	return events, err
}

// TestEndAmongRequests checks that an attempt whose owner died ends although people, or another owner, change the
// thread at the same time, and that an attempt that another has begun meanwhile stays in flight.
func TestEndAmongRequests(t *testing.T) {
	for name, x := range map[string]struct {
		wants []store.Intent
		next  string // in flight at the end
	}{
		"none":                {nil, ""},
		"one wish":            {[]store.Intent{store.IntentCancel}, ""},
		"two wishes":          {[]store.Intent{store.IntentCancel, ""}, ""},
		"another attempt too": {[]store.Intent{store.IntentCancel}, "A.2"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t, "read", nil)
			commit := func(b store.Batch) {
				t.Helper()
				if err := h.store.Forge(t.Context(), b); err != nil {
					t.Fatal(err)
				}
			}
			a := store.Attempt{ID: "A.1", Thread: h.row.ID, From: h.row.Head, N: 1, Role: "work",
				Status: store.AttemptRunning, StartedAt: 1}
			row := h.row
			row.InFlight = a.ID
			commit(store.Batch{Attempts: []store.AttemptChange{{Row: a}},
				Threads: []store.ThreadChange{{Row: row, From: h.row.State()}}})
			other := &requestingStore{Store: h.store}
			for _, want := range x.wants {
				other.before = append(other.before, func() {
					now, err := h.store.Thread(t.Context(), row.ID)
					if err != nil {
						t.Fatal(err)
					}
					next := now
					next.Intent = want
					if x.next != "" {
						next.InFlight = x.next
					}
					commit(store.Batch{Threads: []store.ThreadChange{{Row: next, From: now.State()}}})
				})
			}
			h.cfg.Store = other
			if err := h.End(t.Context(), &row, &a); err != nil {
				t.Fatal(err)
			}
			now, err := h.store.Thread(t.Context(), row.ID)
			if err != nil || now.InFlight != x.next || row.InFlight != x.next {
				t.Errorf("in flight: %q, to the caller %q, want %q; %v", now.InFlight, row.InFlight, x.next, err)
			}
			if n := len(x.wants); n > 0 && now.Intent != x.wants[n-1] {
				t.Errorf("wanted: %q, want %q", now.Intent, x.wants[n-1])
			}
			if got, err := h.store.Attempt(t.Context(), a.ID); err != nil || got.Status != store.AttemptInterrupted {
				t.Errorf("the attempt is %s, %v", got.Status, err)
			}
		})
	}
}

// TestEndTwice checks that of two who end an attempt the later one takes over what the other recorded.
func TestEndTwice(t *testing.T) {
	h := newHouse(t, "read", nil)
	a := store.Attempt{ID: "A.1", Thread: h.row.ID, From: h.row.Head, N: 1, Role: "work", Status: store.AttemptRunning}
	if err := h.store.Forge(t.Context(), store.Batch{Attempts: []store.AttemptChange{{Row: a}}}); err != nil {
		t.Fatal(err)
	}
	row, cancelled := h.row, a
	cancelled.Status = store.AttemptCancelled
	h.cfg.Store = &requestingStore{Store: h.store, before: []func(){func() {
		err := h.store.Forge(t.Context(),
			store.Batch{Attempts: []store.AttemptChange{{Row: cancelled, From: store.AttemptRunning}}})
		if err != nil {
			t.Fatal(err)
		}
	}}}
	if err := h.End(t.Context(), &row, &a); err != nil || a.Status != store.AttemptCancelled {
		t.Errorf("the attempt is %s, %v", a.Status, err)
	}
}

// TestLastSign checks when an attempt was last heard of, and that to find out does not read all that its thread
// ever did.
func TestLastSign(t *testing.T) {
	h := newHouse(t, "read", nil)
	a := store.Attempt{ID: "A.9", Thread: h.row.ID, StartedAt: 5}
	add := func(n int, ts int64, attempt string) {
		var b store.Batch
		for range n {
			b.Events = append(b.Events, store.Event{TS: ts, Type: "agent.item", Task: h.row.Task, Thread: h.row.ID,
				Attempt: attempt, Payload: []byte("{}")})
		}
		if err := h.store.Commit(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	counted := &requestingStore{Store: h.store}
	h.cfg.Store = counted
	check := func(want int64, most int) {
		t.Helper()
		counted.read = 0
		got, err := h.lastSign(t.Context(), h.row, a)
		if err != nil || got != want || counted.read > most {
			t.Errorf("last heard of at %d, want %d, after %d events, at most %d: %v", got, want, counted.read, most, err)
		}
	}
	check(5, 10)
	for i := range 10 {
		add(100, 10, fmt.Sprintf("A.%d", i))
	}
	check(10, signsAtOnce)
	add(signsAtOnce+1, 20, "") // said by people
	check(10, 2*signsAtOnce)
}
