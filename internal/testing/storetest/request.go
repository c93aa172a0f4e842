package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/plait-run/plait/internal/record/store"
)

var requestTests = []test{
	{"a request comes back as it was", requestFidelity},
	{"a request is taken once", requestTaken},
	{"of many who take a request at once one gets it", requestRace},
	{"requests are filtered, in order of their ids", requestFilters},
	{"a batch that loses a request changes nothing", requestOrNothing},
	{"requests go with their task", requestRemoved},
}

// asks returns a batch that leaves requests.
func asks(requests ...store.Request) (b store.Batch) {
	for _, w := range requests {
		b.Requests = append(b.Requests, store.RequestChange{Row: w})
	}
	return b
}

// takes returns a batch that takes a request.
func takes(id string, at int64) store.Batch {
	return store.Batch{Requests: []store.RequestChange{{Row: store.Request{ID: id, TakenAt: at}, Take: true}}}
}

// requests fails the test unless f selects these.
func (h *home) requests(f store.RequestFilter, want ...store.Request) {
	h.Helper()
	got, err := h.Requests(h.ctx, f)
	h.must(err)
	h.same(got, want)
}

func fullRequest() store.Request {
	return store.Request{
		ID: "W", Task: "K", Thread: "T", Kind: store.RequestResume, Text: "<on>\n é",
		Options: json.RawMessage(`{ "b": [1] }`), By: "ada", Via: store.ViaWeb, At: 7,
	}
}

func requestFidelity(h *home) {
	full, bare := fullRequest(), store.Request{ID: "X"}
	h.commit(asks(full, bare))
	h.requests(store.RequestFilter{}, full, bare)
	full.Options[0] = 'X' // neither what was given nor what was handed out is shared
	got, err := h.Requests(h.ctx, store.RequestFilter{})
	h.must(err)
	got[0].Options[0] = 'Y'
	h.requests(store.RequestFilter{}, fullRequest(), bare)
	h.reopen()
	h.requests(store.RequestFilter{}, fullRequest(), bare)
}

func requestTaken(h *home) {
	full := fullRequest()
	h.want(h.Commit(h.ctx, takes("W", 8)), store.ErrConflict) // does not exist yet
	h.commit(asks(full))
	h.want(h.Commit(h.ctx, asks(full)), store.ErrConflict)
	for name, b := range map[string]store.Batch{"no id": asks(store.Request{}), "no time": takes("W", 0)} {
		if err := h.Commit(h.ctx, b); err == nil || errors.Is(err, store.ErrConflict) {
			h.Errorf("%s: got %v", name, err)
		}
	}
	h.commit(takes("W", 8))
	full.TakenAt = 8 // and nothing else changes
	h.requests(store.RequestFilter{}, full)
	h.requests(store.RequestFilter{Open: true})
	for _, b := range []store.Batch{takes("W", 9), asks(fullRequest()), takes("other", 8)} {
		h.want(h.Commit(h.ctx, b), store.ErrConflict)
	}
	h.reopen()
	h.want(h.Commit(h.ctx, takes("W", 9)), store.ErrConflict)
	h.requests(store.RequestFilter{}, full)
}

func requestRace(h *home) {
	handles := []store.Store{h.Store, h.again()}
	for round := range 10 {
		w := store.Request{ID: fmt.Sprint("W", round), Task: "K"}
		h.commit(asks(w))
		var won atomic.Int64
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				switch err := handles[i%2].Commit(h.ctx, takes(w.ID, int64(i+1))); {
				case err == nil:
					if !won.CompareAndSwap(0, int64(i+1)) {
						h.Errorf("%s was taken twice", w.ID)
					}
				case !errors.Is(err, store.ErrConflict):
					h.Error(err)
				}
			})
		}
		wg.Wait()
		got, err := h.Requests(h.ctx, store.RequestFilter{})
		h.must(err)
		if last := got[len(got)-1]; won.Load() == 0 || last.TakenAt != won.Load() {
			h.Errorf("%s was taken by %d, its row says %d", w.ID, won.Load(), last.TakenAt)
		}
	}
}

func requestFilters(h *home) {
	for i := range 6 { // left in another order than that of their ids
		id := fmt.Sprint("w", (5*i+3)%6)
		h.commit(asks(store.Request{ID: id, Task: fmt.Sprint("t", i%2), Thread: fmt.Sprint("th", i%3)}))
	}
	h.commit(takes("w0", 1))
	h.commit(takes("w5", 1))
	for name, x := range map[string]struct {
		f    store.RequestFilter
		want string
	}{
		"all":    {store.RequestFilter{}, "w0w1w2w3w4w5"},
		"task":   {store.RequestFilter{Task: "t0"}, "w1w3w5"},
		"thread": {store.RequestFilter{Thread: "th0"}, "w0w3"},
		"open":   {store.RequestFilter{Open: true}, "w1w2w3w4"},
		"and":    {store.RequestFilter{Task: "t0", Open: true}, "w1w3"},
		"none":   {store.RequestFilter{Task: "t2"}, ""},
	} {
		rows, err := h.Requests(h.ctx, x.f)
		h.must(err)
		got := ""
		for _, w := range rows {
			got += w.ID
		}
		if got != x.want {
			h.Errorf("%s: got %s, want %s", name, got, x.want)
		}
	}
}

// requestOrNothing takes a request along with its effects: a batch that loses the request
// has no effect, and one whose effects fail has not taken it.
func requestOrNothing(h *home) {
	b, t := insert(id(1))
	b.Requests = asks(store.Request{ID: "W", Task: t.ID, Thread: t.ID}).Requests
	h.commit(b)
	moved := t
	moved.Steps++
	with := takes("W", 1)
	with.Threads = []store.ThreadChange{{Row: moved, From: &store.ThreadState{Head: t.Head, Status: store.Failed}}}
	h.want(h.Commit(h.ctx, with), store.ErrConflict)
	h.requests(store.RequestFilter{Open: true}, store.Request{ID: "W", Task: t.ID, Thread: t.ID})
	h.commit(takes("W", 1))
	with.Threads[0].From, with.Events = t.State(), []store.Event{{Type: "x", Task: t.ID}}
	h.want(h.Commit(h.ctx, with), store.ErrConflict)
	got, err := h.Thread(h.ctx, t.ID)
	h.must(err)
	h.same(got, t)
	h.gapless(0)
}

func requestRemoved(h *home) {
	kept := store.Request{ID: "2", Task: "R2", Thread: "R2"}
	taken := store.Request{ID: "3", Task: "R", Thread: "R", TakenAt: 5}
	h.commit(asks(store.Request{ID: "1", Task: "R", Thread: "P"}, kept, taken))
	h.commit(store.Batch{Remove: []string{"R", "nobody"}})
	h.requests(store.RequestFilter{}, kept)
	h.want(h.Commit(h.ctx, takes("1", 1)), store.ErrConflict)
	h.commit(asks(store.Request{ID: "1", Task: "R"})) // its id is free
}
