package verify_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/record/verify"
	"github.com/plait-run/plait/internal/testing/mem"
	"github.com/plait-run/plait/internal/testing/soak"
)

func TestSound(t *testing.T) {
	stores := map[string]func(t *testing.T) store.Store{
		"mem":    func(t *testing.T) store.Store { _, s := memWorld(t); return s },
		"sqlite": func(t *testing.T) store.Store { return openSQLite(t, t.TempDir()+"/home") },
	}
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, open(t))
			rows := w.fill()
			home := t.TempDir()
			w.must(thread.Views{Dir: home, Index: w.s}.Draw(ctx, rows["A"].Bundle))
			var done, total int
			r, err := verify.All(ctx, verify.Config{Store: w.s, Home: home, Progress: func(d, n int) { done, total = d, n }})
			w.must(err)
			count := 0
			for _, err := range w.s.List(ctx) {
				w.must(err)
				count++
			}
			want := verify.Report{Integrity: verify.OK, Completeness: verify.OK, History: verify.OK, Objects: count,
				Problems: []verify.Problem{}}
			log, err := w.s.Log(ctx)
			w.must(err)
			want.Log = &verify.Log{Size: log.Tree.Size(), Root: log.Tree.Root(), Verdict: "unsigned since 1"}
			if diff := cmp.Diff(want, r); err != nil || diff != "" {
				t.Errorf("all: %v\n%s", err, diff)
			}
			if done != count || total != count {
				t.Errorf("progress ended at %d of %d, want %d", done, total, count)
			}
			for id, row := range rows {
				r, err := verify.Thread(ctx, verify.Config{Store: w.s}, row.ID)
				if err != nil || !r.OK() || r.Objects == 0 {
					t.Errorf("thread %s: %+v, %v", id, r, err)
				}
				r, err = verify.Object(ctx, verify.Config{Store: w.s}, row.Head)
				if err != nil || !r.OK() || r.Objects == 0 {
					t.Errorf("object %s: %+v, %v", row.Head, r, err)
				}
			}
		})
	}
}

func TestNotFound(t *testing.T) {
	_, s := memWorld(t)
	if _, err := verify.Thread(ctx, verify.Config{Store: s}, "nobody"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("thread: %v, want not found", err)
	}
	if _, err := verify.Object(ctx, verify.Config{Store: s}, dag.Sum(nil)); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("object: %v, want not found", err)
	}
	r, err := verify.All(ctx, verify.Config{Store: s})
	text, _ := json.Marshal(r)
	if want := `{"integrity":"ok","completeness":"ok","history":"ok","objects":0,"problems":[],"redacted":0,` +
		`"unchecked":0,"log":{"size":0,"root":"` + dag.Sum(nil).String() + `","since":0,"verdict":"ok"}}`; err != nil ||
		string(text) != want {
		t.Errorf("empty store: %s, %v, want %s", text, err, want)
	}
}

// A problem's hash is null if it is not about an object.
func TestReportJSON(t *testing.T) {
	r := verify.Report{
		Integrity: verify.Failed, Completeness: verify.OK, Objects: 1, Problems: []verify.Problem{{What: "x"}},
	}
	text, err := json.Marshal(r)
	want := `{"integrity":"failed","completeness":"ok","objects":1,` +
		`"problems":[{"hash":null,"what":"x"}],"redacted":0,"unchecked":0}`
	if err != nil || string(text) != want {
		t.Errorf("got %s, %v, want %s", text, err, want)
	}
}

// Damage to bytes is found for every single object and named by its hash, and
// does not keep the rest from being verified.
func TestEveryObject(t *testing.T) {
	w, s := memWorld(t)
	w.fill()
	var hashes []dag.Hash
	for e, err := range s.List(ctx) {
		w.must(err)
		hashes = append(hashes, e.Hash)
	}
	pinned := dag.Sum([]byte(strings.Repeat("big and loose\n", 30_000)))
	for i, h := range hashes {
		if i%(12/soak.Rounds(t, soak.Tries(12, 1))) != 0 && h != pinned { // one trial is like the next
			continue
		}
		o, err := s.Get(ctx, h)
		w.must(err)
		s.Corrupt(h, func(b []byte) []byte { b[len(b)/2] ^= 4; return b })
		r, err := verify.All(ctx, verify.Config{Store: s})
		w.must(err)
		if r.Integrity != verify.Failed || !names(r, h, "corrupt") || r.Objects != len(hashes) {
			t.Errorf("flipped bit in %s (%s): %+v", h, o.Kind, r)
		}
		s.Lose(h)
		r, err = verify.All(ctx, verify.Config{Store: s})
		w.must(err)
		if found := names(r, h, "missing"); found == (h == pinned) || found && r.Completeness != verify.Failed {
			t.Errorf("lost %s (%s): %+v", h, o.Kind, r)
		}
		if r.Integrity != verify.OK {
			t.Errorf("lost %s (%s):\n%.600s", h, o.Kind, lines(r))
		}
		w.commit(store.Batch{Objects: []store.Object{o}})
	}
	if r, err := verify.All(ctx, verify.Config{Store: s}); err != nil || !r.OK() {
		t.Errorf("in the end: %+v, %v", r, err)
	}
}

func names(r verify.Report, h dag.Hash, what string) bool {
	for _, p := range r.Problems {
		if p.Hash == h && strings.Contains(p.What, what) {
			return true
		}
	}
	return false
}

// Garbage may have lost what it refers to, but its bytes are checked.
func TestGarbage(t *testing.T) {
	w, s := memWorld(t)
	child := w.content("child")
	w.content("garbage", child)
	s.Lose(child)
	r, err := verify.All(ctx, verify.Config{Store: s})
	if err != nil || !r.OK() {
		t.Errorf("dangling garbage: %+v, %v", r, err)
	}
	bad := []byte(`{"payload":"x","refs":[],"type":"content"} `)
	w.commit(store.Batch{Objects: []store.Object{{Hash: dag.Sum(bad), Kind: store.Node, Data: bad}}})
	r, err = verify.All(ctx, verify.Config{Store: s})
	if err != nil || !names(r, dag.Sum(bad), "not in canonical form") || r.Integrity != verify.Failed ||
		r.Completeness != verify.OK {
		t.Errorf("garbage that is spelled wrong: %+v, %v", r, err)
	}
}

// Only what a thread or an object reaches is verified with it.
func TestScope(t *testing.T) {
	w, s := memWorld(t)
	rows := w.fill()
	l, err := w.reader.State(ctx, rows["L"].Head)
	w.must(err)
	s.Lose(l.Content)
	cfg := verify.Config{Store: s}
	for _, id := range []string{"A", "J", "P"} {
		if r, err := verify.Thread(ctx, cfg, id); err != nil || !r.OK() {
			t.Errorf("thread %s: %+v, %v", id, r, err)
		}
	}
	if r, err := verify.Thread(ctx, cfg, "L"); err != nil || !names(r, l.Content, "missing, named by state") {
		t.Errorf("thread L: %+v, %v", r, err)
	}
	if r, err := verify.Object(ctx, cfg, rows["L"].Head); err != nil || !names(r, l.Content, "missing") {
		t.Errorf("head of L: %+v, %v", r, err)
	}
	if r, err := verify.Object(ctx, cfg, l.Ancestors[0]); err != nil || !r.OK() {
		t.Errorf("parent of L's head: %+v, %v", r, err)
	}
	// The root of a task stands for the whole task.
	k, err := w.reader.Start(ctx, rows["K"].Start)
	w.must(err)
	s.Lose(k.Prompt)
	if r, err := verify.Thread(ctx, cfg, "P"); err != nil || !names(r, k.Prompt, "missing") {
		t.Errorf("task P: %+v, %v", r, err)
	}
}

// What the store reports about its container counts against integrity.
func TestContainer(t *testing.T) {
	_, s := memWorld(t)
	r, err := verify.All(ctx, verify.Config{Store: complaining{s}})
	want := verify.Report{
		Integrity: verify.Failed, Completeness: verify.OK, History: verify.OK,
		Problems: []verify.Problem{{What: "page 7 is never used"}}, Log: &verify.Log{Root: dag.Sum(nil), Verdict: verify.OK},
	}
	if diff := cmp.Diff(want, r); err != nil || diff != "" {
		t.Errorf("all: %v\n%s", err, diff)
	}
}

type complaining struct{ store.Store }

func (complaining) Check(context.Context) ([]string, error) {
	return []string{"page 7 is never used"}, nil
}

// A thread that is removed, and collected, during verification is not damage.
func TestRemovedMeanwhile(t *testing.T) {
	w, s := memWorld(t)
	row := w.fill()["L"]
	r, err := verify.All(ctx, verify.Config{Store: &beforeList{Store: s, do: func() {
		w.commit(store.Batch{Remove: []string{"L"}})
		s.Lose(row.Head)
	}}})
	if err != nil || !r.OK() {
		t.Errorf("all: %+v, %v", r, err)
	}
}

type beforeList struct {
	store.Store
	once sync.Once
	do   func()
}

func (b *beforeList) List(c context.Context) iter.Seq2[store.Entry, error] {
	b.once.Do(b.do)
	return b.Store.List(c)
}

// Rows that cannot be read are a loss; what can be read is verified.
func TestUnreadableRows(t *testing.T) {
	var broken mem.Op
	s := mem.New(mem.Config{Fault: func(op mem.Op, _ mem.When) error {
		if op == broken || broken == mem.OpOpen && op == mem.OpScan {
			return fmt.Errorf("column head: %w", store.ErrCorrupt)
		}
		return nil
	}})
	w := newWorld(t, s)
	w.fill()
	for _, op := range []mem.Op{mem.OpThreads, mem.OpAttempts, mem.OpGates, mem.OpFlows, mem.OpList, mem.OpCheck} {
		broken = op
		r, err := verify.All(ctx, verify.Config{Store: s})
		if err != nil || r.Completeness != verify.Failed || !names(r, dag.Hash{}, "cannot be read") {
			t.Errorf("%s: %+v, %v", op, r, err)
		}
	}
	broken = mem.OpOpen
	if r, err := verify.All(ctx, verify.Config{Store: s}); err != nil || r.Integrity != verify.Failed {
		t.Errorf("open: %+v, %v", r, err)
	}
	cut, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := verify.All(cut, verify.Config{Store: s}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// Bytes that say that an object was redacted are believed only if an event says so too.
func TestForgedRedaction(t *testing.T) {
	said := func(objects int, of string) store.Event {
		return event.New(store.Thread{ID: of, Task: of}, 5, event.TaskRedacted{By: "ann", Objects: objects})
	}
	genuine, forged := store.Redacted([]byte("***")), store.Redacted([]byte("all tests passed"))
	for name, x := range map[string]struct {
		do       func(s *mem.Store, h dag.Hash) store.Batch
		unproven int
		want     string // a problem
	}{
		"redacted": {func(_ *mem.Store, h dag.Hash) store.Batch {
			return store.Batch{Redact: store.Redaction{Objects: []store.Object{{Hash: h, Data: genuine}}},
				Events: []store.Event{said(1, "")}}
		}, 0, ""},
		"replaced": {func(s *mem.Store, h dag.Hash) store.Batch {
			s.Corrupt(h, func([]byte) []byte { return forged })
			return store.Batch{}
		}, 0, "no event says that"},
		"replaced after it was redacted": {func(s *mem.Store, h dag.Hash) store.Batch {
			s.Corrupt(h, func([]byte) []byte { return forged })
			return store.Batch{Objects: []store.Object{{Hash: h, Data: genuine, Redacted: true}},
				Events: []store.Event{said(1, "")}}
		}, 0, "no event says that"},
		"redacted by an older version": {func(s *mem.Store, h dag.Hash) store.Batch {
			s.Corrupt(h, func([]byte) []byte { return genuine })
			return store.Batch{Events: []store.Event{said(1, "A")}}
		}, 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w, s := memWorld(t)
			w.fill()
			h := dag.Sum([]byte(strings.Repeat("big and loose\n", 30_000)))
			w.commit(x.do(s, h))
			all, err := verify.All(ctx, verify.Config{Store: s})
			w.must(err)
			one, err := verify.Object(ctx, verify.Config{Store: s}, h)
			w.must(err)
			for _, r := range []verify.Report{all, one} {
				if r.Redacted != 1 || r.Unproven != x.unproven || r.OK() != (x.want == "") ||
					x.want != "" && !names(r, h, x.want) {
					t.Errorf("%+v", r)
				}
			}
		})
	}
}
