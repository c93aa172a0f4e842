package control

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/task"
)

// TestDriveWaitsForNotes: a process that reads the notes of a task holds its lease, and drives nothing.
func TestDriveWaitsForNotes(t *testing.T) {
	h := newHouse(t, map[string]scripted{"work": func(context.Context, agent.Request, func(agent.Event) error) (agent.Result, error) {
		return agent.Result{Output: []byte(status("done"))}, nil
	}})
	c := h.controller()
	row := h.begin(c, one("read", ""))
	var leases []store.Lease
	for _, name := range []string{row.ID, store.NotesLease(row.ID)} {
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

// The notes of a team's task are not read: they say so, and that must not answer its question.
func TestNotesOfATeam(t *testing.T) {
	h := newHouse(t, nil)
	h.options.On = OnTeam
	c := h.controller()
	row := h.begin(c, one("read", ""))
	open, err := c.gates.Open(t.Context(), store.Gate{Kind: store.GateInput, Source: store.SourceFlow, Task: row.ID, Thread: row.ID,
		From: row.Head, Question: "Which?"})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(task.At(row.Workspace, row.ID).Path(), "shared", "human-notes.md")
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte("Blue.\n"), 0o644)); err != nil {
		t.Fatal(err)
	}
	if answered, err := c.ReadNotes(t.Context(), row); answered || err != nil {
		t.Errorf("%t, %v", answered, err)
	}
	if g, err := h.store.Gate(t.Context(), open.ID); err != nil || g.State != store.GateOpen {
		t.Errorf("the question is %s, %v", g.State, err)
	}
}
