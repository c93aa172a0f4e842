package postgres

import (
	"testing"

	"github.com/plait-run/plait/plaitd/pgtest"
)

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
