package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/gate"
	"github.com/plait-run/plait/internal/store"
)

// How an agent's requests for approval are dealt with.
const (
	ApproveAsk       = "ask"       // a gate opens and a person answers
	ApproveNever     = "never"     // all are refused
	ApproveSandboxed = "sandboxed" // what stays inside the sandbox is approved, the rest is asked
)

// Approvals says how one thread's requests for approval are dealt with.
type Approvals struct {
	Policy  string        // "" is ApproveAsk
	Expires time.Duration // after which an open gate is a no; zero: never
}

// An asker puts one attempt's questions to people, through gates.
type asker struct {
	e     *Engine
	row   store.Thread
	a     store.Attempt
	terms Approvals
	slot  Slot
	seen  *news // written before a question is: what it is about may be cited after a crash

	mu     sync.Mutex
	open   int // questions that wait now
	since  time.Time
	waited time.Duration
}

// ask is the Ask of agent.Request. What was answered before, for exactly this
// action, is not asked again: an approval that nobody used, or a no from the
// same place.
func (k *asker) ask(ctx context.Context, q agent.Question) (agent.Answer, error) {
	g, err := k.gate(q)
	if err != nil {
		return agent.Answer{}, err
	}
	record := context.WithoutCancel(ctx)
	if k.seen != nil {
		k.seen.write()
	}
	for {
		standing, ok, err := k.e.gates.Standing(record, g.Thread, g.From, g.Digest)
		if err != nil {
			return agent.Answer{}, err
		}
		if !ok {
			if standing, err = k.e.gates.Open(record, g); err != nil {
				return agent.Answer{}, err
			}
			if k.terms.Policy == ApproveSandboxed && q.Inside {
				standing, err = k.e.gates.Answer(record, standing.ID, gate.Answer{
					Approve: true, By: "plait", Via: gate.Policy, Text: "it stays inside the role's sandbox",
				})
				if err != nil && !errors.Is(err, store.ErrConflict) {
					return agent.Answer{}, err
				}
			}
		}
		if standing.State == gate.Open {
			if standing, err = k.wait(ctx, standing); err != nil {
				return agent.Answer{}, err
			}
		}
		if standing.State != gate.Approved {
			return agent.Answer{Text: standing.Text}, nil
		}
		// The use is recorded before it takes effect; whoever used it first
		// leaves the other to ask.
		if _, err = k.e.gates.Use(record, standing); err == nil {
			return agent.Answer{Approved: true, Text: standing.Text}, nil
		}
		if !errors.Is(err, store.ErrConflict) {
			return agent.Answer{}, err
		}
	}
}

// gate returns the gate that a question means.
func (k *asker) gate(q agent.Question) (store.Gate, error) {
	action, err := json.Marshal(gate.Action(q.Action))
	if err != nil {
		return store.Gate{}, fmt.Errorf("ask for attempt %s: %w", k.a.ID, err)
	}
	g := store.Gate{
		Kind: gate.Approval, Source: gate.Agent, Task: k.row.Task, Thread: k.row.ID, Node: k.a.Role,
		Instance: k.a.Instance, Attempt: k.a.ID, From: k.a.From, Question: q.Text, Options: []string{"approve", "deny"}, Action: action,
	}
	if g.Digest, err = gate.Digest(g.Thread, action); err != nil {
		return store.Gate{}, fmt.Errorf("ask for attempt %s: %w", k.a.ID, err)
	}
	if k.terms.Expires > 0 {
		g.ExpiresAt, g.OnTimeout = k.e.cfg.Now().Add(k.terms.Expires).UnixMilli(), gate.Rejected
	}
	return g, nil
}

// wait waits for an answer. When the attempt ends first the question is
// withdrawn, unless Plait was interrupted: then it stays open, and its answer is
// told to the next attempt.
func (k *asker) wait(ctx context.Context, g store.Gate) (store.Gate, error) {
	k.pause()
	answered, err := k.e.gates.Wait(ctx, g.ID)
	if slotErr := k.resume(ctx); err == nil {
		err = slotErr
	}
	record := context.WithoutCancel(ctx)
	if err == nil {
		return answered, k.working(record)
	}
	if ctx.Err() == nil || errors.Is(context.Cause(ctx), ErrInterrupted) {
		return g, err
	}
	if g, err = k.e.gates.Withdraw(record, g, "the attempt that asked has ended"); err != nil && !errors.Is(err, store.ErrConflict) {
		return g, err
	}
	return g, k.working(record)
}

// working records that the task no longer waits, once no gate of the thread is
// open.
func (k *asker) working(ctx context.Context) error {
	open, err := k.e.gates.Gates(ctx, store.GateFilter{Thread: k.row.ID, State: gate.Open})
	if err != nil || len(open) > 0 {
		return err
	}
	return k.e.cfg.Store.Commit(ctx, store.Batch{
		Events: []store.Event{event(k.row, k.e.now(), "task.updated", map[string]any{"state": "working"})},
	})
}

// pause and resume keep count of the time in which at least one question waited,
// and leave the slot to others meanwhile.
func (k *asker) pause() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.open++; k.open == 1 {
		k.since = time.Now()
		k.slot.Pause()
	}
}

func (k *asker) resume(ctx context.Context) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.open--; k.open > 0 {
		return nil
	}
	err := k.slot.Resume(ctx)
	k.waited += time.Since(k.since)
	return err
}

// time returns how long the attempt waited for people.
func (k *asker) time() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.open > 0 {
		return k.waited + time.Since(k.since)
	}
	return k.waited
}

// told says what people answered to questions of attempts that were cut off, at
// this head: their agent never heard of it.
func (e *Engine) told(ctx context.Context, c *cursor) (string, error) {
	cut := map[string]bool{}
	for _, a := range c.tries {
		if a.Status == store.AttemptInterrupted {
			cut[a.ID] = true
		}
	}
	if len(cut) == 0 {
		return "", nil
	}
	gates, err := e.gates.Gates(ctx, store.GateFilter{Thread: c.row.ID})
	if err != nil {
		return "", err
	}
	note := ""
	for _, g := range gates {
		if g.From != c.row.Head || g.Source != gate.Agent || !cut[g.Attempt] || g.UsedAt != 0 {
			continue
		}
		var action gate.Action
		if err := json.Unmarshal(g.Action, &action); err != nil {
			return "", fmt.Errorf("gate %s: action: %w", g.ID, err)
		}
		what := "what you asked for (" + action.Type + ")"
		switch {
		case action.Command != "":
			what = "the command you asked about, `" + action.Command + "`,"
		case action.Diff != "":
			what = "the change you asked about"
		case action.Tool != "":
			what = "the call of " + action.Tool
		}
		switch g.State {
		case gate.Approved:
			note += "Your last turn was cut off while you waited for an answer: " + what + " was approved. Do it now, exactly so, and go on."
		case gate.Rejected, gate.Expired:
			note += "Your last turn was cut off while you waited for an answer: " + what + " was denied. Go on without it."
		default:
			continue
		}
		if g.Text != "" {
			note += " The answer: " + g.Text
		}
		note += "\n"
	}
	return note, nil
}
