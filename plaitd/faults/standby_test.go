package faults

import (
	"errors"
	"net/url"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/plaitd/pgtest"
	"github.com/plait-run/plait/plaitd/postgres"
)

// TestStandbyAway stops the synchronous standby for longer than a try takes: meanwhile no commit is reported as done
// and no lease as taken. What is reported once it is back is also there after it has taken over.
func TestStandbyAway(t *testing.T) {
	t.Parallel()
	primary := pgtest.Start(t, pgtest.Config{})
	at, err := url.Parse(newRecord(t, primary))
	if err != nil {
		t.Fatal(err)
	}
	standby := primary.Standby(t)
	at.Host += "," + standby.Addr()
	at.RawQuery += "&target_session_attrs=read-write"
	impatient := open(t, postgres.Config{URL: at.String(), Try: 200 * time.Millisecond, Patience: time.Second})
	patient := open(t, postgres.Config{URL: at.String(), Try: 200 * time.Millisecond, Patience: time.Minute})
	l, err := begin(t.Context(), impatient, id(1))
	if err != nil {
		t.Fatal(err)
	}
	other, err := begin(t.Context(), patient, id(2))
	if err != nil {
		t.Fatal(err)
	}
	standby.Stop(pgtest.Fast)
	if err := l.step(t.Context(), impatient, "alone"); err == nil {
		t.Error("a commit that no standby has is reported as done")
	}
	if _, err := impatient.Acquire(t.Context(), "lease"); err == nil || errors.Is(err, store.ErrConflict) {
		t.Errorf("a lease that no standby knows of is taken: %v", err)
	}
	done := make(chan error, 1)
	go func() { done <- other.step(t.Context(), patient, "later") }()
	select {
	case err := <-done:
		t.Errorf("a commit that no standby has: %v", err)
		done <- err
	case <-time.After(time.Second): // several tries
	}
	standby.Start()
	if err := <-done; err != nil {
		t.Errorf("a commit once the standby is back: %v", err)
	}
	primary.Stop(pgtest.Immediate)
	standby.Promote()
	l.heed(t, patient)
	check(t, patient, l, other)
}
