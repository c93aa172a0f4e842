package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/merkle"
	"github.com/plait-run/plait/internal/record/store"
)

// Tests of the other groups end with CheckLog, too: see Run.
var logTests = []test{
	{"the log has the same root at every size as another implementation", logSizes},
	{"a refused batch leaves no trace in the log", logRefused},
	{"two handles add to one log in turn", logInTurn},
	{"a log continues after reopening", logReopened},
	{"a removed event leaves its leaf, and its secret is gone", logRemoval},
	{"a task that comes back has another secret", logReuse},
	{"a redacted event keeps its leaf", logRedaction},
	{"events of no task and odd payloads have leaves", logOdd},
	{"equal events of two tasks have different leaves", logSalt},
	{"entries come in pages", logPages},
}

// CheckLog returns an error unless the log of s is that over its entries, and those are the events of s and the leaves
// of events that are gone. Nothing may be committed meanwhile.
func CheckLog(ctx context.Context, s store.Store) error { return new(Witness).See(ctx, s) }

// A Witness remembers the states in which it has seen a log. The zero Witness has seen none.
type Witness struct{ Seen []merkle.Tree }

// See does what [CheckLog] does, and returns an error if the log does not begin with all that w has seen of it. Then w
// has seen this one too.
func (w *Witness) See(ctx context.Context, s store.Store) error {
	log, err := s.Log(ctx)
	if err != nil {
		return err
	}
	entries, err := s.Entries(ctx, 0, 0)
	if err != nil {
		return err
	}
	hashes, err := hashesOf(entries)
	if err != nil {
		return err
	}
	root, err := hashes.root(int64(len(entries)))
	if err != nil {
		return err
	}
	rows, err := s.Task(ctx, "")
	if err != nil {
		return err
	}
	size := log.Tree.Size()
	if n := int64(len(entries)); n != size || rows.Position != size {
		return fmt.Errorf("the log has size %d, %d entries, and the last position is %d", size, n, rows.Position)
	}
	if root != log.Tree.Root() {
		return fmt.Errorf("the root of %d entries is %s, the log has %s", size, root, log.Tree.Root())
	}
	for _, was := range w.Seen {
		if was.Size() > size {
			return fmt.Errorf("the log had %d entries, and has %d", was.Size(), size)
		}
		root, err := hashes.root(was.Size())
		if err != nil {
			return err
		}
		if root != was.Root() {
			return fmt.Errorf("the root of the first %d entries was %s, and is %s", was.Size(), was.Root(), root)
		}
	}
	events, err := s.Events(ctx, 0, store.EventFilter{})
	if err != nil {
		return err
	}
	for i, e := range entries {
		if e.Pos != int64(i+1) {
			return fmt.Errorf("entry %d has position %d", i+1, e.Pos)
		}
		if e.Event == nil {
			if e.Leaf.IsZero() || e.Secret != (store.Secret{}) {
				return fmt.Errorf("entry %d has no event, the leaf %s and the secret %x", e.Pos, e.Leaf, e.Secret)
			}
			continue
		}
		if e.Secret == (store.Secret{}) {
			return fmt.Errorf("entry %d has an event and no secret", e.Pos)
		}
		if len(events) == 0 || string(events[0].Entry()) != string(e.Event.Entry()) {
			return fmt.Errorf("entry %d is not the next event", e.Pos)
		}
		events = events[1:]
	}
	if len(events) > 0 {
		return fmt.Errorf("event %d has no entry", events[0].Pos)
	}
	w.Seen = append(w.Seen, log.Tree)
	return nil
}

// Glance remembers the log of s without checking it: others may be writing.
func (w *Witness) Glance(ctx context.Context, s store.Store) error {
	log, err := s.Log(ctx)
	if err == nil {
		w.Seen = append(w.Seen, log.Tree)
	}
	return err
}

// stored are the hashes of a tree, as another implementation stores them.
type stored []tlog.Hash

// ReadHashes implements [tlog.HashReader].
func (h stored) ReadHashes(at []int64) ([]tlog.Hash, error) {
	found := make([]tlog.Hash, len(at))
	for i, n := range at {
		found[i] = h[n]
	}
	return found, nil
}

func hashesOf(entries []store.LogEntry) (h stored, err error) {
	for i := range entries {
		more, err := tlog.StoredHashesForRecordHash(int64(i), tlog.Hash(entries[i].Hash()), h)
		if err != nil {
			return nil, err
		}
		h = append(h, more...)
	}
	return h, nil
}

// root returns the root of the tree over the first n leaves.
func (h stored) root(n int64) (dag.Hash, error) {
	if n == 0 {
		return dag.Sum(nil), nil
	}
	root, err := tlog.TreeHash(n, h)
	return dag.Hash(root), err
}

// entries returns all entries.
func (h *home) entries() []store.LogEntry {
	h.Helper()
	all, err := h.Entries(h.ctx, 0, 0)
	h.must(err)
	return all
}

func (h *home) log() store.Log {
	h.Helper()
	log, err := h.Log(h.ctx)
	h.must(err)
	return log
}

func (h *home) size() int64 {
	h.Helper()
	log := h.log()
	return log.Tree.Size()
}

// sameLog fails the test unless the log is as it was.
func (h *home) sameLog(was store.Log) {
	h.Helper()
	if h.log() != was {
		h.Fatal("the log is not as it was")
	}
}

// file commits an event for each task.
func (h *home) file(tasks ...string) {
	h.Helper()
	var b store.Batch
	for _, task := range tasks {
		b.Events = append(b.Events, store.Event{Type: "x", Task: task, Thread: "th", TS: 5})
	}
	h.commit(b)
}

// logSizes grows a log by batches of one event, then by larger ones whose tasks alternate.
func logSizes(h *home) {
	h.must(CheckLog(h.ctx, h.Store))
	if log := h.log(); len(log.Origin) != 26 || log.Since != 0 {
		h.Errorf("an empty log has origin %q, and began after %d", log.Origin, log.Since)
	}
	for range 33 {
		h.file("A")
		h.must(CheckLog(h.ctx, h.Store))
	}
	for _, n := range []int{63, 64, 65, 127, 128, 129, 255, 256, 257} {
		var tasks []string
		for i := int(h.size()); i < n; i++ {
			tasks = append(tasks, []string{"A", "A", "B", "", "A"}[i%5])
		}
		h.file(tasks...)
		h.same(h.size(), int64(n))
		h.must(CheckLog(h.ctx, h.Store))
	}
}

func logRefused(h *home) {
	const n = 48
	b, t := insert("T")
	b.Events = []store.Event{{Type: "x", Task: "T", Payload: json.RawMessage(`1`)}}
	h.commit(b)
	was, entries := h.log(), h.entries()
	refused := store.Batch{
		Remove: []string{"T"},
		Redact: store.Redaction{Events: []store.Event{{Pos: 1, Payload: json.RawMessage(`2`)}}},
		Gates:  []store.GateChange{{Row: store.Gate{ID: "g"}, From: store.GateOpen}}, // does not exist
		Events: []store.Event{{Type: "y", Task: "T"}, {Type: "y", Task: "U"}},
	}
	h.want(h.Commit(h.ctx, refused), store.ErrConflict)
	h.sameLog(was)
	h.same(h.entries(), entries)
	refused.Remove = nil
	h.want(h.Commit(h.ctx, refused), store.ErrConflict)
	h.sameLog(was)
	h.same(h.entries(), entries)

	// Among others, with which it may share a transaction.
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			b := store.Batch{Events: []store.Event{{Type: "x", Task: id(i % 5)}, {Type: "x", Task: "T"}}}
			var want error
			if i%3 == 1 {
				b.Threads, want = []store.ThreadChange{{Row: t}}, store.ErrConflict // exists
			}
			if err := h.Commit(h.ctx, b); !errors.Is(err, want) {
				h.Errorf("committer %d: got %v, want %v", i, err, want)
			}
		})
	}
	wg.Wait()
	h.same(h.size(), int64(1+2*n*2/3))
	h.must(CheckLog(h.ctx, h.Store))
}

func logInTurn(h *home) {
	other := h.again()
	for i := range 12 {
		s := []store.Store{h.Store, other}[i%2]
		h.must(s.Commit(h.ctx, store.Batch{Events: []store.Event{{Task: id(i % 3)}, {Task: id(i % 5)}}}))
		log, err := []store.Store{other, h.Store}[i%2].Log(h.ctx)
		h.must(err)
		h.sameLog(log)
		h.must(CheckLog(h.ctx, s))
	}
	// One removes the task of the last event, the other goes on.
	h.must(other.Commit(h.ctx, store.Batch{Remove: []string{id(11 % 5), id(11 % 3)}}))
	h.must(CheckLog(h.ctx, h.Store))
	h.file(id(0))
	h.must(CheckLog(h.ctx, other))
	h.must(other.Commit(h.ctx, store.Batch{Events: []store.Event{{Task: id(1)}}}))
	h.same(h.size(), int64(26))
}

func logReopened(h *home) {
	h.file("A", "B", "A")
	was := h.log()
	h.reopen()
	h.sameLog(was)
	h.file("B")
	h.must(CheckLog(h.ctx, h.Store))
	h.commit(store.Batch{Remove: []string{"A", "B"}})
	was = h.log()
	h.reopen()
	h.sameLog(was)
	h.file("B")
	h.same(h.size(), int64(5))
	h.same(h.log().Origin, was.Origin)
	other := store.NewOrigin(h.Now())
	h.must(h.SetOrigin(h.ctx, other))
	h.file("B")
	h.reopen()
	h.same(h.log().Origin, other)
}

func logRemoval(h *home) {
	h.file("A", "B", "A")
	was, log := h.entries(), h.log()
	h.commit(store.Batch{Remove: []string{"A", "nobody"}})
	h.sameLog(log)
	want := []store.LogEntry{{Pos: 1, Leaf: was[0].Hash()}, was[1], {Pos: 3, Leaf: was[2].Hash()}}
	h.same(h.entries(), want)
	// What is removed is told in the same batch, under the id of the task.
	h.commit(store.Batch{Remove: []string{"B"}, Events: []store.Event{{Type: "removed", Task: "B"}}})
	want[1] = store.LogEntry{Pos: 2, Leaf: was[1].Hash()}
	now := h.entries()
	h.same(now[:3], want)
	h.same([]any{now[3].Event.Type, now[3].Event.Seq, now[3].Secret != was[1].Secret}, []any{"removed", int64(1), true})
	h.must(CheckLog(h.ctx, h.Store))
}

func logReuse(h *home) {
	h.file("A", "A")
	was := h.entries()
	for range 3 {
		h.commit(store.Batch{Remove: []string{"A"}})
		h.file("A", "A")
		now := h.entries()
		last := now[len(now)-1]
		h.same([]any{last.Event.Seq, last.Secret != was[0].Secret}, []any{int64(2), true})
		h.same(now[1], store.LogEntry{Pos: 2, Leaf: was[1].Hash()})
		h.must(CheckLog(h.ctx, h.Store))
		was = append(was[:2], last)
	}
}

func logRedaction(h *home) {
	h.commit(store.Batch{Events: []store.Event{{Type: "x", Task: "A", Payload: json.RawMessage(`"` + unwanted + `"`)},
		{Type: "x", Task: "A"}}})
	was, log := h.entries(), h.log()
	clean := *was[0].Event
	for _, text := range []string{`"***"`, `"*"`} { // the second time the leaf stays that of what was filed
		clean.Payload = json.RawMessage(text)
		h.commit(store.Batch{Redact: store.Redaction{Events: []store.Event{clean}}})
		h.sameLog(log)
		h.same(h.entries(), []store.LogEntry{{Pos: 1, Event: &clean, Secret: was[0].Secret, Leaf: was[0].Hash()}, was[1]})
		h.must(CheckLog(h.ctx, h.Store))
	}
	h.commit(store.Batch{Remove: []string{"A"}})
	h.same(h.entries(), []store.LogEntry{{Pos: 1, Leaf: was[0].Hash()}, {Pos: 2, Leaf: was[1].Hash()}})
}

func logOdd(h *home) {
	proof := json.RawMessage(`{"thread T":"` + dag.Sum(nil).String() + `"}`)
	h.commit(store.Batch{Events: []store.Event{
		{Type: "no task"},
		{Type: "null", Payload: json.RawMessage(`null`)},
		{Type: "empty", Task: "A", Payload: json.RawMessage{}, Instance: "i", Attempt: "A.1"},
		{Type: "no JSON", Task: "A", Payload: json.RawMessage("{\x00\xff"), Proof: proof},
		{Type: "é", TS: -1},
	}})
	all := h.entries()
	h.same([]any{len(all), string(all[3].Event.Payload), string(all[3].Event.Proof), all[0].Secret == all[1].Secret},
		[]any{5, "{\x00\xff", string(proof), true})
}

func logSalt(h *home) {
	h.file("A")
	h.file("B")
	e := h.entries()
	if e[0].Secret == e[1].Secret {
		h.Error("two tasks have the same secret")
	}
	h.file("A")
	if again := h.entries()[2]; again.Secret != e[0].Secret {
		h.Error("a task has got another secret")
	}
}

func logPages(h *home) {
	h.file("A", "B", "B", "A", "C", "B", "A")
	h.commit(store.Batch{Remove: []string{"B"}})
	want := h.entries()
	var got []store.LogEntry
	for after := int64(0); ; {
		page, err := h.Entries(h.ctx, after, 2)
		h.must(err)
		if len(page) == 0 {
			break
		}
		if len(page) > 2 {
			h.Fatalf("a page has %d entries", len(page))
		}
		got = append(got, page...)
		after = page[len(page)-1].Pos
	}
	h.same(got, want)
	rest, err := h.Entries(h.ctx, 5, 0)
	h.must(err)
	h.same(rest, want[5:])
}
