package control

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/store/sqlite"
	"github.com/plait-run/plait/internal/testing/mem"
)

// TestSameHeadOnEveryStore checks the oracle's premise: same flow, agents, clock and
// root id give the same head.
func TestSameHeadOnEveryStore(t *testing.T) {
	inMemory := newHouse(t, loopAgents())
	a := inMemory.run(loop)
	wantStatus(t, a, store.Completed, "")

	onDisk := newHouse(t, loopAgents())
	s, err := sqlite.Open(t.Context(), sqlite.Config{Dir: onDisk.home})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	onDisk.store = s
	b := onDisk.run(loop)
	if a.Head != b.Head {
		t.Errorf("heads differ: %s in memory, %s on disk", a.Head, b.Head)
	}
	if diff := cmp.Diff([]string{"plan", "work", "review", "work", "review", "__end__"}, onDisk.roles(b)); diff != "" {
		t.Errorf("roles: -want +got\n%s", diff)
	}
}

// TestFaults fails each store operation of a run in turn, before and after it took
// effect, reopens the store and resumes: the outcome is always that of an undisturbed
// run, and no committed step was made twice.
func TestFaults(t *testing.T) {
	t.Parallel()
	clean := newHouse(t, loopAgents())
	want := clean.digest(clean.run(loop))

	for _, op := range []mem.Op{mem.OpCommit, mem.OpGet, mem.OpThread, mem.OpAttempts, mem.OpAcquire, mem.OpStage} {
		for _, when := range []mem.When{mem.Before, mem.After} {
			t.Run(fmt.Sprintf("%s %s", op, when), func(t *testing.T) {
				for n := 1; ; n++ {
					if !faultAt(t, loop, loopAgents, op, when, n, want.String()) {
						if n == 1 && op != mem.OpStage {
							t.Fatalf("no %s was ever made", op)
						}
						return
					}
				}
			})
		}
	}
}

// faultAt lets the n-th operation of a flow's run fail, and reports whether there was one.
func faultAt(t *testing.T, yaml string, agents func() map[string]scripted, op mem.Op, when mem.When, n int,
	want string) bool {
	h := newHouse(t, agents())
	var mu sync.Mutex
	count, hit, armed := 0, false, true
	broken := mem.New(mem.Config{Proven: true, Fault: func(o mem.Op, w mem.When) error {
		mu.Lock()
		defer mu.Unlock()
		if o != op || w != when || !armed {
			return nil
		}
		if count++; count == n {
			hit = true
			return errBroken
		}
		return nil
	}})
	h.store = broken
	first := h.controller()
	_, err := first.Begin(t.Context(), Spec{Bundle: mustPack(t, yaml).Bundle, Prompt: "do it", Workspace: h.dir,
		ID: rootID})
	if err == nil {
		first.Drive(t.Context(), rootID, Resume{}) // its error is the fault's, or nil
	}
	mu.Lock()
	wasHit := hit
	armed = false
	mu.Unlock()

	h.store = broken.Reopen()
	h.extends()
	second := h.controller()
	if _, err := h.store.Thread(context.Background(), rootID); err != nil {
		h.begin(second, yaml)
	}
	row := h.drive(second, rootID, Resume{Again: true})
	wantStatus(t, row, store.Completed, "")
	if got := h.digest(row).String(); got != want {
		t.Errorf("%s %s #%d: outcome differs: %v", op, when, n, h.roles(row))
	}
	done := map[string]int{}
	for _, a := range h.attempts(row) {
		if a.Status == store.AttemptDone {
			done[a.From.String()]++
		}
		if a.Status == store.AttemptRunning {
			t.Errorf("%s %s #%d: attempt %s still runs", op, when, n, a.ID)
		}
	}
	for from, times := range done {
		if times != 1 {
			t.Errorf("%s %s #%d: the step after %s was made %d times", op, when, n, from, times)
		}
	}
	h.extends()
	return wasHit
}

// extends fails the test unless the log is that over its entries, and begins with all that extends has seen of it.
func (h *house) extends() {
	h.t.Helper()
	if err := h.log.See(context.Background(), h.store); err != nil {
		h.t.Error(err)
	}
}
