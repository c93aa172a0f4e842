package faults

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/testing/soak"
	"github.com/plait-run/plait/plaitd/pgtest"
	"github.com/plait-run/plait/plaitd/postgres"
)

// TestMigrations has several hosts migrate an empty database concurrently: one does it, and
// all find it done.
func TestMigrations(t *testing.T) {
	t.Parallel()
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
		works(t, url)
	}
	soak.Figure(t, "4 migrations at once: one did it")
}

// TestMigrationCut cuts a migration at its messages, at a few of them, or at all if more than one round
// is requested: afterwards the schema is the old one, or complete.
func TestMigrationCut(t *testing.T) {
	t.Parallel()
	server := pgtest.Shared(t)
	proxy := pgtest.NewProxy(t, server)
	stride := 23
	if soak.Rounds(t, 1) > 1 {
		stride = 1
	}
	for at := 0; ; at += stride {
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
			soak.Figure(t, "a migration cut at %d of its %d messages: whole afterwards, or as before", at/stride, n)
			return
		}
		if s, err := postgres.Open(t.Context(), postgres.Config{URL: url, Patience: time.Second}); err == nil {
			s.Close() // the schema is complete
		}
		if _, now, err := postgres.Migrate(t.Context(), postgres.Config{URL: url}); err != nil || now < 1 {
			t.Fatalf("migrate again after a cut at message %d: version %d, %v", at+1, now, err)
		}
		works(t, url)
	}
}

// works checks that a record with a new schema can be used.
func works(t *testing.T, url string) {
	t.Helper()
	s, err := postgres.Open(t.Context(), postgres.Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	l, err := begin(t.Context(), s, id(1))
	if err == nil {
		err = l.step(t.Context(), s, "step")
	}
	if err != nil {
		t.Fatal(err)
	}
	check(t, s, l)
}
