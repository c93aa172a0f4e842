package engine

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/dag"
	"github.com/plait-run/plait/internal/event"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/thread"
)

// maxCorrections is how often invalid output goes back to the agent.
const maxCorrections = 2

// A prepared attempt is one that only has to be run.
type prepared struct {
	run     flow.Run
	role    flow.Role
	worker  Worker
	row     store.Attempt
	prompt  *thread.KeptPrompt
	session string        // to go on in
	from    *agent.Branch // to branch off from
	lost    dag.Hash      // what a lost session knew
	shaped  bool          // see agent.Request.Shaped
	summary bool          // the answer is a summary of the thread
	slot    Slot
	asks    *asker
	object  store.Object // the prompt
	uses    []thread.ContextUse
	earlier []store.Attempt
	try     int
	logged  int64 // bytes of the transcript
	handed  []Attachment
	before  string // git tree, "" when not known
	after   string

	strict   bool       // each citation in the answer has to resolve
	note     string     // what the agent is told of the attempt before
	gather   *gatherer  // of what is seen
	evidence []dag.Hash // nodes that come with the step
}

// run makes attempts at one step until one becomes the step, or nothing can go
// on without a person.
func (e *Engine) run(ctx context.Context, c *cursor, d flow.Run) (store.Thread, error) {
	var faults, corrections, timeouts int
	from, asked := c.row.Head, false
	c.gather = nil
	note, err := e.told(context.WithoutCancel(ctx), c, d.Role)
	if err != nil {
		return store.Thread{}, err
	}
	for {
		slot, err := e.slot(ctx, c, d.Role)
		if err != nil {
			return store.Thread{}, err
		}
		p, row, err := e.ready(ctx, c, d, note)
		if err != nil || p == nil {
			slot.Release()
			return row, err
		}
		p.slot = slot
		row, fail, err := e.attempt(ctx, c, p)
		slot.Release()
		asked = asked || p.asks.used()
		if asked && err == nil && fail == nil && row.Head != from {
			err = e.withdrawAll(context.WithoutCancel(ctx), row, from) // the step was made without these answers
		}
		if err != nil || fail == nil {
			return row, err
		}
		retry := p.role.Retry.Max
		wait := time.Duration(0)
		switch {
		case fail.Kind == agent.Cancelled && ctx.Err() == nil && p.asks.unattended() != nil:
			return e.block(ctx, c, Unanswered(*p.asks.unattended()))
		case fail.Kind == agent.Cancelled:
			return e.stopped(ctx, c)
		case fail.Kind == agent.Limit:
			if why := c.account.exhausted(e.now()); why != nil && why.Limit == "time" {
				return e.block(ctx, c, *why) // ours, not the vendor's
			}
			return e.block(ctx, c, store.Reason{Kind: store.ReasonLimit, Limit: "agent", Message: fail.Message, ResetAt: millis(fail.ResetAt)})
		case fail.Kind == agent.InvalidOutput && !fail.Final && corrections < maxCorrections:
			corrections++
			note = "Your last answer could not be used: " + fail.Message + "\nAnswer again, in full, in the form that is asked for."
			continue
		case fail.Kind == agent.TimedOut && timeouts < min(1, retry):
			timeouts++
		case fail.Kind == agent.Infra && !fail.Final && faults < retry:
			wait = e.cfg.Backoff << faults
			faults++
		default:
			return e.block(ctx, c, store.Reason{Kind: store.ReasonAttempts, Message: fmt.Sprintf("%s: %s", d.Role, fail.Error())})
		}
		note = ""
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return e.stopped(ctx, c)
		}
	}
}

// ready returns the next attempt, its batch A committed. When there is none now,
// the row says why.
func (e *Engine) ready(ctx context.Context, c *cursor, d flow.Run, note string) (*prepared, store.Thread, error) {
	if c.ready == nil && ctx.Err() == nil && e.long(c, d.Role) {
		if row, done, err := e.shorten(ctx, c, d.Role); err != nil || done {
			return nil, row, err
		}
	}
	now := e.now()
	if why := e.limit(c, now); why != nil {
		if err := e.drop(context.WithoutCancel(ctx), c); err != nil {
			return nil, store.Thread{}, err
		}
		row, err := e.block(ctx, c, *why)
		return nil, row, err
	}
	p := c.ready
	if c.ready = nil; p != nil {
		p.row.StartedAt = now
		return p, c.row, nil
	}
	if ctx.Err() != nil {
		c.account.giveBack(now)
		row, err := e.stopped(ctx, c)
		return nil, row, err
	}
	p, err := e.prepare(context.WithoutCancel(ctx), c, d, note)
	if err != nil {
		c.account.giveBack(now)
		return nil, store.Thread{}, err
	}
	p.row.StartedAt = now
	ok, err := e.begin(ctx, c, p)
	if err != nil || !ok {
		c.account.giveBack(now)
		return nil, c.row, err
	}
	return p, c.row, nil
}

// slot waits until an agent may be at work for role. When ctx ends first there is
// nothing to give back.
func (e *Engine) slot(ctx context.Context, c *cursor, role string) (Slot, error) {
	if e.cfg.Slot == nil || ctx.Err() != nil {
		return anySlot{}, nil
	}
	s, err := e.cfg.Slot(ctx, c.row, c.def.Roles[role])
	if err != nil && ctx.Err() != nil {
		return anySlot{}, nil
	}
	return s, err
}

// anySlot is the slot where any number may be at work.
type anySlot struct{}

func (anySlot) Pause()                       {}
func (anySlot) Resume(context.Context) error { return nil }
func (anySlot) Rest() <-chan struct{}        { return nil }
func (anySlot) Wake()                        {}
func (anySlot) Release()                     {}

// stopped does what the cause of a cancelled context asks for.
func (e *Engine) stopped(ctx context.Context, c *cursor) (store.Thread, error) {
	if errors.Is(context.Cause(ctx), ErrInterrupted) {
		return c.row, ErrInterrupted
	}
	return e.end(ctx, c, flow.End{Code: thread.CodeCancelled, Summary: "cancelled"})
}

func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// limit counts one more attempt, or returns why none may begin.
func (e *Engine) limit(c *cursor, now int64) *store.Reason {
	if why := e.rounds(c); why != nil {
		return why
	}
	return c.account.take(now)
}

// rounds returns why the thread may have no further step, or nil.
func (e *Engine) rounds(c *cursor) *store.Reason {
	rounds := 0
	for role, n := range c.visits {
		if !c.def.Roles[role].Chat { // a person asks for each of those
			rounds += n
		}
	}
	if most := c.limits.MaxRounds; most > 0 && rounds >= most {
		return &store.Reason{Kind: store.ReasonLimit, Limit: "rounds", Message: fmt.Sprintf("%d of %d rounds used", rounds, most)}
	}
	return nil
}

// prepare makes the next attempt ready: its row and its prompt. It writes
// nothing.
func (e *Engine) prepare(ctx context.Context, c *cursor, d flow.Run, note string) (*prepared, error) {
	role, ok := c.def.Roles[d.Role]
	if !ok {
		return nil, fmt.Errorf("thread %s: flow %s has no role %q", c.row.ID, c.row.Flow, d.Role)
	}
	who := d.Role
	if c.def.Acts() != "" {
		who = flow.WorkerFlow // whose place the action takes
	}
	w, err := e.cfg.Worker(c.row, who, role)
	if err != nil {
		return nil, fmt.Errorf("thread %s: role %s: %w", c.row.ID, d.Role, err)
	}
	p := &prepared{run: d, role: role, worker: w, earlier: c.tries, try: len(c.tries) + 1, note: note, strict: c.inPlan(d.Role)}
	route := d.Prompt
	if note != "" {
		route += "\n\n" + note
	}
	if role.Plan {
		files, err := e.merged(ctx, c)
		if err != nil {
			return nil, p.fault(c, err)
		}
		route = files + route
	}
	ask := thread.Prompt{
		Contract: p.contracted(), Role: describe(d.Role, role), Task: c.prompt, TaskNode: c.task, Parent: c.parent, Route: route,
		Quota: c.def.Context.Tokens, Steps: c.row.Steps, Pin: c.def.Context.Pin, Full: e.cfg.Full, Talk: role.Chat,
	}
	if c.def.Acts() != "" {
		ask.Without = c.def.Plans()
	}
	n := c.attempts + 1
	p.row = store.Attempt{
		ID: thread.AttemptID(c.row.ID, n), Thread: c.row.ID, From: c.row.Head, Role: d.Role, N: n,
		Agent: w.Name, Instance: Instance(c.row, c.def, d.Role), Status: store.AttemptRunning,
		Tag: tag(c.row.ID, n), StartedAt: e.now(),
	}
	e.connect(c, p, &ask)
	if err := e.notes(ctx, c, p, &ask); err != nil {
		return nil, p.fault(c, err)
	}
	if p.row.Session = p.session; role.Access.Writes() && p.cutOff() {
		ask.Route += "\n\nYour last turn was cut off, and files that you changed in it may have been put back: look at them before you go on."
	}
	if ask.Inputs, err = e.given(ctx, c, p.from == nil && p.session == ""); err != nil {
		return nil, p.fault(c, err)
	}
	if err := e.ask(ctx, c, p, ask); err != nil {
		return nil, p.fault(c, err)
	}
	p.uses = append(p.lossy(), p.uses...)
	return p, nil
}

// ask puts the prompt of an attempt together. It builds on the one before in the thread.
func (e *Engine) ask(ctx context.Context, c *cursor, p *prepared, ask thread.Prompt) error {
	prompt, err := e.cfg.Reader.Assemble(ctx, c.row.Head, ask)
	if err != nil {
		return err
	}
	if p.object, p.prompt, err = prompt.Keep(c.asked); err != nil {
		return err
	}
	p.uses, p.row.Prompt = prompt.Uses, p.prompt.Hash
	return nil
}

// cutOff tells whether the session that goes on knows of work at the step that was cut off.
func (p *prepared) cutOff() bool {
	return p.session != "" && slices.ContainsFunc(p.earlier, func(a store.Attempt) bool {
		return a.Status == store.AttemptInterrupted && a.Session == p.session
	})
}

// tag marks the processes of an attempt.
func tag(id string, n int) string {
	return thread.AttemptID(id, n) + "-" + strings.ToLower(rand.Text()[:8])
}

// begun returns what batch A writes beside the thread's row.
func (p *prepared) begun(row store.Thread) ([]store.AttemptChange, []store.Event) {
	var events []store.Event
	at := func(what event.Payload) {
		events = append(events, event.OfAttempt(row, p.row, p.row.StartedAt, what))
	}
	if p.try == 1 {
		events = append(events, phase(row, p.role.Plan, p.row.StartedAt, event.Planning)...)
		at(event.AgentStarted{Role: p.row.Role, Agent: p.row.Agent})
	}
	at(event.AttemptStarted{Role: p.row.Role, Agent: p.row.Agent, From: p.row.From, Try: p.try})
	return []store.AttemptChange{{Row: p.row}}, events
}

// begin commits batch A. It reports false when the thread moved or a wish came
// in; the caller returns the row then, and is called again.
func (e *Engine) begin(ctx context.Context, c *cursor, p *prepared) (bool, error) {
	row := c.row
	events := started(row, p.row.StartedAt)
	row.Status, row.InFlight, row.UpdatedAt = store.Running, p.row.ID, p.row.StartedAt
	attempts, more := p.begun(row)
	moved, err := e.commit(context.WithoutCancel(ctx), c, store.Batch{
		Objects: []store.Object{p.object}, Attempts: attempts, Events: append(events, more...),
		Threads: []store.ThreadChange{{Row: row, From: c.row.State()}},
	}, row)
	if err != nil || !moved {
		e.Forget(c.row.ID)
		return false, err
	}
	c.row = row
	c.attempts, c.asked = p.row.N, p.prompt
	return true, nil
}

// attempt runs one prepared attempt and commits what came of it: a step, or the
// failure that is returned.
func (e *Engine) attempt(ctx context.Context, c *cursor, p *prepared) (store.Thread, *agent.Failure, error) {
	if ctx.Err() != nil {
		fail := &agent.Failure{Kind: agent.Cancelled, Message: NotBegun}
		row, err := e.stop(ctx, c, p, nil, fail)
		return row, fail, err
	}
	desk, err := e.cfg.Desk(c.row, p.row.Instance, p.row.ID)
	if err != nil {
		row, stopErr := e.stop(ctx, c, p, nil, &agent.Failure{Kind: agent.Infra, Message: err.Error(), Final: true})
		return row, nil, errors.Join(fmt.Errorf("open desk of %s: %w", p.row.Instance, err), stopErr)
	}
	session := ""
	defer func() { desk.Close(session) }()
	if err := errors.Join(e.lend(context.WithoutCancel(ctx), desk, p.uses), e.lendParents(context.WithoutCancel(ctx), c, desk), e.lendInputs(context.WithoutCancel(ctx), c, desk), p.handOver(desk)); err != nil {
		return store.Thread{}, nil, err
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	req, total, err := e.request(c, p, desk.Agent())
	if err == nil {
		p.before, err = e.snapshot(ctx, c.row, p.role, TreeBefore(p.row.N))
	}
	if err != nil {
		fail := treeFailure(ctx, err)
		row, err := e.stop(ctx, c, p, desk, fail)
		return row, fail, err
	}
	news := e.report(c.row, p.row)
	if p.asks != nil {
		p.asks.seen, p.asks.end = news, end
	}
	if p.gather, c.gather = c.gather, nil; p.gather == nil {
		if p.gather, err = e.recall(ctx, c, p); err != nil {
			return store.Thread{}, nil, err
		}
	}
	req.Started = func(proc agent.Process) {
		p.row.PID, p.row.PIDStart = proc.PID, proc.Start
		if proc.Tag != "" {
			p.row.Tag = proc.Tag
		}
		begun := p.row
		news.note(func() error {
			return e.cfg.Store.Commit(context.WithoutCancel(ctx), store.Batch{
				Attempts: []store.AttemptChange{{Row: begun, From: store.AttemptRunning}},
			})
		})
	}
	req.Opened = func(vendor string) {
		p.row.Session, session = vendor, vendor
		begun := p.row
		news.note(func() error {
			return e.cfg.Store.Commit(context.WithoutCancel(ctx), store.Batch{
				Attempts: []store.AttemptChange{{Row: begun, From: store.AttemptRunning}},
			})
		})
	}
	emit := p.gather.hear(news.emit)
	if p.asks != nil {
		emit = p.asks.hear(emit)
	}
	result, err := p.worker.Agent.Run(ctx, req, emit)
	if p.asks != nil {
		p.row.Waited = p.asks.time().Milliseconds()
	}
	if newsErr := news.close(); newsErr != nil {
		return store.Thread{}, nil, fmt.Errorf("record events of attempt %s: %w", p.row.ID, newsErr)
	}
	var fail *agent.Failure
	switch {
	case errors.As(err, &fail):
		session = fail.Session
		if fail.Kind == agent.TimedOut && total {
			fail = &agent.Failure{Kind: agent.Limit, Message: "the thread's time is used up: " + fail.Message, Session: fail.Session, Exit: fail.Exit, Usage: fail.Usage}
		}
	case err != nil:
		return store.Thread{}, nil, fmt.Errorf("run attempt %s: %w", p.row.ID, err)
	default:
		session = result.Session
		if p.summary {
			row, err := e.compacted(ctx, c, p, desk, result)
			if !errors.As(err, &fail) {
				return row, nil, err
			}
			fail.Session, fail.Exit, fail.Usage = result.Session, result.Exit, result.Usage
			break
		}
		answer, problem := e.extract(ctx, c, p, desk, result)
		var ask *agent.Failure
		if problem != nil && !errors.As(problem, &ask) {
			return store.Thread{}, nil, problem
		}
		if problem == nil {
			// What was done counts, also when the work is not wanted any more.
			p.after, problem = e.snapshot(context.WithoutCancel(ctx), c.row, p.role, strconv.Itoa(c.row.Steps+1))
			if problem != nil {
				ask = treeFailure(ctx, problem)
			}
		}
		if problem == nil {
			if problem = e.prove(ctx, c, p, desk, result, &answer); problem != nil && !errors.As(problem, &ask) {
				return store.Thread{}, nil, problem
			}
		}
		if problem == nil {
			row, err := e.step(ctx, c, p, desk, result, answer)
			return row, nil, err
		}
		if fail = ask; fail.Kind == agent.InvalidOutput {
			c.gather = p.gather // what it did stands when it answers again
		}
		fail.Session, fail.Exit, fail.Usage = result.Session, result.Exit, result.Usage
	}
	row, err := e.stop(ctx, c, p, desk, fail)
	return row, fail, err
}
