package postgres

import (
	"bytes"
	"context"
	"errors"
	"net/url"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/plaitd/pgtest"
)

// TestLostAnswerOfGroup loses the answer to a group of two batches whose next try is refused at the login: they may
// have been applied, so neither is applied by itself.
func TestLostAnswerOfGroup(t *testing.T) {
	server := pgtest.Start(t, pgtest.Config{})
	url := migratedOn(t, server)
	proxy := pgtest.NewProxy(t, server)
	ear, listens := 0, make(chan struct{})
	proxy.See(func(m pgtest.Message) pgtest.Act {
		switch {
		case ear == 0 && m.Back && m.Type == 'C' && bytes.HasPrefix(m.Body, []byte("LISTEN")):
			ear = m.Conn
		case ear != 0 && m.Back && m.Conn == ear && m.Type == 'Z':
			ear = -1 // none
			close(listens)
		}
		return pgtest.Pass
	})
	s := open(t, Config{URL: proxy.URL(url), Beat: time.Hour, Look: time.Hour})
	<-listens // the only other login is over
	admin := func(statement string) {
		if err := server.Admin(t.Context(), statement); err != nil {
			t.Error(err)
		}
	}
	conn, refused := 0, false
	proxy.See(func(m pgtest.Message) pgtest.Act {
		switch {
		case conn == 0 && !m.Back && bytes.Contains(m.Body, []byte("batch-a")):
			conn = m.Conn
		case m.Conn == conn && m.Back && m.Type == 'Z': // it is committed
			admin("ALTER ROLE plait NOLOGIN")
			return pgtest.Cut
		case conn != 0 && !refused && m.Back && m.Type == 'E':
			refused = true
			admin("ALTER ROLE plait LOGIN")
		}
		return pgtest.Pass
	})
	var rs []*request
	for _, text := range []string{"batch-a", "batch-b"} {
		c := ready(t, store.Batch{Events: []store.Event{{Type: text}}})
		rs = append(rs, &request{change: c, done: make(chan error, 1)})
	}
	s.apply(rs)
	proxy.See(nil)
	for _, r := range rs {
		if err := <-r.done; err == nil {
			t.Error("a batch is reported as applied although its answer was lost")
		}
	}
	if !refused {
		t.Error("the next try was not refused")
	}
	events, err := s.Events(t.Context(), 0, store.EventFilter{})
	if err != nil || len(events) != 2 {
		t.Errorf("two batches left %d events: %v", len(events), err)
	}
}

// TestLostAnswerOfLease gives up a lease whose answer was lost: it does not stay held by a process that does not know
// of it.
func TestLostAnswerOfLease(t *testing.T) {
	url := migrated(t)
	far, near := open(t, Config{URL: url, Beat: time.Hour}), open(t, Config{URL: url})
	l, err := far.Acquire(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	far.held.remove(l.(*lease)) // as if the answer had been lost
	for range 2 {               // the first finds it, the second gives it back
		if _, err := near.Acquire(t.Context(), "x"); !errors.Is(err, store.ErrConflict) {
			t.Fatalf("the lease before it is given up: %v", err)
		}
		if err := far.beat(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := near.Acquire(t.Context(), "x"); err != nil {
		t.Error(err)
	}
}

// TestReadOnlyForNow has a server that only answers read-only when it is next connected to, as the hosts of a URL do
// while one takes over.
func TestReadOnlyForNow(t *testing.T) {
	server := pgtest.Start(t, pgtest.Config{})
	at, err := url.Parse(migratedOn(t, server))
	if err != nil {
		t.Fatal(err)
	}
	proxy := pgtest.NewProxy(t, server)
	at.RawQuery += "&target_session_attrs=read-write"
	s := open(t, Config{URL: proxy.URL(at.String()), Beat: time.Hour, Look: time.Hour})
	admin := func(statements ...string) {
		if err := server.Admin(t.Context(), statements...); err != nil {
			t.Error(err)
		}
	}
	admin("ALTER ROLE plait SET default_transaction_read_only = on")
	seen := 0
	proxy.See(func(m pgtest.Message) pgtest.Act {
		if m.Back && m.Type == 'D' && bytes.HasSuffix(m.Body, []byte("\x02on")) { // it is read-only
			if seen++; seen == 2 {
				admin("ALTER ROLE plait RESET default_transaction_read_only")
			}
		}
		return pgtest.Pass
	})
	proxy.CutAll()
	err = s.Commit(t.Context(), store.Batch{Events: []store.Event{{Type: "x"}}})
	proxy.See(nil)
	if err != nil || seen < 2 {
		t.Errorf("commit after %d read-only connections: %v", seen, err)
	}
}

// TestCloseDuringCommit closes a store while its commit waits for another process's: the commit is completed.
func TestCloseDuringCommit(t *testing.T) {
	url := migrated(t)
	other, err := connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close(context.Background())
	if _, err := other.Exec(t.Context(), "SELECT pg_advisory_lock($1)", int64(lockKey)); err != nil {
		t.Fatal(err)
	}
	s := open(t, Config{URL: url})
	committed, closed := make(chan error, 1), make(chan error, 1)
	go func() { committed <- s.Commit(t.Context(), store.Batch{Events: []store.Event{{Type: "x"}}}) }()
	const q = "SELECT count(*) FROM pg_locks JOIN pg_database d ON d.oid = database" +
		" WHERE datname = current_database() AND locktype = 'advisory' AND NOT granted"
	for n := 0; n == 0; time.Sleep(5 * time.Millisecond) {
		if err := other.QueryRow(t.Context(), q).Scan(&n); err != nil {
			t.Fatal(err)
		}
	}
	go func() { closed <- s.Close() }()
	<-s.closing
	select {
	case err := <-committed: // it was aborted
		t.Fatalf("the commit before it could be done: %v", err)
	case <-time.After(300 * time.Millisecond):
	}
	if _, err := other.Exec(t.Context(), "SELECT pg_advisory_unlock($1)", int64(lockKey)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(<-committed, <-closed); err != nil {
		t.Error(err)
	}
}
