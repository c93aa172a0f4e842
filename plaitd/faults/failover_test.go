package faults

import (
	"net/url"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/testing/soak"
	"github.com/plait-run/plait/internal/testing/storetest"
	"github.com/plait-run/plait/plaitd/pgtest"
	"github.com/plait-run/plait/plaitd/postgres"
)

// TestFailover stops the server permanently while writers work under leases, and has its synchronous standby
// take over: they continue there, none loses its lease, and no reported step is missing or there twice.
func TestFailover(t *testing.T) {
	t.Parallel()
	primary := pgtest.Start(t, pgtest.Config{})
	at, err := url.Parse(newRecord(t, primary))
	if err != nil {
		t.Fatal(err)
	}
	standby := primary.Standby(t)
	at.Host += "," + standby.Addr()
	at.RawQuery += "&target_session_attrs=read-write"
	var handles []store.Store
	for range 2 {
		handles = append(handles, open(t, postgres.Config{URL: at.String(), Try: 3 * time.Second,
			Look: 200 * time.Millisecond}))
	}
	w := write(t, handles, 6)
	w.more(t, 50)
	before := w.steps.Load()
	var log storetest.Witness
	if err := log.Glance(t.Context(), handles[0]); err != nil {
		t.Fatal(err)
	}
	primary.Stop(pgtest.Immediate)
	began := time.Now()
	standby.Promote()
	w.more(t, 1)
	took := time.Since(began)
	w.more(t, 50)
	w.end()
	check(t, handles[1], w.lines...)
	if err := log.See(t.Context(), handles[1]); err != nil {
		t.Error(err)
	}
	soak.Figure(t, "a standby took over after %d reported steps of %d writers: each there once, the next %v later",
		before, len(w.lines), took.Round(time.Millisecond))
}
