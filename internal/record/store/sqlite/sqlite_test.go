package sqlite_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/store/sqlite"
	"github.com/plait-run/plait/internal/testing/storetest"
)

func open(t testing.TB, dir string) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), sqlite.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStore(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	storetest.Run(t, func(t *testing.T, dir string) store.Store { return open(t, dir) })
}
