package verify_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/store/sqlite"
	"github.com/plait-run/plait/internal/record/verify"
)

// A file that is gone is missing, not wrong, and is named once.
func TestLostFile(t *testing.T) {
	dir := t.TempDir()
	s, err := sqlite.Open(t.Context(), sqlite.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	h, _, err := s.Stage(t.Context(), "pin", strings.NewReader(strings.Repeat("large", 100<<10)))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(t.Context(), store.Batch{Events: []store.Event{{Type: "x"}}}); err != nil {
		t.Fatal(err)
	}
	if r, err := verify.All(t.Context(), verify.Config{Store: s}); err != nil || !r.OK() {
		t.Fatalf("before: %+v, %v", r, err)
	}
	if err := os.Remove(filepath.Join(dir, "objects", h.String()[:2], h.String())); err != nil {
		t.Fatal(err)
	}
	r, err := verify.All(t.Context(), verify.Config{Store: s})
	if err != nil {
		t.Fatal(err)
	}
	if r.Integrity != verify.OK || r.Completeness != verify.Failed || len(r.Problems) != 1 || r.Problems[0].Hash != h {
		t.Errorf("%+v", r)
	}
}
