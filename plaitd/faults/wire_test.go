package faults

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/testing/soak"
	"github.com/plait-run/plait/plaitd/pgtest"
	"github.com/plait-run/plait/plaitd/postgres"
)

// A wire harms one exchange: the messages, on one connection, from the first of a client that
// contains a word up to the one with which the server ends its answer.
type wire struct {
	mu   sync.Mutex
	word []byte
	at   int // the message to harm, from 0; below zero none
	act  pgtest.Act
	hits int // how often still

	conn int      // the exchange's connection, 0: not found
	n    int      // its messages so far
	seen []string // their names, the first time
	done bool
}

// arm harms the message with index at in the exchange about word, hits times if it is sent again.
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

// messages returns the names of the messages seen, and disarms.
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

// A harmed is a host that commits through a harmed wire, and another next to it.
type harmed struct {
	t           *testing.T
	act         pgtest.Act
	hits        int // how often each message is harmed
	wire        wire
	far, near   store.Store
	mine, other *line
	calm        []string // the messages of an undisturbed commit
	done        int
}

// TestWire harms each message of a commit in turn, in each way, once and again on the retry: the
// commit is reported done, is there once, and others continue immediately.
func TestWire(t *testing.T) {
	t.Parallel()
	rounds := soak.Rounds(t, 1)
	server := pgtest.Shared(t)
	var all []*harmed
	for _, act := range acts {
		all = append(all, newHarmed(t, server, act, 1))
	}
	all = append(all, newHarmed(t, server, pgtest.Cut, 2))
	if rounds > 1 {
		all = append(all, newHarmed(t, server, pgtest.Stall, 2), newHarmed(t, server, pgtest.Drop, 2),
			newHarmed(t, server, pgtest.Part, 2))
	}
	var wait sync.WaitGroup // not t.Parallel: they mostly wait
	for _, h := range all {
		wait.Go(func() { h.run(rounds) })
	}
	wait.Wait()
	harms := 0
	for _, h := range all {
		check(t, h.near, h.mine, h.other)
		check(t, h.far, h.mine, h.other)
		harms += h.done
	}
	soak.Figure(t, "%d messages of commits harmed, each batch applied once", harms)
}

func newHarmed(t *testing.T, server *pgtest.Server, act pgtest.Act, hits int) *harmed {
	t.Helper()
	h := &harmed{t: t, act: act, hits: hits}
	url := newRecord(t, server)
	proxy := pgtest.NewProxy(t, server)
	proxy.See(h.wire.see)
	far := quick(proxy.URL(url))
	far.Try = 2 * time.Second // a server that is only slow is not to harm a message more
	h.far, h.near = open(t, far), open(t, quick(url))
	var err, err2 error
	h.mine, err = begin(t.Context(), h.far, id(1))
	h.other, err2 = begin(t.Context(), h.near, id(2))
	if err = errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	for i := range 3 { // by the end the statement is prepared
		word := fmt.Sprintf("calm-%d", i)
		h.wire.arm(word, -1, pgtest.Pass, 0)
		if err := h.mine.step(t.Context(), h.far, word); err != nil {
			t.Fatal(err)
		}
		h.calm = h.wire.messages()
	}
	if len(h.calm) < 4 || h.calm[len(h.calm)-1] != "backend Z" {
		t.Fatalf("a commit says %q", h.calm)
	}
	return h
}

func (h *harmed) run(rounds int) {
	for round := range rounds {
		for at, name := range h.calm {
			word := fmt.Sprintf("harm-%d-%d", round, at)
			h.wire.arm(word, at, h.act, h.hits)
			if err := h.mine.step(h.t.Context(), h.far, word); err != nil {
				h.t.Errorf("%s at %s: %v", h.act, name, err)
				return
			}
			struck := h.wire.struck()
			if said := h.wire.messages(); !struck {
				h.t.Errorf("%s at %s: nothing was harmed; it said %q", h.act, name, said)
			}
			if err := h.other.step(h.t.Context(), h.near, word); err != nil {
				h.t.Errorf("another after %s at %s: %v", h.act, name, err)
				return
			}
			h.done += h.hits
		}
	}
}

// TestWireOfLeases harms each message with which a lease is taken and given back. Whatever the
// process was told: a lease that it has it can use, no other process has it too, and after it
// gave it back, or is gone, others can take it.
func TestWireOfLeases(t *testing.T) {
	t.Parallel()
	server := pgtest.Shared(t)
	some := []pgtest.Act{pgtest.Cut, pgtest.Part}
	if soak.Rounds(t, 1) > 1 {
		some = acts
	}
	t.Cleanup(func() {
		soak.Figure(t, "each message about a lease harmed in %d ways: held by one, and free after it", len(some))
	})
	for _, act := range some {
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
					l = take(t, far, lease) // its own process can take it
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

// used checks that a lease is its holder's, and no other process's after it was given back.
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

// free checks that a lease can be taken, and that its last holder can no longer commit then.
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

// TestKeepalives checks that each connection asks the server to detect by itself a client that has
// vanished: what it had begun keeps its locks until then.
func TestKeepalives(t *testing.T) {
	t.Parallel()
	server := pgtest.Shared(t)
	proxy := pgtest.NewProxy(t, server)
	url := newRecord(t, server)
	began, asked := 0, 0
	proxy.See(func(m pgtest.Message) pgtest.Act {
		if m.Type == 0 && !cancels(m) {
			began++
			if bytes.Contains(m.Body, []byte("tcp_keepalives_idle\x0010\x00")) {
				asked++
			}
		}
		return pgtest.Pass
	})
	if _, _, err := postgres.Migrate(t.Context(), quick(proxy.URL(url))); err != nil {
		t.Fatal(err)
	}
	s := open(t, quick(proxy.URL(url)))
	if _, err := begin(t.Context(), s, id(1)); err != nil {
		t.Fatal(err)
	}
	proxy.See(nil)
	if began < 2 || asked != began {
		t.Errorf("%d of %d connections asked for it", asked, began)
	}
}

// cancels reports whether a client asks to cancel what another of its connections does.
func cancels(m pgtest.Message) bool {
	const code = 0x04d2162e // instead of a protocol version
	return m.Type == 0 && binary.BigEndian.Uint32(m.Body) == code
}

// TestClose closes a store that waits for events: it must not ask the server to cancel anything. Nothing
// would be running that could answer, and each command would take a second longer.
func TestClose(t *testing.T) {
	t.Parallel()
	server := pgtest.Shared(t)
	proxy := pgtest.NewProxy(t, server)
	var cancelled, listens atomic.Bool
	var ear atomic.Int64 // the connection that listens
	proxy.See(func(m pgtest.Message) pgtest.Act {
		switch {
		case cancels(m):
			cancelled.Store(true)
		case m.Back && m.Type == 'C' && bytes.HasPrefix(m.Body, []byte("LISTEN")):
			ear.Store(int64(m.Conn))
		case !m.Back && int64(m.Conn) == ear.Load():
			listens.Store(true) // it reads what it has missed
		}
		return pgtest.Pass
	})
	url := newRecord(t, server)
	near := open(t, postgres.Config{URL: url})
	far, err := postgres.Open(t.Context(), postgres.Config{URL: proxy.URL(url), Look: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	heard := make(chan error, 1)
	go func() { // it never looks by itself: it is notified of new events
		_, err := far.Wait(t.Context(), 1)
		heard <- err
	}()
	for waits := true; waits || !listens.Load(); {
		if err := near.Commit(t.Context(), store.Batch{Events: []store.Event{{Type: "news"}}}); err != nil {
			t.Fatal(err)
		}
		select {
		case err = <-heard:
			waits = false
		case <-time.After(10 * time.Millisecond):
		}
	}
	if err = errors.Join(err, far.Close()); err != nil || cancelled.Load() {
		t.Errorf("closed: %v; the server was asked to cancel: %v", err, cancelled.Load())
	}
}
