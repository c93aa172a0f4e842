package control

import (
	"errors"
	"strings"
	"testing"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
)

// TestRollbackPrefix checks which version of a flow the beginning of a hash means.
func TestRollbackPrefix(t *testing.T) {
	hash := func(text string) dag.Hash {
		h, err := dag.ParseHash(text + strings.Repeat("0", 64-len(text)))
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	f := store.Flow{Name: "f", Hash: hash("ffffff"), History: []store.Version{{Hash: hash("abcdef1")}, {Hash: hash("123456")},
		{Hash: hash("abcdef2")}, {Hash: hash("123456")}}}
	for prefix, want := range map[string]struct {
		at  int
		err error
	}{
		"": {at: 0}, "abcdef2": {at: 2}, "123456": {at: 1},
		"a": {err: ErrUsage}, "abcde": {err: ErrUsage}, "abcdef": {err: store.ErrNotFound}, "ffffff": {err: store.ErrNotFound},
	} {
		if at, err := version(f, prefix); !errors.Is(err, want.err) || at != want.at {
			t.Errorf("%q is %d, %v; want %d, %v", prefix, at, err, want.at, want.err)
		}
	}
	if _, err := version(store.Flow{}, ""); !errors.Is(err, ErrUsage) {
		t.Errorf("without a history: %v", err)
	}
}
