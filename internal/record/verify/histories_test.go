package verify_test

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/plait-run/plait/internal/testing/mem"
	"github.com/plait-run/plait/internal/testing/soak"
	"github.com/plait-run/plait/internal/testing/storetest"
	"github.com/plait-run/plait/internal/testing/verifytest"
)

// TestHistories verifies histories in memory that nobody forged. Their writers were killed when a commit failed, or only
// seemed to.
func TestHistories(t *testing.T) {
	n := soak.Checks(t, soak.Tries(2_000, 20))
	bundle, kills := verifytest.Bundle(t), 0
	rapid.Check(t, func(rt *rapid.T) {
		disk := mem.New(mem.Config{Proven: true})
		pick := func(n int) int { return rapid.IntRange(0, n-1).Draw(rt, "pick") }
		var log storetest.Witness
		for range 1 + pick(3) {
			left, when := pick(15), []mem.When{mem.Before, mem.After}[pick(2)]
			s := disk.With(func(op mem.Op, at mem.When) error {
				if op != mem.OpCommit || at != when {
					return nil
				}
				if left--; left < 0 {
					return errFault
				}
				return nil
			})
			w := verifytest.NewWriter(s, "T", bundle, pick)
			var err error
			for err == nil {
				err = w.Write(ctx)
			}
			if !errors.Is(err, errFault) {
				rt.Fatal(err)
			}
			s.Kill()
			kills++
			if err := log.See(ctx, disk); err != nil {
				rt.Fatal(err)
			}
		}
		verifytest.Sound(rt, disk, log)
	})
	soak.Figure(t, "%d random histories with %d kills: verify is ok, and each log extends all that were seen before", n,
		kills)
}

var errFault = errors.New("a fault")
