package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/merkle"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/plaitd/pgtest"
)

// ready returns a change that is ready to be committed.
func ready(t *testing.T, b store.Batch) *change {
	t.Helper()
	c := &change{Batch: b}
	for _, o := range b.Objects {
		c.bodies = append(c.bodies, o.Data)
	}
	if err := c.prepare(); err != nil {
		t.Fatal(err)
	}
	return c
}

func node(text string) store.Object {
	return store.Object{Hash: dag.Sum([]byte(text)), Kind: store.Node, Data: []byte(text)}
}

func begin(id string) (store.Batch, store.Thread) {
	o := node("start of " + id)
	t := store.Thread{ID: id, Task: id, Root: id, Start: o.Hash, Head: o.Hash, Status: store.Running}
	return store.Batch{
		Objects: []store.Object{o}, Threads: []store.ThreadChange{{Row: t}},
		Events: []store.Event{{Type: "begun", Task: id}},
	}, t
}

// send calls plait.commit behind the store's back, as if for the first time, or again.
func send(t *testing.T, url string, g *group, id []byte, again bool) ([]string, error) {
	t.Helper()
	c, err := connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	args, err := g.args(id, again)
	if err != nil {
		t.Fatal(err)
	}
	var results []string
	var pos int64
	err = c.QueryRow(t.Context(), commitSQL, args...).Scan(&results, &pos)
	return results, err
}

// TestAgain checks that a group whose answer was lost is sent again and applied once, even if
// the first request arrives last.
func TestAgain(t *testing.T) {
	url := migrated(t)
	s := open(t, Config{URL: url})
	b, _ := begin("A")
	refused, _ := begin("A")
	refused.Objects = []store.Object{node("of the refused one")}
	g := groupOf([]*change{ready(t, b), ready(t, refused)})
	id := []byte("0123456789abcdef")
	var all [][]string
	for i, again := range []bool{false, true, true, false} {
		results, err := send(t, url, g, id, again)
		if late := i == 3; (err != nil) != late {
			t.Fatalf("sent for time %d: %v", i+1, err)
		}
		if err == nil {
			all = append(all, results)
		}
	}
	for _, results := range all {
		if results[0] != "" || !strings.HasPrefix(results[1], "PL001 ") {
			t.Errorf("outcomes %q", results)
		}
	}
	if d := cmp.Diff(all[0], all[2]); d != "" {
		t.Errorf("another outcome when asked again:\n%s", d)
	}
	events, err := s.Events(t.Context(), 0, store.EventFilter{})
	if err != nil || len(events) != 1 || events[0].Pos != 1 {
		t.Errorf("events %+v, %v", events, err)
	}
}

// TestGroup checks that each batch of a group has its own outcome, and refused ones leave nothing.
func TestGroup(t *testing.T) {
	s := open(t, Config{URL: migrated(t)})
	ctx := t.Context()
	good, _ := begin("A")
	if err := s.Commit(ctx, good); err != nil {
		t.Fatal(err)
	}
	ok := func(id string) store.Batch { b, _ := begin(id); return b }
	missing := ok("C")
	missing.Threads[0].Row.Head = dag.Sum([]byte("nowhere"))
	fenced := ok("D")
	fenced.Under = []store.Fence{{Name: "lease", Token: 7}}
	counted := ok("E")
	counted.Counts = []store.Count{{Task: "E", Name: "n", Add: 2, Most: 1}}
	// The same object in several batches, a node only in the last of them.
	shared, again := ok("F"), ok("G")
	shared.Objects = append(shared.Objects, store.Object{Hash: dag.Sum([]byte("x")), Data: []byte("x")})
	again.Objects = append(again.Objects, store.Object{Hash: dag.Sum([]byte("x")), Data: []byte("x")}, node("x"))
	var changes []*change
	for _, b := range []store.Batch{ok("B"), ok("A"), missing, fenced, counted, shared, again} {
		changes = append(changes, ready(t, b))
	}
	for _, part := range [][]*change{changes, {ready(t, ok("H")), ready(t, ok("I"))}} {
		results, err := s.commit(part)
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range map[int]error{1: store.ErrConflict, 2: store.ErrNotFound, 3: store.ErrFenced,
			4: store.ErrConflict} {
			if len(part) > 2 && !errors.Is(refused(results[i]), want) {
				t.Errorf("batch %d: %q, want %v", i, results[i], want)
			}
		}
	}
	rows, err := s.Threads(ctx, store.ThreadFilter{})
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, r := range rows {
		ids = append(ids, r.ID)
	}
	if d := cmp.Diff([]string{"A", "B", "F", "G", "H", "I"}, ids); d != "" {
		t.Error(d)
	}
	events, err := s.Events(ctx, 0, store.EventFilter{})
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range events {
		if e.Pos != int64(i+1) {
			t.Errorf("event %d has position %d", i+1, e.Pos)
		}
	}
	if o, err := s.Get(ctx, dag.Sum([]byte("x"))); err != nil || o.Kind != store.Node || len(events) != 6 {
		t.Errorf("%+v, %v, %d events", o, err, len(events))
	}
	if lines, err := s.Check(ctx); err != nil || len(lines) > 0 {
		t.Error(lines, err)
	}
}

func TestMigrate(t *testing.T) {
	url := pgtest.Shared(t).Database(t)
	cfg := Config{URL: url}
	if _, err := Open(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "run plaitd migrate") {
		t.Errorf("an empty database: %v", err)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if _, now, err := Migrate(t.Context(), cfg); err != nil || now != len(migrations) {
				t.Errorf("version %d, %v", now, err)
			}
		})
	}
	wg.Wait()
	s := open(t, cfg)
	c, err := connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	if _, err := c.Exec(t.Context(), "UPDATE plait.meta SET version = 99"); err != nil {
		t.Fatal(err)
	}
	_, err = Open(t.Context(), cfg)
	_, _, err2 := Migrate(t.Context(), cfg)
	for _, err := range []error{err, err2} {
		if !errors.Is(err, store.ErrNewer) {
			t.Errorf("a newer schema: %v", err)
		}
	}
	// A process that has it open finishes, and takes up nothing new.
	if err := s.beat(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Acquire(t.Context(), "x"); !errors.Is(err, store.ErrNewer) {
		t.Errorf("a lease after the schema became newer: %v", err)
	}
	b, _ := begin("A")
	if err := s.Commit(t.Context(), b); err != nil {
		t.Error(err)
	}
}

// TestDead checks that the leases of a process that died on the same host can be taken
// immediately, and that whatever it still sends is refused.
func TestDead(t *testing.T) {
	url := migrated(t)
	dead := open(t, Config{URL: url, Beat: time.Hour})
	l, err := dead.Acquire(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, Config{URL: url, Alive: func(pid int, start int64) bool { return false }})
	if _, held, err := s.Holder(t.Context(), "x"); err != nil || held {
		t.Errorf("held by a dead process: %v, %v", held, err)
	}
	taken, err := s.Acquire(t.Context(), "x")
	if err != nil || taken.Fence().Token <= l.Fence().Token {
		t.Fatalf("%+v, %v", taken, err)
	}
	zombie(t, dead, l)
	if err := taken.Release(); err != nil {
		t.Error(err)
	}
}

// zombie checks that the old holder of a lease is refused, and is told that it was lost.
func zombie(t *testing.T, s *Store, l store.Lease) {
	t.Helper()
	b, _ := begin("zombie")
	if err := store.Under(s, l).Commit(t.Context(), b); !errors.Is(err, store.ErrFenced) {
		t.Errorf("a batch of the old holder: %v", err)
	}
	select {
	case <-l.Lost():
	case <-time.After(time.Minute):
		t.Error("the old holder was not told")
	}
	if err := l.Release(); err != nil {
		t.Error(err)
	}
}

// TestSilent checks that the leases of a process that was silent for long enough can be
// taken, while a process with heartbeats keeps its own.
func TestSilent(t *testing.T) {
	url := migrated(t)
	silent := open(t, Config{URL: url, Beat: time.Hour, TTL: time.Second, Lost: time.Hour})
	l, err := silent.Acquire(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	loud := open(t, Config{URL: url, Beat: 10 * time.Millisecond, TTL: 5 * time.Second})
	kept, err := loud.Acquire(t.Context(), "kept")
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		_, err = loud.Acquire(t.Context(), "x")
		if held, ok := errors.AsType[*store.HeldError](err); !ok || held.Owner != silent.me.owner ||
			time.Now().After(deadline) {
			break
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	zombie(t, silent, l)
	if _, err := silent.Acquire(t.Context(), "kept"); !errors.Is(err, store.ErrConflict) {
		t.Errorf("what a living process has: %v", err)
	}
	if err := kept.Release(); err != nil {
		t.Error(err)
	}
}

// TestDropped checks that a process can immediately take a lease again whose release it could
// not tell the server.
func TestDropped(t *testing.T) {
	s := open(t, Config{URL: migrated(t)})
	l, err := s.Acquire(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	s.held.remove(l.(*lease)) // as Release does if it cannot tell the server
	s.held.drop("x", l.Fence().Token)
	if _, held, err := s.Holder(t.Context(), "x"); err != nil || held {
		t.Errorf("held: %v, %v", held, err)
	}
	again, err := s.Acquire(t.Context(), "x")
	if err != nil || again.Fence().Token <= l.Fence().Token {
		t.Fatalf("%+v, %v", again, err)
	}
	if err := again.Release(); err != nil {
		t.Error(err)
	}
}

// TestTold checks that a waiter learns of all that others commit, without looking by itself.
func TestTold(t *testing.T) {
	url := migrated(t)
	other, s := open(t, Config{URL: url}), open(t, Config{URL: url, Look: time.Hour})
	const commits = 50
	failed := make(chan error, 1)
	go func() {
		for range commits {
			if err := other.Commit(t.Context(), store.Batch{Events: []store.Event{{Type: "x"}}}); err != nil {
				failed <- err
			}
		}
	}()
	for last := int64(0); last < commits; {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		at, err := s.Wait(ctx, last)
		cancel()
		if err != nil || at <= last {
			t.Fatalf("after %d: %d, %v", last, at, err)
		}
		last = at
	}
	select {
	case err := <-failed:
		t.Error(err)
	default:
	}
}

// TestWaitsUnasked checks that who waits for what this process commits does not ask the server for it: only the
// listener does, once, when it begins.
func TestWaitsUnasked(t *testing.T) {
	proxy := pgtest.NewProxy(t, pgtest.Shared(t))
	var asked atomic.Int64
	names := map[string]bool{} // of the prepared statement
	proxy.See(func(m pgtest.Message) pgtest.Act {
		fields := bytes.SplitN(m.Body, []byte{0}, 3)
		switch {
		case m.Back:
		case m.Type == 'P' && string(fields[1]) == readPosition:
			names[string(fields[0])] = true
		case m.Type == 'B' && names[string(fields[1])]:
			asked.Add(1)
		}
		return pgtest.Pass
	})
	s := open(t, Config{URL: proxy.URL(migrated(t)), Look: time.Hour})
	for pos := range int64(20) {
		waited := make(chan error, 1)
		go func() {
			_, err := s.Wait(t.Context(), pos)
			waited <- err
		}()
		if err := s.Commit(t.Context(), store.Batch{Events: []store.Event{{Type: "x"}}}); err != nil {
			t.Fatal(err)
		}
		if err := <-waited; err != nil {
			t.Fatal(err)
		}
	}
	if n := asked.Load(); n > 1 {
		t.Errorf("20 waits asked for the position %d times", n)
	}
}

// TestUntold checks that a waiter finds events that no process announced.
func TestUntold(t *testing.T) {
	url := migrated(t)
	s := open(t, Config{URL: url, Look: 20 * time.Millisecond})
	waited := make(chan error, 1)
	go func() {
		last, err := s.Wait(t.Context(), 0)
		if err == nil && last != 1 {
			err = fmt.Errorf("position %d", last)
		}
		waited <- err
	}()
	b, _ := begin("A")
	if _, err := send(t, url, groupOf([]*change{ready(t, b)}), []byte("untold"), false); err != nil {
		t.Fatal(err)
	}
	if err := <-waited; err != nil {
		t.Error(err)
	}
}

// TestGone checks that a waiter learns that events are gone, from the next announcement.
func TestGone(t *testing.T) {
	url := migrated(t)
	other, s := open(t, Config{URL: url}), open(t, Config{URL: url, Look: time.Hour})
	for range 3 {
		if err := s.Commit(t.Context(), store.Batch{Events: []store.Event{{Type: "x"}}}); err != nil {
			t.Fatal(err)
		}
	}
	waited := make(chan error, 1)
	go func() {
		last, err := s.Wait(t.Context(), 3)
		if err == nil && last > 2 {
			err = fmt.Errorf("position %d", last)
		}
		waited <- err
	}()
	log, err := other.Entries(t.Context(), 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	var tree merkle.Tree
	tree.Append(log[0].Hash())
	if _, err := other.readers.Exec(t.Context(), "DELETE FROM plait.events WHERE pos > 1"); err != nil {
		t.Fatal(err)
	}
	if _, err := other.readers.Exec(t.Context(), "UPDATE plait.counters SET value = 1, log = $1 WHERE name = 'pos'",
		tree.Bytes()); err != nil {
		t.Fatal(err)
	}
	if err := other.Commit(t.Context(), store.Batch{Events: []store.Event{{Type: "x"}}}); err != nil {
		t.Fatal(err)
	}
	if err := <-waited; err != nil {
		t.Error(err)
	}
}
