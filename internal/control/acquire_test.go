package control

import (
	"context"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/store"
)

// TestDriveWaitsForNotes: a process that reads the notes of a task holds its lease, and drives nothing.
func TestDriveWaitsForNotes(t *testing.T) {
	h := newHouse(t, map[string]scripted{"work": func(context.Context, agent.Request, func(agent.Event) error) (agent.Result, error) {
		return agent.Result{Output: []byte(status("done"))}, nil
	}})
	c := h.controller()
	row := h.begin(c, one("read", ""))
	var leases []store.Lease
	for _, name := range []string{row.ID, readsNotes(row.ID)} {
		lease, err := h.store.Acquire(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		leases = append(leases, lease)
	}
	type end struct {
		row store.Thread
		err error
	}
	ends := make(chan end, 1)
	go func() { r, err := c.Drive(t.Context(), row.ID, Resume{}); ends <- end{r, err} }()
	select {
	case e := <-ends:
		t.Fatalf("it did not wait: %s, %v", e.row.Status, e.err)
	case <-time.After(30 * time.Millisecond):
	}
	for _, lease := range leases {
		if err := lease.Release(); err != nil {
			t.Fatal(err)
		}
	}
	if e := <-ends; e.err != nil || e.row.Status != store.Completed {
		t.Errorf("%s, %v", e.row.Status, e.err)
	}
}
