package control

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/view/taskdir"
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
	file := filepath.Join(taskdir.At(row.Workspace, row.ID).Path(), "shared", "human-notes.md")
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

// A followedStore counts how often a task is looked at, and tells up to where its events have been waited for.
type followedStore struct {
	store.Store
	looks  atomic.Int64
	waited chan int64
}

func (s *followedStore) Thread(ctx context.Context, id string) (store.Thread, error) {
	s.looks.Add(1)
	return s.Store.Thread(ctx, id)
}

func (s *followedStore) Wait(ctx context.Context, pos int64) (int64, error) {
	s.waited <- pos
	return s.Store.Wait(ctx, pos)
}

// TestFollowAmongOthers checks that who follows a task of a team does not look at it whenever something happens to
// another task.
func TestFollowAmongOthers(t *testing.T) {
	h := newHouse(t, nil)
	h.options.On = OnTeam
	row := h.begin(h.controller(), one("read", ""))
	s := &followedStore{Store: h.store, waited: make(chan int64)}
	h.store = s
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	left := make(chan error, 1)
	go func() {
		_, err := h.controller().waitUntilIdle(ctx, row.ID, true)
		left <- err
	}()
	<-s.waited // the first look
	<-s.waited
	seen, last := s.looks.Load(), int64(0)
	tell := func(task string) {
		t.Helper()
		b := store.Batch{Events: []store.Event{{Task: task, Thread: task, Type: "agent.item", Payload: []byte("{}")}}}
		err := s.Commit(t.Context(), b)
		if err != nil {
			t.Fatal(err)
		}
		if pos := <-s.waited; pos <= last {
			t.Errorf("it waits from %d after %d", pos, last)
		} else {
			last = pos
		}
	}
	for range 5 {
		tell("another")
	}
	if n := s.looks.Load() - seen; n != 0 {
		t.Errorf("it looked %d times because of another task", n)
	}
	tell(row.ID)
	if n := s.looks.Load() - seen; n != 1 {
		t.Errorf("it looked %d times because of its task", n)
	}
	leave()
	var gone *LeftError
	if err := <-left; !errors.As(err, &gone) {
		t.Errorf("it ends with %v", err)
	}
}
