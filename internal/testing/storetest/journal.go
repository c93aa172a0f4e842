package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
)

var journalTests = []test{
	{"events are numbered without gaps, in the order of commits", numbering},
	{"events are filtered and limited", eventFilters},
	{"events come back as they were", eventFidelity},
	{"a reader behind the writers misses nothing", tail},
	{"waiting ends with an event of this handle", func(h *home) { waits(h, h.Store) }},
	{"waiting ends with an event of another handle", func(h *home) { waits(h, h.again()) }},
	{"waiting ends with its context", waitEnds},
}

// gapless fails the test unless there are n events, numbered 1 to n, and each
// task's from 1 up.
func (h *home) gapless(n int) {
	h.Helper()
	events, err := h.Events(h.ctx, 0, store.EventFilter{})
	h.must(err)
	h.same(len(events), n)
	seq := map[string]int64{}
	for i, e := range events {
		seq[e.Task]++
		if e.Pos != int64(i+1) || e.Seq != seq[e.Task] {
			h.Fatalf("event %d has position %d and number %d, want number %d", i+1, e.Pos, e.Seq, seq[e.Task])
		}
	}
}

// numbering has each writer record, in an event, which step of its own thread it
// is: the journal must hold them in that order, and none of those that failed.
func numbering(h *home) {
	const writers, steps = 6, 20
	handles := []store.Store{h.Store, h.again()}
	var wg sync.WaitGroup
	for w := range writers {
		s := handles[w%len(handles)]
		wg.Go(func() {
			b, t := insert(id(w))
			err := s.Commit(h.ctx, b)
			for i := 0; i < steps && err == nil; i++ {
				stale := t
				stale.Head = dag.Sum([]byte("stale"))
				if bad, _ := step(stale, fmt.Sprint("bad", w, i)); !errors.Is(s.Commit(h.ctx, bad), store.ErrConflict) {
					h.Errorf("writer %d: a stale step was taken", w)
				}
				b, t = step(t, fmt.Sprint(w, i))
				b.Events[0].TS = int64(i + 1)
				b.Events = append(b.Events, store.Event{Type: "shared", Task: "shared"})
				err = s.Commit(h.ctx, b)
			}
			if err != nil {
				h.Error(err)
			}
		})
	}
	wg.Wait()
	h.gapless(2 * writers * steps)
	for w := range writers {
		events, err := h.Events(h.ctx, 0, store.EventFilter{Task: id(w)})
		h.must(err)
		h.same(len(events), steps)
		for i, e := range events {
			h.same(e.TS, int64(i+1))
		}
	}
}

func eventFilters(h *home) {
	for i := range 6 {
		h.commit(store.Batch{Events: []store.Event{{Type: fmt.Sprint(i), Task: fmt.Sprint("t", i%2),
			Thread: fmt.Sprint("th", i%3)}}})
	}
	for name, x := range map[string]struct {
		after int64
		f     store.EventFilter
		want  string
	}{
		"all":        {0, store.EventFilter{}, "012345"},
		"after":      {4, store.EventFilter{}, "45"},
		"after all":  {6, store.EventFilter{}, ""},
		"task":       {0, store.EventFilter{Task: "t1"}, "135"},
		"task after": {2, store.EventFilter{Task: "t1"}, "35"},
		"thread":     {0, store.EventFilter{Thread: "th2"}, "25"},
		"both":       {0, store.EventFilter{Task: "t0", Thread: "th2"}, "2"},
		"limit":      {1, store.EventFilter{Limit: 2}, "12"},
		"limit task": {0, store.EventFilter{Task: "t0", Limit: 2}, "02"},
		"type":       {0, store.EventFilter{Types: []string{"3"}}, "3"},
		"types":      {1, store.EventFilter{Types: []string{"5", "0", "2", "nothing"}}, "25"},
		"types task": {0, store.EventFilter{Task: "t1", Types: []string{"1", "2", "5"}, Limit: 1}, "1"},
		"none":       {0, store.EventFilter{Task: "nobody"}, ""},
		"newest":     {1, store.EventFilter{Newest: true}, "54321"},
		"two newest": {0, store.EventFilter{Newest: true, Task: "t0", Limit: 2}, "42"},
		"before":     {1, store.EventFilter{Before: 5}, "123"},
		"page back":  {0, store.EventFilter{Newest: true, Before: 4, Types: []string{"0", "1", "2", "3"}, Limit: 2}, "21"},
		"before all": {0, store.EventFilter{Newest: true, Before: 1}, ""},
	} {
		events, err := h.Events(h.ctx, x.after, x.f)
		h.must(err)
		got := ""
		for _, e := range events {
			got += e.Type
		}
		if got != x.want {
			h.Errorf("%s: got events %q, want %q", name, got, x.want)
		}
	}
}

func eventFidelity(h *home) {
	want := []store.Event{
		{TS: 1, Type: "full", Task: "t", Thread: "th", Instance: "i", Attempt: "a",
			Payload: json.RawMessage("{ \"spaced\": \"<é\u2028>\" }")},
		{Type: "no payload", Task: "t"},
		{Type: "no task", Payload: json.RawMessage(`null`)},
	}
	h.commit(store.Batch{Events: want})
	got, err := h.Events(h.ctx, 0, store.EventFilter{})
	h.must(err)
	want[0].Pos, want[0].Seq = 1, 1
	want[1].Pos, want[1].Seq = 2, 2
	want[2].Pos, want[2].Seq = 3, 1
	h.same(got, want)
}

// tail follows the journal while others write it. A position that appears after
// a higher one was seen would be missed.
func tail(h *home) {
	const writers, each = 6, 30
	handles := []store.Store{h.Store, h.again()}
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for range each {
				if err := handles[w%2].Commit(h.ctx, store.Batch{Events: []store.Event{{Task: fmt.Sprint(w)}}}); err != nil {
					h.Error(err)
					return
				}
			}
		})
	}
	defer wg.Wait()
	for next := int64(1); next <= writers*each; {
		if _, err := h.Wait(h.ctx, next-1); err != nil {
			h.Fatal(err)
		}
		events, err := h.Events(h.ctx, next-1, store.EventFilter{})
		h.must(err)
		for _, e := range events {
			h.same(e.Pos, next)
			next++
		}
	}
}

func waits(h *home, other store.Store) {
	h.commit(store.Batch{Events: []store.Event{{Type: "first"}}})
	last, err := h.Wait(h.ctx, 0)
	h.must(err)
	h.same(last, int64(1))
	type result struct {
		last int64
		err  error
	}
	woken := make(chan result)
	go func() {
		last, err := h.Wait(h.ctx, 1)
		woken <- result{last, err}
	}()
	h.must(other.Commit(h.ctx, store.Batch{Objects: []store.Object{blob("no event")}}))
	h.must(other.Commit(h.ctx, store.Batch{Events: []store.Event{{Type: "second"}}}))
	h.same(<-woken == result{last: 2}, true)
}

func waitEnds(h *home) {
	ctx, cancel := context.WithCancel(h.ctx)
	woken := make(chan error)
	go func() {
		_, err := h.Wait(ctx, 0)
		woken <- err
	}()
	cancel()
	h.want(<-woken, context.Canceled)
}
