package postgres

import (
	"context"
	"flag"
	"strconv"
	"testing"

	"github.com/plait-run/plait/internal/soak"
	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/store/storetest"
	"github.com/plait-run/plait/plaitd/pgtest"
)

// wipe empties a database. To make one takes the disk a second.
func wipe(t testing.TB, url string) {
	t.Helper()
	c, err := connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	const all = "SELECT string_agg(format('DELETE FROM plait.%I', relname), ';') FROM pg_stat_user_tables" +
		" WHERE schemaname = 'plait' AND relname NOT IN ('meta', 'counters')"
	var q string
	if err := c.QueryRow(t.Context(), all).Scan(&q); err != nil {
		t.Fatal(err)
	}
	if _, err := c.PgConn().Exec(t.Context(), q+"; UPDATE plait.counters SET value = 0").ReadAll(); err != nil {
		t.Fatal(err)
	}
}

// migrated returns a database that a store can be opened in.
func migrated(t testing.TB) string {
	t.Helper()
	return migratedOn(t, pgtest.Shared(t))
}

func migratedOn(t testing.TB, server *pgtest.Server) string {
	t.Helper()
	url := server.Database(t)
	if _, _, err := Migrate(t.Context(), Config{URL: url}); err != nil {
		t.Fatal(err)
	}
	return url
}

func open(t testing.TB, cfg Config) *Store {
	t.Helper()
	s, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestStore(t *testing.T) {
	drawn := soak.Rounds(t, 25)
	if err := flag.Set("rapid.checks", strconv.Itoa(drawn)); err != nil {
		t.Fatal(err)
	}
	url := migrated(t)
	last := ""
	storetest.Run(t, func(t *testing.T, dir string) store.Store {
		if dir != last { // the next test
			wipe(t, url)
			last = dir
		}
		s, err := Open(t.Context(), Config{URL: url})
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
	soak.Figure(t, "%d sequences of operations on Postgres do what the model does", drawn)
}
