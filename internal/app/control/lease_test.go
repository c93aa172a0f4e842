package control

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/app/people/notes"
	"github.com/plait-run/plait/internal/record"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/testing/mem"
)

// leased are the verbs that change a task under its lease.
var leased = map[string]func(context.Context, *Controller, string) error{
	"rm": func(ctx context.Context, c *Controller, id string) error {
		return c.Remove(ctx, []string{id}, func(store.Thread) error { return nil })
	},
	"compact": func(ctx context.Context, c *Controller, id string) error {
		_, err := c.Compact(ctx, Compaction{Thread: id})
		return err
	},
	"adopt": func(ctx context.Context, c *Controller, id string) error {
		_, err := c.Adopt(ctx, id, "")
		return err
	},
}

// A task with a part that a worker drives is left alone, although the lease of the task is free.
func TestDrivenByWorkers(t *testing.T) {
	for name, do := range leased {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t, loopAgents())
			h.options.On = OnTeam
			row := h.begin(h.controller(), loop)
			running := store.Attempt{ID: row.ID + ".1", Thread: row.ID, N: 1, Status: store.AttemptRunning}
			worker := h.store.(*mem.Store).Share()
			err := worker.Forge(t.Context(), store.Batch{Attempts: []store.AttemptChange{{Row: running}}})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := worker.Acquire(t.Context(), store.ThreadLease(row.ID)); err != nil {
				t.Fatal(err)
			}
			var held *store.HeldError
			if err := do(t.Context(), h.controller(), row.ID); !errors.As(err, &held) {
				t.Errorf("the error is %v", err)
			}
			now, err := h.store.Attempts(t.Context(), store.AttemptFilter{Task: row.ID})
			if diff := cmp.Diff([]store.Attempt{running}, now); diff != "" || err != nil {
				t.Errorf("the attempts, %v: -want +got\n%s", err, diff)
			}
			if is, err := h.store.Thread(t.Context(), row.ID); err != nil || is.Head != row.Head {
				t.Errorf("the row is %+v, %v", is, err)
			}
		})
	}
}

// overtaken is the record of a process that falls silent before it commits, while another takes its lease.
type overtaken struct {
	*mem.Store
	other *mem.Store
	name  string
}

func (s overtaken) Commit(ctx context.Context, b store.Batch) error {
	s.Silence()
	s.other.Acquire(ctx, s.name)
	return s.Store.Commit(ctx, b)
}

// What a process commits after it has lost the task's lease is refused.
func TestOvertaken(t *testing.T) {
	for name, do := range leased {
		t.Run(name, func(t *testing.T) {
			var said []string
			h := newHouse(t, longAgents(&said))
			h.agents["review"] = say(`{"$status":"$SUSPEND","reason":"is it good?"}`)
			row := h.run(longTalk)
			wantStatus(t, row, store.Blocked, "input")
			s := h.store.(*mem.Store)
			h.store = overtaken{s, s.Share(), row.ID}
			if err := do(t.Context(), h.controller(), row.ID); !errors.Is(err, store.ErrFenced) {
				t.Errorf("the error is %v", err)
			}
			if now, err := s.Thread(t.Context(), row.ID); err != nil || now.Head != row.Head {
				t.Errorf("the row is %+v, %v", now, err)
			}
		})
	}
}

// While an agent summarizes a thread of a team's task, no worker can take the thread. The agent is stopped when a
// lease is lost.
func TestCompactHoldsItsLeases(t *testing.T) {
	for _, on := range []string{"", OnTeam} {
		t.Run(on, func(t *testing.T) {
			var said []string
			h := newHouse(t, longAgents(&said))
			h.agents["review"] = say(`{"$status":"$SUSPEND","reason":"is it good?"}`)
			row := h.run(longTalk)
			wantStatus(t, row, store.Blocked, "input")
			was := row.State()
			row.Options = replaceOptions(t, row, on)
			change := stated(row.Task, store.Batch{Threads: []store.ThreadChange{{Row: row, From: was}}})
			if err := h.store.Commit(t.Context(), change); err != nil {
				t.Fatal(err)
			}
			s := h.store.(*mem.Store)
			h.agents[thread.RoleCompact] = func(ctx context.Context, _ agent.Request,
				_ func(agent.Event) error) (agent.Result, error) {
				var held *store.HeldError
				if _, err := s.Share().Acquire(ctx, store.ThreadLease(row.ID)); on == OnTeam && !errors.As(err, &held) {
					t.Errorf("a worker takes the thread: %v", err)
				}
				s.Silence()
				select {
				case <-ctx.Done():
				case <-time.After(time.Minute):
					t.Error("the agent was not stopped")
				}
				return agent.Result{}, &agent.Failure{Kind: agent.Cancelled, Message: "stopped"}
			}
			if _, err := h.controller().Compact(t.Context(), Compaction{Thread: row.ID}); err == nil {
				t.Error("no error")
			}
		})
	}
}

func replaceOptions(t *testing.T, row store.Thread, on string) json.RawMessage {
	t.Helper()
	o, err := record.OptionsOf(row)
	if err != nil {
		t.Fatal(err)
	}
	o.On = on
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// An answer in the notes of a task is refused once another process has the task's lease.
func TestNotesUnderALease(t *testing.T) {
	var said []string
	h := newAsked(t, &said)
	row := h.begin(h.soon(), asked)
	wantStatus(t, h.drive(h.soon(), row.ID, Resume{}), store.Blocked, "gate")
	h.jot("8080\n")
	s := h.store.(*mem.Store)
	lease, err := s.Acquire(t.Context(), row.ID)
	if err != nil {
		t.Fatal(err)
	}
	h.store = overtaken{s, s.Share(), row.ID}
	c := h.soon().withLease(lease)
	notes.Read(t.Context(), c.notesOf(row))
	if g := h.gates(row.ID, 1)[0]; g.State != store.GateOpen {
		t.Errorf("the question is %s", g.State)
	}
}
