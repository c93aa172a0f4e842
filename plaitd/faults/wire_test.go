package faults

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/soak"
	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/plaitd/pgtest"
	"github.com/plait-run/plait/plaitd/postgres"
)

// A wire harms what is said of one thing: the messages, on one connection, from the first of a
// client that has a word in it up to the one with which the server ends its answer.
type wire struct {
	mu   sync.Mutex
	word []byte
	at   int // the message that is harmed, from 0; below zero none
	act  pgtest.Act
	hits int // how often yet

	conn int      // on which it goes on, 0: not found
	n    int      // messages of it so far
	seen []string // their names, of the first time
	done bool
}

// arm harms the n-th message about word, as often as it is said again.
func (w *wire) arm(word string, at int, act pgtest.Act, hits int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.word, w.at, w.act, w.hits = []byte(word), at, act, hits
	w.conn, w.n, w.seen, w.done = 0, 0, nil, false
}

func (w *wire) see(m pgtest.Message) pgtest.Act {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.word == nil || w.done {
		return pgtest.Pass
	}
	if !m.Back && m.Type != 0 && bytes.Contains(m.Body, w.word) && m.Conn != w.conn {
		w.conn, w.n = m.Conn, 0
	}
	if w.conn == 0 || m.Conn != w.conn {
		return pgtest.Pass
	}
	at := w.n
	w.n++
	w.seen = append(w.seen, m.String())
	if at == w.at && w.hits > 0 {
		w.hits--
		w.conn = 0
		return w.act
	}
	if m.Back && m.Type == 'Z' {
		w.conn, w.done = 0, true
	}
	return pgtest.Pass
}

// messages returns the names of what was said, and disarms.
func (w *wire) messages() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	seen := w.seen
	w.word, w.seen = nil, nil
	return seen
}

// struck reports whether all harm was done.
func (w *wire) struck() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.hits == 0
}

var acts = []pgtest.Act{pgtest.Cut, pgtest.Stall, pgtest.Drop, pgtest.Part}

// TestWire harms each message of a commit in turn, in each way: the commit is reported done, is
// there once, and others go on at once.
func TestWire(t *testing.T) {
	rounds := soak.Rounds(t, 1)
	server := pgtest.Shared(t)
	var (
		mu    sync.Mutex
		harms int
	)
	t.Cleanup(func() { soak.Figure(t, "%d messages of commits harmed, each batch applied once", harms) })
	for _, act := range acts {
		for _, hits := range []int{1, 2} {
			t.Run(fmt.Sprintf("%s %d", act, hits), func(t *testing.T) {
				t.Parallel()
				n := wireRounds(t, server, act, hits, rounds)
				mu.Lock()
				harms += n
				mu.Unlock()
			})
		}
	}
}

func wireRounds(t *testing.T, server *pgtest.Server, act pgtest.Act, hits, rounds int) (harms int) {
	url := newRecord(t, server)
	proxy := pgtest.NewProxy(t, server)
	w := &wire{}
	proxy.See(w.see)
	far, near := open(t, quick(proxy.URL(url))), open(t, quick(url))
	mine, err := begin(t.Context(), far, id(1))
	if err != nil {
		t.Fatal(err)
	}
	other, err := begin(t.Context(), near, id(2))
	if err != nil {
		t.Fatal(err)
	}
	// What a calm commit says, when the statement is known to the connection.
	var calm []string
	for i := range 3 {
		word := fmt.Sprintf("calm-%d", i)
		w.arm(word, -1, pgtest.Pass, 0)
		if err := mine.step(t.Context(), far, word); err != nil {
			t.Fatal(err)
		}
		calm = w.messages()
	}
	if len(calm) < 4 || calm[len(calm)-1] != "backend Z" {
		t.Fatalf("a commit says %q", calm)
	}
	for round := range rounds {
		for at, name := range calm {
			word := fmt.Sprintf("harm-%d-%d", round, at)
			w.arm(word, at, act, hits)
			if err := mine.step(t.Context(), far, word); err != nil {
				t.Errorf("%s at %s: %v", act, name, err)
				return harms
			}
			if !w.struck() {
				t.Errorf("%s at %s: nothing was harmed; it said %q", act, name, w.messages())
			}
			w.messages()
			if err := other.step(t.Context(), near, word); err != nil {
				t.Errorf("another after %s at %s: %v", act, name, err)
			}
			harms += hits
		}
	}
	check(t, near, mine, other)
	check(t, far, mine, other)
	return harms
}

// TestWireOfLeases harms each message with which a lease is taken and given back. Whatever the
// process that asked was told: what it has it can use, nobody else has it too, and after it
// gave it back, or is gone, others can have it.
func TestWireOfLeases(t *testing.T) {
	server := pgtest.Shared(t)
	for _, act := range acts {
		t.Run(act.String(), func(t *testing.T) {
			t.Parallel()
			url := newRecord(t, server)
			proxy := pgtest.NewProxy(t, server)
			w := &wire{}
			proxy.See(w.see)
			far, near := open(t, quick(proxy.URL(url))), open(t, quick(url))
			l := take(t, far, "calm-1")
			w.arm("calm-2", -1, pgtest.Pass, 0)
			take(t, far, "calm-2")
			taking := w.messages()
			w.arm("calm-1", -1, pgtest.Pass, 0)
			if err := l.Release(); err != nil {
				t.Fatal(err)
			}
			giving := w.messages()
			if len(taking) < 4 || len(giving) < 4 {
				t.Fatalf("taking a lease says %q, giving it back %q", taking, giving)
			}
			for at, name := range taking {
				lease := fmt.Sprintf("take-%d", at)
				w.arm(lease, at, act, 1)
				l := take(t, far, lease)
				if !w.struck() {
					t.Errorf("%s at %s: nothing was harmed", act, name)
				}
				w.messages()
				used(t, far, near, l)
			}
			for at := range giving {
				lease := fmt.Sprintf("give-%d", at)
				l := take(t, far, lease)
				w.arm(lease, at, act, 1)
				err := l.Release()
				w.messages()
				if err != nil {
					l = take(t, far, lease) // its own process can
					err = l.Release()
				}
				if err != nil {
					t.Errorf("%s at %s: %v", act, giving[at], err)
				}
				free(t, near, lease, l.Fence())
			}
		})
	}
}

func take(t *testing.T, s store.Store, name string) store.Lease {
	t.Helper()
	l, err := s.Acquire(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// used checks that a lease is its holder's, and nobody else's after it was given back.
func used(t *testing.T, holder, other store.Store, l store.Lease) {
	t.Helper()
	name := l.Fence().Name
	select {
	case <-l.Lost():
		t.Errorf("%s is lost as soon as it is had", name)
	default:
	}
	if _, err := other.Acquire(t.Context(), name); !errors.Is(err, store.ErrConflict) {
		t.Errorf("%s is taken by a second one: %v", name, err)
	}
	if err := store.Under(holder, l).Commit(t.Context(), store.Batch{Events: []store.Event{{Type: name}}}); err != nil {
		t.Errorf("commit under %s: %v", name, err)
	}
	if err := l.Release(); err != nil {
		t.Error(err)
	}
	free(t, other, name, l.Fence())
}

// free checks that a lease can be taken, and that its last holder cannot commit then.
func free(t *testing.T, s store.Store, name string, last store.Fence) {
	t.Helper()
	l := take(t, s, name)
	if l.Fence().Token <= last.Token {
		t.Errorf("%s: after token %d comes %d", name, last.Token, l.Fence().Token)
	}
	err := s.Commit(t.Context(), store.Batch{Under: []store.Fence{last}, Events: []store.Event{{Type: "too late"}}})
	if !errors.Is(err, store.ErrFenced) {
		t.Errorf("%s: a commit under the lease of before: %v", name, err)
	}
}

// TestMigrations has several hosts migrate an empty database at once: one does, and all find
// it done.
func TestMigrations(t *testing.T) {
	server := pgtest.Shared(t)
	for range soak.Rounds(t, 3) {
		url := server.Database(t)
		found := make([]int, 4)
		var wait sync.WaitGroup
		for i := range found {
			wait.Go(func() {
				was, now, err := postgres.Migrate(t.Context(), postgres.Config{URL: url})
				if err != nil || now < 1 {
					t.Errorf("version %d: %v", now, err)
				}
				found[i] = was
			})
		}
		wait.Wait()
		slices.Sort(found)
		if found[0] != 0 || found[1] < 1 {
			t.Errorf("of four migrations at once these versions were found: %v", found)
		}
		s := open(t, postgres.Config{URL: url})
		l, err := begin(t.Context(), s, id(1))
		if err != nil {
			t.Fatal(err)
		}
		check(t, s, l)
	}
	soak.Figure(t, "4 migrations at once: one did it")
}

// TestMigrationCut cuts a migration at each message that it says: afterwards the schema is that
// of before, or whole.
func TestMigrationCut(t *testing.T) {
	server := pgtest.Shared(t)
	proxy := pgtest.NewProxy(t, server)
	for at := 0; ; at++ {
		url := server.Database(t)
		n, struck := 0, false
		proxy.See(func(m pgtest.Message) pgtest.Act {
			n++
			if n == at+1 {
				struck = true
				return pgtest.Cut
			}
			return pgtest.Pass
		})
		_, _, err := postgres.Migrate(t.Context(), postgres.Config{URL: proxy.URL(url)})
		proxy.See(nil)
		if !struck {
			if err != nil || at < 10 {
				t.Errorf("calm, after %d cuts: %v", at, err)
			}
			return
		}
		if s, err := postgres.Open(t.Context(), postgres.Config{URL: url, Patience: time.Second}); err == nil {
			s.Close() // whole
		}
		if _, now, err := postgres.Migrate(t.Context(), postgres.Config{URL: url}); err != nil || now < 1 {
			t.Fatalf("migrate again after a cut at message %d: version %d, %v", at+1, now, err)
		}
		s := open(t, postgres.Config{URL: url})
		l, err := begin(t.Context(), s, id(1))
		if err != nil {
			t.Fatalf("after a cut at message %d: %v", at+1, err)
		}
		check(t, s, l)
	}
}
