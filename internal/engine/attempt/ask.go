package attempt

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/record"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
)

// A Slot is the right of an agent to work. Between Pause and Resume the agent waits for a person, and others
// may work in its place.
type Slot interface {
	Pause()
	Resume(ctx context.Context) error
	// Park marks the agent as waiting for a person; Unpark ends that. The channel is closed once the whole
	// task waits for people. It is nil when the run waits for people's answers.
	Park() (idle <-chan struct{})
	Unpark()
}

// A gatekeeper sends one attempt's questions to people, through gates.
type gatekeeper struct {
	e       *Runner
	row     store.Thread
	a       store.Attempt
	options record.Options
	slot    Slot
	seen    *news // written before a question: after a crash, what the question is about may be cited
	end     context.CancelCauseFunc

	turn   sync.Mutex // held while the slot is paused or resumed
	paused bool

	mu      sync.Mutex
	open    []store.Gate    // questions that wait for an answer
	running map[string]bool // by id: what has begun and not ended, and what a question is about
	parked  chan struct{}   // closed when the agent continues; nil: it is working
	left    *store.Gate     // the question that ended the attempt, because the run does not wait for answers
	asked   bool
	opened  time.Time // when the first of open was asked
	late    *time.Timer
	calls   int // of wait
	since   time.Time
	waited  time.Duration
}

// patience is how long to wait for a command that runs while a question is open: a command in the background
// may never end.
const patience = 5 * time.Minute

// ask implements agent.Request's Ask. An earlier answer to exactly this action still counts if it is an unused
// approval, or a no from the same place: ask does not ask again.
func (k *gatekeeper) ask(ctx context.Context, q agent.Question) (agent.Answer, error) {
	g, err := k.gate(q)
	if err != nil { // caused by the agent, so it must not end the run
		return agent.Answer{Text: "cannot ask for approval: " + event.Brief(err.Error())}, nil
	}
	bg := context.WithoutCancel(ctx)
	if k.seen != nil {
		k.seen.write()
	}
	for {
		standing, ok, err := k.e.cfg.Gates.Effective(bg, g.Thread, g.From, g.Digest)
		if err != nil {
			return agent.Answer{}, err
		}
		if !ok {
			if standing, err = k.e.cfg.Gates.Open(bg, g); err != nil {
				return agent.Answer{}, err
			}
			if k.options.Approve == record.ApproveSandboxed && q.Inside && !k.e.cfg.Gates.Signs() {
				standing, err = k.e.cfg.Gates.Answer(bg, standing.ID, gate.Answer{
					Approve: true, By: "plait", Via: store.ViaPolicy, Text: "it stays inside the role's sandbox",
				})
				if err != nil && !errors.Is(err, store.ErrConflict) {
					return agent.Answer{}, err
				}
			}
		}
		if standing.State == store.GateOpen {
			if standing, err = k.wait(ctx, standing); err != nil {
				return agent.Answer{}, err
			}
		}
		if err := ctx.Err(); err != nil {
			return agent.Answer{}, err // the next attempt is told the answer
		}
		if standing.State != store.GateApproved {
			return agent.Answer{Text: standing.Text}, k.e.cfg.Gates.Hear(bg, standing.ID)
		}
		said, err := answerOf(standing, g.Digest, q.Editable)
		if err != nil || !said.Approved {
			return said, err
		}
		// Record the use before it takes effect. If someone else used the approval first, ask again.
		if _, err = k.e.cfg.Gates.Use(bg, standing); err == nil {
			return said, nil
		}
		if !errors.Is(err, store.ErrConflict) {
			return agent.Answer{}, err
		}
	}
}

// gate returns the gate for a question. It fails if the action has no canonical form.
func (k *gatekeeper) gate(q agent.Question) (store.Gate, error) {
	action, err := json.Marshal(gate.Action(q.Action))
	if err != nil {
		return store.Gate{}, err
	}
	g := store.Gate{
		Kind: store.GateApproval, Source: store.SourceAgent, Task: k.row.Task, Thread: k.row.ID, Node: k.a.Role,
		Instance: k.a.Instance, Attempt: k.a.ID, From: k.a.From, Question: q.Text, Options: []string{"approve", "deny"},
		Action: action,
	}
	if g.Options = append(g.Options, gate.Edit); !q.Editable || !gate.Editable(g) {
		g.Options = g.Options[:2]
	}
	if g.Digest, err = gate.Digest(g.Thread, action); err != nil {
		return store.Gate{}, err
	}
	if after := time.Duration(k.options.ApproveExpires); after > 0 {
		g.ExpiresAt, g.OnTimeout = k.e.cfg.Now().Add(after).UnixMilli(), string(store.GateRejected)
	}
	return g, nil
}

// wait waits for an answer. If the attempt ends first, it withdraws the question. If the attempt was
// interrupted, the question stays open, and the next attempt is told the answer.
func (k *gatekeeper) wait(ctx context.Context, g store.Gate) (store.Gate, error) {
	k.begin(g)
	k.yield(ctx) // a pause cannot fail
	answered, err := k.e.cfg.Gates.Wait(ctx, g.ID)
	k.answered(g)
	slotErr := k.yield(ctx)
	if err == nil {
		err = slotErr
	}
	k.done()
	bg := context.WithoutCancel(ctx)
	if err == nil {
		return answered, k.e.working(bg, k.row)
	}
	if ctx.Err() == nil || errors.Is(context.Cause(ctx), ErrInterrupted) {
		return g, err
	}
	return g, k.e.withdraw(bg, k.row, g)
}

// begin adds a question to those that wait.
func (k *gatekeeper) begin(g store.Gate) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.calls++
	if k.calls == 1 {
		k.since = time.Now()
	}
	if len(k.open) == 0 {
		k.opened = time.Now()
		k.late = time.AfterFunc(patience, func() {
			k.mu.Lock()
			defer k.mu.Unlock()
			k.settle()
		})
	}
	k.asked = true
	k.open = append(k.open, g)
	k.settle()
}

// answered removes a question from those that wait.
func (k *gatekeeper) answered(g store.Gate) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.open = slices.DeleteFunc(k.open, func(o store.Gate) bool { return o.ID == g.ID })
	if len(k.open) == 0 {
		k.late.Stop()
	}
	k.settle()
}

// done ends the time that a question waited, for its answer and then for the slot.
func (k *gatekeeper) done() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.calls--
	if k.calls == 0 {
		k.waited += time.Since(k.since)
	}
}

// yield gives up the slot while a question waits, and takes it back afterwards.
func (k *gatekeeper) yield(ctx context.Context) error {
	k.turn.Lock()
	defer k.turn.Unlock()
	k.mu.Lock()
	waits := len(k.open) > 0
	k.mu.Unlock()
	if waits == k.paused {
		return nil
	}
	k.paused = waits
	if waits {
		k.slot.Pause()
		return nil
	}
	return k.slot.Resume(ctx)
}

// hear returns an emit that first notes what the agent has begun and ended.
func (k *gatekeeper) hear(emit func(agent.Event) error) func(agent.Event) error {
	return func(ev agent.Event) error {
		if ev.ID != "" && (ev.Kind == agent.EventCommand || ev.Kind == agent.EventFile || ev.Kind == agent.EventTool) {
			k.mu.Lock()
			switch ev.Phase {
			case "started":
				k.running[ev.ID] = true
			case "completed", "failed", "declined":
				delete(k.running, ev.ID)
			}
			k.settle()
			k.mu.Unlock()
		}
		return emit(ev)
	}
}

// settle parks the slot if the agent has asked and nothing else runs, apart from what has run too long to wait
// for. k.mu is held.
func (k *gatekeeper) settle() {
	if k.parked != nil {
		close(k.parked)
		k.parked = nil
		k.slot.Unpark()
	}
	if len(k.open) == 0 || len(k.running) > len(k.open) && time.Since(k.opened) < patience {
		return
	}
	idle := k.slot.Park()
	k.parked = make(chan struct{})
	if k.options.ApproveExpires == 0 { // otherwise an answer comes by itself
		go k.watch(idle, k.parked)
	}
}

// watch ends the attempt once only people can make the task continue, unless the agent continues first. The
// gates stay open, as after any other interruption.
func (k *gatekeeper) watch(idle <-chan struct{}, parked chan struct{}) {
	select {
	case <-idle:
	case <-parked:
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.parked != parked {
		return
	}
	for _, g := range k.open {
		if now, err := k.e.cfg.Store.Gate(context.Background(), g.ID); err == nil && now.State != store.GateOpen {
			return // it has just been answered, and its waiter is about to see that
		}
	}
	g := k.open[0]
	k.left = &g
	k.end(ErrInterrupted)
}

// outcome returns the question that ended the attempt because the run does not wait for answers, or nil, and whether
// the attempt has asked a person.
func (k *gatekeeper) outcome() (left *store.Gate, asked bool) {
	if k == nil {
		return nil, false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.left, k.asked
}

// time returns how long the attempt waited for people.
func (k *gatekeeper) time() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.calls > 0 {
		return k.waited + time.Since(k.since)
	}
	return k.waited
}

// withdraw withdraws a question whose attempt is over.
func (e *Runner) withdraw(ctx context.Context, row store.Thread, g store.Gate) error {
	if _, err := e.cfg.Gates.Withdraw(ctx, g, "the attempt that asked has ended"); err != nil &&
		!errors.Is(err, store.ErrConflict) {
		return err
	}
	return e.working(ctx, row)
}

// Withdraw withdraws the questions that agents left at a head that the thread has moved on from.
func (e *Runner) Withdraw(ctx context.Context, row store.Thread, from dag.Hash) error {
	open, err := e.cfg.Gates.Gates(ctx, store.GateFilter{Thread: row.ID, State: store.GateOpen})
	if err != nil {
		return err
	}
	for _, g := range open {
		if g.Source != store.SourceAgent || g.From != from {
			continue
		}
		if err := e.withdraw(ctx, row, g); err != nil {
			return err
		}
	}
	return nil
}

// working records that the task no longer waits, once no gate of the thread is
// open.
func (e *Runner) working(ctx context.Context, row store.Thread) error {
	open, err := e.cfg.Gates.Gates(ctx, store.GateFilter{Thread: row.ID, State: store.GateOpen})
	if err != nil || len(open) > 0 {
		return err
	}
	return e.cfg.Store.Commit(ctx, store.Batch{
		Events: []store.Event{event.New(row, e.now(), event.TaskUpdated{State: event.Working})},
	})
}
