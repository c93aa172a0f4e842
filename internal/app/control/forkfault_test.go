package control

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/testing/mem"
	"github.com/plait-run/plait/internal/testing/soak"
)

// TestFaultsInTrees is TestFaults between a fork and its join, and between a call
// and its return: each store operation fails in turn, before and after it took
// effect, in a tree whose agents end in a fixed order.
func TestFaultsInTrees(t *testing.T) {
	for _, tree := range []struct {
		name   string
		agents func() map[string]scripted
		flows  []string
	}{
		{"fork", surveyAgents, []string{withStrategy(survey, "serial")}},
		{"call", solveAgents, []string{solve, develop}},
	} {
		clean := newHouse(t, tree.agents())
		c := clean.controller()
		row := clean.drive(c, clean.beginFlows(c, Options{}, tree.flows...).ID, Resume{})
		wantStatus(t, row, store.Completed, "")
		want, steps := clean.digest(row), clean.tally(t)
		for _, op := range []mem.Op{mem.OpCommit, mem.OpGet, mem.OpThread, mem.OpThreads, mem.OpAttempts, mem.OpEvents,
			mem.OpGates, mem.OpAcquire} {
			for _, when := range []mem.When{mem.Before, mem.After} {
				t.Run(fmt.Sprintf("%s %s %s", tree.name, op, when), func(t *testing.T) {
					t.Parallel()
					stride := 5 / soak.Rounds(t, soak.Tries(5, 1)) // in CI every commit, where it matters
					if op != mem.OpCommit {
						stride = max(stride, 3)
					}
					for n := 1; ; n += stride {
						f := fault{op: op, when: when, n: n, every: n%2 == 0}
						struck := f.strikes(t, tree.agents(), tree.flows, want, steps)
						if f.every = !f.every; op == mem.OpCommit {
							f.strikes(t, tree.agents(), tree.flows, want, steps)
						}
						if !struck {
							if n == 1 && op != mem.OpEvents {
								t.Fatalf("no %s was ever made", op)
							}
							return
						}
					}
				})
			}
		}
	}
}

// A fault fails the n-th operation and, if every is set, all after it: a disk that is
// gone.
type fault struct {
	op    mem.Op
	when  mem.When
	n     int
	every bool
}

// strikes runs flows with the fault in a first process and without it in a second. It
// reports whether there was such an operation.
func (f fault) strikes(t *testing.T, agents map[string]scripted, flows []string, want dag.Hash,
	steps map[string]int) bool {
	h := newHouse(t, agents)
	var mu sync.Mutex
	count, hit, armed := 0, false, false
	broken := mem.New(mem.Config{Proven: true, Fault: func(o mem.Op, w mem.When) error {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case !armed:
			return nil
		case hit && f.every:
			return errBroken
		case o != f.op || w != f.when:
			return nil
		}
		if count++; count == f.n {
			hit = true
			return errBroken
		}
		return nil
	}})
	arm := func(on bool) {
		mu.Lock()
		defer mu.Unlock()
		armed = on
	}
	h.store = broken
	c := h.controller()
	id := h.beginFlows(c, Options{}, flows...).ID
	arm(true)
	if row, err := c.Drive(context.Background(), id, Resume{}); err == nil && row.Status != store.Completed {
		t.Errorf("%+v: it was taken for done: the task is %s %+v", f, row.Status, row.Reason)
	}
	arm(false)
	h.store = broken.Reopen()
	h.extends()
	row := h.drive(h.controller(), id, Resume{Again: true})
	if row.Status != store.Completed {
		t.Fatalf("%+v: the task is %s: %+v", f, row.Status, row.Reason)
	}
	if got := h.digest(row); got != want {
		t.Errorf("%+v: the outcome differs: %v", f, h.roles(row))
	}
	for role, n := range h.tally(t) {
		if n != steps[role] {
			t.Errorf("%+v: %s made %d steps, want %d", f, role, n, steps[role])
		}
	}
	h.extends()
	return hit
}

// tally counts the attempts that became steps, by role. None may still be running.
func (h *house) tally(t *testing.T) map[string]int {
	t.Helper()
	attempts, err := h.store.Attempts(context.Background(), store.AttemptFilter{})
	if err != nil {
		t.Fatal(err)
	}
	steps := map[string]int{}
	for _, a := range attempts {
		switch a.Status {
		case store.AttemptDone:
			steps[a.Role]++
		case store.AttemptRunning:
			t.Errorf("attempt %s of %s still runs", a.ID, a.Role)
		}
	}
	return steps
}
