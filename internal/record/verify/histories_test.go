package verify_test

import (
	"flag"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/plait-run/plait/internal/testing/soak"
	"github.com/plait-run/plait/internal/testing/verifytest"
)

// TestHistories verifies histories that nobody forged, whose writers were killed.
func TestHistories(t *testing.T) {
	n := soak.Rounds(t, soak.Tries(10_000, 100))
	if err := flag.Set("rapid.checks", strconv.Itoa(n)); err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, verifytest.Draw)
	soak.Figure(t, "%d random histories with kills: verify is ok, and each log extends all that were seen before", n)
}
