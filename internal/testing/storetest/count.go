package storetest

import (
	"errors"
	"math"
	"sync"
	"sync/atomic"

	"github.com/plait-run/plait/internal/record/store"
)

var countTests = []test{
	{"a count adds up, by task and name", countAdds},
	{"a count ends at its most", countMost},
	{"a count never falls below zero", countFloor},
	{"a batch that a count refuses changes nothing", countOrNothing},
	{"at its edge a count is exact, whoever adds", countRace},
	{"counts go with their task", countsRemoved},
}

func add(task, name string, n, most int64) store.Batch {
	return store.Batch{Counts: []store.Count{{Task: task, Name: name, Add: n, Most: most}}}
}

// counted fails the test unless a count of task is want.
func (h *home) counted(task, name string, want int64) {
	h.Helper()
	rows, err := h.Task(h.ctx, task)
	h.must(err)
	if got := rows.Counts[name]; got != want {
		h.Errorf("count %s of %s: got %d, want %d", name, task, got, want)
	}
}

func countAdds(h *home) {
	h.counted("A", "x", 0)
	h.commit(add("A", "x", 2, 10))
	h.commit(store.Batch{Counts: []store.Count{
		{Task: "A", Name: "x", Add: 3, Most: 10}, {Task: "A", Name: "y/z", Add: 1, Most: 1},
		{Task: "B", Name: "x", Add: 7, Most: 7},
		{Task: "A", Name: "x", Add: 4, Most: 10}, // a batch may add twice
	}})
	h.reopen()
	h.counted("A", "x", 9)
	h.counted("A", "y/z", 1)
	h.counted("B", "x", 7)
	h.counted("B", "y/z", 0)
	for name, b := range map[string]store.Batch{"no task": add("", "x", 1, 1), "no name": add("A", "", 1, 1)} {
		if err := h.Commit(h.ctx, b); !errors.Is(err, store.ErrInvalid) {
			h.Errorf("%s: got %v, want invalid", name, err)
		}
	}
}

func countMost(h *home) {
	for i, x := range []struct {
		add, most int64
		ok        bool
		then      int64
	}{
		{5, 4, false, 0},
		{1, 0, false, 0},
		{4, 4, true, 4},
		{1, 4, false, 4},
		{0, 4, true, 4},
		{0, 3, true, 4}, // adds nothing
		{1, 5, true, 5},
		{1, 3, false, 5}, // the limit has fallen
		{-1, 3, true, 4}, // giving back is never refused
		{math.MaxInt64 - 4, math.MaxInt64, true, math.MaxInt64},
		{math.MaxInt64, math.MaxInt64, false, math.MaxInt64}, // and nothing overflows
	} {
		err := h.Commit(h.ctx, add("A", "x", x.add, x.most))
		if (err == nil) != x.ok || err != nil && !errors.Is(err, store.ErrConflict) {
			h.Errorf("%d: add %d to at most %d: got %v, want it done: %v", i, x.add, x.most, err, x.ok)
		}
		h.counted("A", "x", x.then)
	}
}

func countFloor(h *home) {
	h.commit(add("A", "x", -3, 10)) // does not exist yet
	h.counted("A", "x", 0)
	h.commit(add("A", "x", 2, 10))
	h.commit(add("A", "x", -1, 10))
	h.counted("A", "x", 1)
	h.commit(add("A", "x", -5, 10))
	h.counted("A", "x", 0)
	h.commit(add("A", "x", 10, 10)) // giving back too much leaves no debt
	h.counted("A", "x", 10)
}

func countOrNothing(h *home) {
	b, t := insert(id(1))
	h.commit(b)
	h.commit(add(t.ID, "x", 1, 1))
	b, nothing := full(h, t)
	b.Counts = append(b.Counts, store.Count{Task: t.ID, Name: "x", Add: 1, Most: 1})
	h.want(h.Commit(h.ctx, b), store.ErrConflict)
	nothing()
	// What is refused for another reason adds nothing either.
	b, nothing = full(h, t)
	b.Threads[0].From.Status = store.Failed
	h.want(h.Commit(h.ctx, b), store.ErrConflict)
	nothing()
}

func countRace(h *home) {
	const writers, most = 16, 60
	handles := []store.Store{h.Store, h.again()}
	var added, refused atomic.Int64
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for range most / 4 {
				switch err := handles[w%2].Commit(h.ctx, add("A", "x", 1, most)); {
				case err == nil:
					added.Add(1)
				case errors.Is(err, store.ErrConflict):
					refused.Add(1)
				default:
					h.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	h.same([]int64{added.Load(), refused.Load()}, []int64{most, writers*most/4 - most})
	h.counted("A", "x", most)
}

func countsRemoved(h *home) {
	b, t := insert(id(1))
	b.Counts = []store.Count{{Task: t.ID, Name: "x", Add: 2, Most: 2}, {Task: "other", Name: "x", Add: 3, Most: 3}}
	h.commit(b)
	h.want(h.Commit(h.ctx, add(t.ID, "x", 1, 2)), store.ErrConflict)
	b = add(t.ID, "x", 1, 1) // removed first, then counted
	b.Remove = []string{t.ID}
	h.commit(b)
	h.counted(t.ID, "x", 1)
	h.counted("other", "x", 3)
}
