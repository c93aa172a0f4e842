package faults

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/testing/soak"
	"github.com/plait-run/plait/plaitd/pgtest"
	"github.com/plait-run/plait/plaitd/postgres"
)

// TestBouncer has two hosts work behind PgBouncer in transaction mode, which has fewer connections than they do:
// everything works, and notifications bypass it. Killed and started again, it is waited for.
func TestBouncer(t *testing.T) {
	t.Parallel()
	server := pgtest.Shared(t)
	bouncer := pgtest.NewBouncer(t, server, 3)
	direct := newRecord(t, server)
	c := postgres.Config{URL: bouncer.URL(direct), Direct: direct, Look: time.Hour} // it never looks by itself
	a, b := open(t, c), open(t, c)
	heard := make(chan error, 1)
	go func() {
		_, err := b.Wait(t.Context(), 1)
		heard <- err
	}()
	lines := make([]*line, 8)
	work := func(what string) {
		t.Helper()
		var wait sync.WaitGroup
		for i := range lines {
			s := []store.Store{a, b}[i%2]
			if lines[i] == nil {
				var err error
				if lines[i], err = begin(t.Context(), s, id(i)); err != nil {
					t.Fatal(err)
				}
			}
			wait.Go(func() {
				lease, err := s.Acquire(t.Context(), fmt.Sprintf("%s-%d", what, i))
				for n := 0; n < 10 && err == nil; n++ {
					err = lines[i].step(t.Context(), store.Under(s, lease), fmt.Sprintf("%s-%d-%d", what, i, n))
				}
				if err == nil {
					err = lease.Release()
				}
				if err != nil {
					t.Errorf("%s: %v", what, err)
				}
			})
		}
		wait.Wait()
	}
	work("calm")
	if err := <-heard; err != nil {
		t.Error(err)
	}
	used(t, a, b, take(t, a, "lease"))
	data := bytes.Repeat([]byte("large "), 100<<10)
	h, _, err := a.Stage(t.Context(), "pin", bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	if err := read(t.Context(), b, data); err != nil {
		t.Error(err)
	}
	all := func(store.View) ([]dag.Hash, error) { return []dag.Hash{h}, nil }
	if gone, err := b.Sweep(t.Context(), 0, all); err != nil || len(gone) > 0 {
		t.Errorf("what is pinned was swept: %v, %v", gone, err)
	}
	err = a.Commit(t.Context(), store.Batch{Unpin: []string{"pin"}})
	gone, err2 := b.Sweep(t.Context(), 0, all)
	if err := errors.Join(err, err2, b.Compact(t.Context(), 0)); err != nil || len(gone) != 1 {
		t.Errorf("%d were swept: %v", len(gone), err)
	}
	bouncer.Stop()
	begun := make(chan struct{})
	go func() {
		close(begun)
		bouncer.Start()
	}()
	<-begun
	work("killed")
	check(t, a, lines...)
	soak.Figure(t, "2 hosts behind PgBouncer in transaction mode, with 3 connections: all that they do works")
}

// TestPoolerUnsaid opens a record through a pooler that it was not told of: it immediately reports what to set.
func TestPoolerUnsaid(t *testing.T) {
	t.Parallel()
	server := pgtest.Shared(t)
	bouncer := pgtest.NewBouncer(t, server, 3)
	c := postgres.Config{URL: bouncer.URL(newRecord(t, server)), Patience: time.Hour}
	s, err := postgres.Open(t.Context(), c)
	if err == nil {
		s.Close()
	}
	_, _, err2 := postgres.Migrate(t.Context(), c)
	for _, err := range []error{err, err2} {
		if err == nil || !strings.Contains(err.Error(), "PLAIT_STORE_DIRECT") {
			t.Errorf("got error %v", err)
		}
	}
}

// TestNoConnections has a host want more connections than the server has left: it makes do with what it gets. If
// there is none at all for longer than a host waits, it reports that.
func TestNoConnections(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t, pgtest.Config{Settings: map[string]string{"max_connections": "9",
		"superuser_reserved_connections": "3"}})
	url := newRecord(t, server)
	a := open(t, postgres.Config{URL: url})
	var lines []*line
	for i := range 4 {
		l, err := begin(t.Context(), a, id(i))
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, l)
	}
	var wait sync.WaitGroup
	for i, l := range lines {
		wait.Go(func() {
			for n := range 20 {
				if err := l.step(t.Context(), a, fmt.Sprintf("%d-%d", i, n)); err != nil {
					t.Error(err)
				}
			}
		})
		for range 2 {
			wait.Go(func() {
				for range 5 {
					if _, err := a.Events(t.Context(), 0, store.EventFilter{}); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	wait.Wait()
	check(t, a, lines...)

	var taken []*pgx.Conn
	for {
		c, err := pgx.Connect(t.Context(), url)
		if err != nil {
			break
		}
		taken = append(taken, c)
	}
	if _, err := postgres.Open(t.Context(), postgres.Config{URL: url, Patience: time.Second}); err == nil ||
		!strings.Contains(err.Error(), "no connection left") || !strings.Contains(err.Error(), "PLAIT_STORE_CONNS") {
		t.Errorf("got error %v", err)
	}
	for _, c := range taken {
		c.Close(t.Context())
	}
	if err := lines[0].step(t.Context(), a, "again"); err != nil {
		t.Error(err)
	}
	open(t, postgres.Config{URL: url})
}

// TestTimeouts has a server that, as some are run, ends sessions that wait or idle for long: requests are retried.
func TestTimeouts(t *testing.T) {
	t.Parallel()
	server := pgtest.Shared(t)
	url := newRecord(t, server)
	u := url[strings.LastIndex(url, "/")+1 : strings.Index(url, "?")]
	if err := server.Admin(t.Context(), "ALTER DATABASE "+u+" SET lock_timeout = '1ms'",
		"ALTER DATABASE "+u+" SET statement_timeout = '2s'",
		"ALTER DATABASE "+u+" SET idle_session_timeout = '50ms'",
		"ALTER DATABASE "+u+" SET idle_in_transaction_session_timeout = '1s'"); err != nil {
		t.Fatal(err)
	}
	handles := []store.Store{open(t, postgres.Config{URL: url}), open(t, postgres.Config{URL: url})}
	var lines []*line
	var wait sync.WaitGroup
	for i := range 6 {
		l, err := begin(t.Context(), handles[i%2], id(i))
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, l)
		wait.Go(func() {
			for n := range 10 {
				if err := l.step(t.Context(), handles[i%2], fmt.Sprintf("%d-%d", i, n)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
	// Idle until the server has ended all connections for reading and writing.
	c, err := pgx.Connect(t.Context(), server.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	const left = "SELECT count(*) FROM pg_stat_activity WHERE datname = $1"
	for n, end := 1, time.Now().Add(time.Minute); n > 0; time.Sleep(10 * time.Millisecond) {
		if err := c.QueryRow(t.Context(), left, u).Scan(&n); err != nil || time.Now().After(end) {
			t.Fatalf("%d connections are left: %v", n, err)
		}
	}
	if err := lines[0].step(t.Context(), handles[0], "after"); err != nil {
		t.Errorf("after it was idle: %v", err)
	}
	check(t, handles[1], lines...)
}
