package attempt

import (
	"context"
	"os/exec"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/files/worktree"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/testing/housetest"
	"github.com/plait-run/plait/internal/testing/mem"
)

// A house has a store with a thread of a flow of two steps, and an agent that does each of them.
type house struct {
	*Runner
	store   *mem.Store
	row     store.Thread
	options func(*Thread) // sets those of the task; may be nil
}

func newHouse(t *testing.T, access string, do agent.Agent) *house {
	t.Helper()
	tree := t.TempDir()
	if out, err := exec.Command("git", "init", "-q", tree).CombinedOutput(); err != nil {
		t.Fatalf("git init: %v\n%s", err, out)
	}
	s := mem.New(mem.Config{Proven: true})
	row := housetest.Begin(t.Context(), t, s, store.Thread{ID: "01JD0000000000000000000000", CreatedAt: 1, Tree: tree},
		housetest.Bundle(t, housetest.TwoSteps(access)), "go")
	return &house{Runner: runner(s, do), store: s, row: row}
}

// runner makes attempts with one agent.
func runner(s *mem.Store, do agent.Agent) *Runner {
	now := func() time.Time { return time.UnixMilli(1) }
	rec := record.New(thread.NewReader(s), s)
	return New(Config{
		Store: s, Record: rec, Gates: gate.New(gate.Config{Store: s, Now: now}), Desks: housetest.BareDesks{}, Now: now,
		Trees: worktree.New(worktree.Config{Store: s, Reader: rec.Nodes()}),
		Agents: Agents{
			Defined: map[string]flow.Agent{"do": {Kind: "do"}}, Default: "do",
			Make: func(string, flow.Agent, AgentOptions) (agent.Agent, error) { return do, nil },
		},
	})
}

// Step makes attempts at the next step until one becomes it, as a driver of the thread does,
// and commits it.
func (h *house) Step(ctx context.Context) (store.Thread, error) {
	c, err := h.Thread(ctx, h.row)
	if err != nil {
		return h.row, err
	}
	if h.options != nil {
		h.options(c)
	}
	for note := ""; ; {
		p, err := h.Prepare(ctx, c, c.Next().(flow.Run), note)
		if err != nil {
			return h.row, err
		}
		attempts, events := p.Begun(h.row)
		err = h.store.Commit(ctx, store.Batch{Objects: p.Objects, Attempts: attempts, Events: events})
		if err != nil {
			return h.row, err
		}
		c.Attempts = p.Row.N
		out, err := h.Run(ctx, c, p, Means{})
		if err != nil {
			return h.row, err
		}
		if out.Failure != nil {
			note = out.Failure.Message
			continue
		}
		ch, err := thread.Append(h.row, c.Tip, out.Draft)
		if err != nil {
			return h.row, err
		}
		err = h.store.Commit(ctx, store.Batch{
			Objects: append(ch.Objects, out.Objects...), Events: out.Events(h.row, ch), Unpin: out.Unpin,
			Attempts: []store.AttemptChange{{Row: out.Row, From: store.AttemptRunning}},
			Threads:  []store.ThreadChange{{Row: ch.Row, From: h.row.State()}},
		})
		h.row = ch.Row
		return ch.Row, err
	}
}
