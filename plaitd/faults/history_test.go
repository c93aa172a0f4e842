package faults

import (
	"context"
	"os"
	"os/exec"
	"testing"

	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/testing/soak"
	"github.com/plait-run/plait/internal/testing/verifytest"
	"github.com/plait-run/plait/plaitd/pgtest"
	"github.com/plait-run/plait/plaitd/postgres"
)

// historyEnv is set to the record's URL in a process that writes histories.
const historyEnv = "PLAIT_TEST_HISTORY"

func writeHistory(url string) error {
	s, err := postgres.Open(context.Background(), postgres.Config{URL: url})
	if err != nil {
		return err
	}
	return verifytest.Write(context.Background(), s)
}

// TestHistories verifies histories whose writing processes were killed.
func TestHistories(t *testing.T) {
	t.Parallel()
	n := soak.Rounds(t, soak.Tries(16, 2))
	kills := verifytest.Histories(t, n, func() verifytest.Record {
		url := newRecord(t, pgtest.Shared(t))
		c := exec.Command(os.Args[0])
		c.Env = append(os.Environ(), historyEnv+"="+url)
		return verifytest.Record{Write: c, Open: func() store.Store {
			s, err := postgres.Open(t.Context(), postgres.Config{URL: url})
			if err != nil {
				t.Fatal(err)
			}
			return s
		}}
	})
	soak.Figure(t, "%d random histories with %d kills: verify is ok, and each log extends all that were seen before", n, kills)
}
