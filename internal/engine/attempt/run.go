package attempt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/agent/discreet"
	"github.com/plait-run/plait/internal/engine/briefing"
	"github.com/plait-run/plait/internal/engine/evidence"
	"github.com/plait-run/plait/internal/engine/session"
	"github.com/plait-run/plait/internal/files/worktree"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// notBegunMessage is the failure message of an attempt that was recorded but whose agent never started.
const notBegunMessage = "stopped before it began"

func notBegun() *agent.Failure {
	return &agent.Failure{Kind: agent.Cancelled, Message: notBegunMessage}
}

// NotBegun reports whether an interrupted attempt failed before its agent started. Such an attempt may be run again
// without asking.
func NotBegun(f store.Failure) bool {
	return f.NotBegun || f.Message == notBegunMessage // rows of releases before there was the field have only the message
}

// treeFailure returns the failure of an attempt whose working tree cannot be used. An agent can cause that.
func treeFailure(ctx context.Context, err error) *agent.Failure {
	if ctx.Err() != nil {
		return notBegun()
	}
	return &agent.Failure{Kind: agent.Infra, Message: err.Error(), Final: true}
}

// An Outcome is the result of an attempt: a step, once it is committed.
type Outcome struct {
	Draft   thread.Draft
	Objects []store.Object
	Unpin   []string // pins to remove with the step
	Summary bool     // of the thread's conversation

	p     *Prepared
	ans   answer
	steps int // number of steps that a summary replaces in prompts
	bytes int // size of their texts
}

// Run runs a prepared attempt whose row is committed. It returns an outcome for the caller to commit, or a
// failure that it has recorded.
func (e *Runner) Run(ctx context.Context, c *Thread, p *Prepared) (*Outcome, *agent.Failure, error) {
	if ctx.Err() != nil {
		fail := notBegun()
		return nil, fail, e.stop(ctx, c, p, nil, fail)
	}
	keep := context.WithoutCancel(ctx)
	p.kept.bytes = store.Staging{Store: e.cfg.Store, Pin: p.Row.ID}
	p.kept.large = p.kept.bytes
	desk, err := e.cfg.Desks.Open(c.Row, p.Row.Instance, p.Row.ID, p.in.Vendor(p.worker.Agent, e.cfg.Host.home(c.Row.Task), p.tries.earlier))
	if err != nil {
		stopErr := e.stop(ctx, c, p, nil, &agent.Failure{Kind: agent.Infra, Message: err.Error(), Final: true})
		return nil, nil, errors.Join(fmt.Errorf("open desk of %s: %w", p.Row.Instance, err), stopErr)
	}
	session := ""
	defer func() { desk.Close(session) }()
	p.readable, err = e.briefer.Export(keep, &c.Position, briefing.Export{Given: p.given, Named: p.named, Uses: p.uses}, desk)
	if err != nil {
		return nil, nil, err
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	req, total, err := e.request(c, p, desk.Agent())
	if err == nil && p.Role.Access.Writes() {
		p.kept.before, err = e.cfg.Trees.Snapshot(ctx, c.Row, worktree.Before(p.Row.N))
	}
	if err != nil {
		fail := treeFailure(ctx, err)
		return nil, fail, e.stop(ctx, c, p, desk, fail)
	}
	p.activity, c.seen = c.seen, nil
	if p.activity == nil {
		if p.activity, err = e.evidence.Before(keep, c.Row.Task, c.Visits[p.Row.Role]+1, c.Tries, p.in.Session); err != nil {
			return nil, nil, err
		}
	}
	p.activity.Begin(p.Row.ID, p.tries.turn)
	seen := e.traffic(c, p)
	req.Traffic = seen
	p.begun = true
	result, err := e.work(ctx, end, c, p, req, desk.Artifacts(), &session)
	err = seen.close(&result, err)
	if newsErr := p.news.close(); newsErr != nil {
		return nil, nil, fmt.Errorf("record events of attempt %s: %w", p.Row.ID, newsErr)
	}
	result.Usage = e.cfg.Agents.priced(result.Model, result.Usage)
	var fail *agent.Failure
	switch {
	case errors.As(err, &fail):
		session = fail.Session
		fail.Usage = e.cfg.Agents.priced(fail.Model, fail.Usage)
		if fail.Kind == agent.TimedOut && total {
			fail = &agent.Failure{
				Kind: agent.Limit, Message: "the thread's time is used up: " + fail.Message,
				Session: fail.Session, Exit: fail.Exit, Usage: fail.Usage,
			}
		}
	case err != nil:
		return nil, nil, fmt.Errorf("run attempt %s: %w", p.Row.ID, err)
	default:
		session = result.Session
		out, err := e.outcome(keep, c, p, desk, result)
		if !errors.As(err, &fail) {
			return out, nil, err
		}
		if fail.Kind == agent.InvalidOutput && !p.summary {
			c.seen, c.heard = p.activity, p.Heard() // what it did and heard still counts when it answers again
		}
		fail.Session, fail.Exit, fail.Usage = result.Session, result.Exit, result.Usage
	}
	return nil, fail, e.stop(ctx, c, p, desk, fail)
}

// work runs the agent, and records its events. end ends the attempt.
func (e *Runner) work(
	ctx context.Context, end context.CancelCauseFunc, c *Thread, p *Prepared, req agent.Request, artifacts *os.Root,
	session *string,
) (agent.Result, error) {
	news := e.report(ctx, c.Row, p.Row)
	p.news = news
	req.Started = func(proc agent.Process) {
		p.update(nil, func(a *store.Attempt) {
			a.PID, a.PIDStart, a.Tag = proc.PID, proc.Start, cmp.Or(proc.Tag, a.Tag)
			a.Host, a.Boot = e.cfg.Host.Name, e.cfg.Host.Boot
		})
	}
	req.Opened = func(vendor string) {
		*session = vendor
		p.update(nil, func(a *store.Attempt) { a.Session = store.Text(vendor) })
	}
	emit := p.activity.Recording(news.emit)
	if p.asks != nil {
		p.asks.seen, p.asks.end = news, end
		emit = p.asks.hear(emit)
	}
	if s, ok := p.worker.Agent.(agent.Steerer); ok && s.Steers() && !p.summary {
		p.listens = e.listen(ctx, c.Row, c.heard)
		req.Additions = p.listens.more
		defer p.listens.stop()
	}
	c.heard = nil
	worker := p.worker.Agent
	if e.cfg.Player != nil {
		var err error
		if worker, req, err = e.cfg.Player.Play(ctx, c.Row, worker, req); err != nil {
			return agent.Result{}, err
		}
		if r, ok := worker.(Recorded); ok {
			p.kept.memory = r.Memory()
		}
	}
	req, heard := discreet.Of(e.cfg.Host.Secrets, req, emit)
	result, err := worker.Run(ctx, req, heard.Emit)
	if endErr := cmp.Or(heard.End(), e.clean(artifacts)); err == nil {
		err = endErr
	}
	if p.asks != nil {
		p.updating.Lock() // calls may still be recorded
		p.Row.Waited = p.asks.time().Milliseconds()
		p.updating.Unlock()
	}
	return result, err
}

// update changes the row of an attempt while its agent works, and saves it, with the objects it names.
func (p *Prepared) update(objects []store.Object, change func(*store.Attempt)) {
	p.updating.Lock()
	defer p.updating.Unlock()
	change(&p.Row)
	row := p.Row
	p.news.queue(func() error {
		return p.news.commit(store.Batch{
			Objects: objects, Attempts: []store.AttemptChange{{Row: row, From: store.AttemptRunning}},
		})
	})
}

// outcome makes a step from an agent's answer. If the answer is invalid, the error is an *agent.Failure that
// tells the agent what to fix.
func (e *Runner) outcome(ctx context.Context, c *Thread, p *Prepared, desk agent.Directory,
	result agent.Result) (*Outcome, error) {
	out := &Outcome{p: p, Summary: p.summary}
	var err error
	if p.summary {
		err = e.summary(ctx, c, result, out)
	} else {
		out.ans, err = e.extract(ctx, c, p, desk, result)
		if err == nil && p.Role.Access.Writes() {
			// The changes count even if the work is no longer wanted.
			if p.kept.after, err = e.cfg.Trees.Snapshot(ctx, c.Row, strconv.Itoa(c.Row.Steps+1)); err != nil {
				err = treeFailure(ctx, err)
			}
		}
		if err == nil {
			if err = e.keepFiles(ctx, c, p); errors.Is(err, worktree.ErrRefused) {
				err = treeFailure(ctx, err)
			}
		}
		if err == nil {
			p.kept.evidence, err = e.evidence.Record(ctx, e.evidenceAnswer(ctx, c, p, desk, result, &out.ans))
		}
	}
	if err != nil {
		return nil, err
	}
	if c.Options.KeepFiles {
		p.kept.session, err = e.sessions.Export(ctx, &c.Position, session.Export{Role: p.Row.Role, Agent: p.worker.Agent,
			AgentName: p.worker.Name, Session: result.Session, Bytes: &p.kept.bytes})
		if err != nil {
			return nil, err
		}
	}
	if err := e.logs(ctx, p, desk); err != nil {
		return nil, err
	}
	ans := &out.ans
	if ans.whole {
		if err := e.wholeOutput(ctx, p, result, ans); err != nil {
			return nil, err
		}
	}
	out.Objects, out.Unpin = slices.Concat(p.kept.bytes.Objects, p.kept.calls), p.kept.unpin()
	p.Row.Status, p.Row.EndedAt = store.AttemptDone, e.now()
	p.Row.Usage, p.Row.Session, p.Row.Turn = store.Usage(result.Usage), store.Text(result.Session), store.Text(result.Turn)
	if !p.summary {
		out.Draft = thread.Draft{Meta: ans.meta, Text: ans.text, Artifacts: ans.artifacts}
	}
	out.Draft.Role, out.Draft.Detail, out.Draft.At = p.Row.Role, detail(p, result), p.Row.EndedAt
	if !p.summary {
		out.Draft.Detail.Memory = e.sessions.Memory(&c.Position, session.Turn{In: p.in, Tries: p.tries.earlier,
			Told: p.Prompt.Text[p.talk:], Heard: p.activity.Told(), Requests: p.kept.requests, Result: result,
			Recorded: p.kept.memory})
	}
	return out, nil
}

// Drop records that an attempt whose row is committed will not be run.
func (e *Runner) Drop(ctx context.Context, c *Thread, p *Prepared) error {
	return e.stop(ctx, c, p, nil, notBegun())
}

// stop commits an attempt that did not become a step. If the thread has moved meanwhile, the attempt is
// superseded.
func (e *Runner) stop(ctx context.Context, c *Thread, p *Prepared, desk agent.Directory, fail *agent.Failure) error {
	fail.Message = e.cfg.Host.Secrets.Text(fail.Message)
	interrupted := fail.Kind == agent.Cancelled && errors.Is(context.Cause(ctx), ErrInterrupted)
	ctx = context.WithoutCancel(ctx)
	p.kept.bytes.Objects = nil // of an answer that does not count
	if err := e.logs(ctx, p, desk); err != nil {
		return err
	}
	p.Row.EndedAt, p.Row.Usage = e.now(), store.Usage(fail.Usage)
	if desk != nil {
		p.Row.Session = store.Text(fail.Session) // an attempt that never began leaves its session unchanged
	}
	p.Row.Failure = &store.Failure{Kind: store.FailureKind(fail.Kind), Message: event.Brief(fail.Message),
		ResetAt: Millis(fail.ResetAt)}
	switch {
	case interrupted:
		p.Row.Status, p.Row.Failure.Kind = store.AttemptInterrupted, store.FailureInterrupted
		switch {
		case !p.begun:
			p.Row.Failure.NotBegun, p.Row.Failure.Message = true, notBegunMessage
		case p.Unattended() != nil:
			p.Row.Failure.Message = "stopped: it waited for an answer, and the run does not wait for people"
		}
	case fail.Kind == agent.Cancelled:
		p.Row.Status = store.AttemptCancelled
	default:
		p.Row.Status = store.AttemptFailed
	}
	failed := event.AttemptFailed{
		Interrupted: interrupted, Role: p.Row.Role, Kind: p.Row.Failure.Kind, Message: event.Text(p.Row.Failure.Message),
	}
	if fail.Kind == agent.InvalidOutput && !p.summary {
		for _, w := range p.Heard() {
			failed.Heard = append(failed.Heard, w.ID)
		}
	}
	ev := event.OfAttempt(c.Row, p.Row, p.Row.EndedAt, failed)
	objects := p.kept.bytes.Objects
	if desk != nil {
		objects = append(objects, p.kept.calls...)
	}
	err := e.cfg.Store.Commit(ctx, store.Batch{
		Objects: objects, Attempts: []store.AttemptChange{{Row: p.Row, From: store.AttemptRunning}},
		Events: []store.Event{ev}, Unpin: p.kept.unpin(),
	})
	if err != nil && !errors.Is(err, store.ErrConflict) {
		return fmt.Errorf("record failure of attempt %s: %w", p.Row.ID, err)
	}
	c.Count(p.Row, dag.Hash{})
	return nil
}

// unpin returns the pins that end with the attempt.
func (k *leftovers) unpin() []string {
	return slices.Compact(append(k.bytes.Unpin(), k.large.Unpin()...))
}

// logs keeps what the attempt added to its logs as blobs.
func (e *Runner) logs(ctx context.Context, p *Prepared, desk agent.Directory) (err error) {
	if desk == nil {
		return nil
	}
	if p.Row.Transcript, p.kept.logged, err = p.kept.bytes.KeepLog(ctx, desk.Transcript); err == nil {
		p.Row.Stderr, _, err = p.kept.bytes.KeepLog(ctx, desk.StderrLog)
	}
	if err != nil {
		return fmt.Errorf("keep logs of attempt %s: %w", p.Row.ID, err)
	}
	return nil
}

// keepFiles records the files that a step left, if the task wants that.
func (e *Runner) keepFiles(ctx context.Context, c *Thread, p *Prepared) error {
	if !c.Options.KeepFiles || p.kept.after == "" {
		return nil
	}
	files, objects, err := e.cfg.Trees.Keep(ctx, c.Row, p.kept.after, c.Row.Head, func(r io.Reader) (dag.Hash, error) {
		blob, _, err := p.kept.bytes.Stage(ctx, r)
		return blob, err
	})
	p.kept.files, p.kept.bytes.Objects = files, append(p.kept.bytes.Objects, objects...)
	return err
}

// evidenceAnswer returns an answer, with what is known about how it came about.
func (e *Runner) evidenceAnswer(ctx context.Context, c *Thread, p *Prepared, desk agent.Directory, result agent.Result,
	ans *answer) evidence.Answer {
	return evidence.Answer{
		Attempt: p.Row, Task: c.Row.Task, Turn: p.tries.turn, Earlier: p.tries.earlier, Seen: p.activity,
		Meta: ans.meta, Text: ans.text, Strict: p.strict, Plan: p.Role.Plan, Chat: p.Role.Chat, Plain: result.Plain,
		Desk: desk, Tree: worktree.Of(c.Row), Location: p.location, After: p.kept.after,
		Names: ans.names, Nodes: ans.artifacts, Bytes: &p.kept.bytes,
		Accepted: func() (bool, error) { return e.accepted(ctx, c, p, ans) },
	}
}

// detail returns how the step was made.
func detail(p *Prepared, result agent.Result) *thread.Detail {
	d := &thread.Detail{
		Agent: p.worker.Name, Model: result.Model, Instance: p.Row.Instance, Session: result.Session,
		Attempt: p.Row.ID, Attempts: []thread.EarlierAttempt{}, StartedAt: p.Row.StartedAt, EndedAt: p.Row.EndedAt,
		Prompt: p.Row.Prompt, Context: p.uses, Usage: p.Row.Usage,
		Transcript: p.Row.Transcript, Stderr: p.Row.Stderr, Exit: result.Exit, Sandbox: result.Sandbox,
		Evidence: p.kept.evidence.Nodes, Calls: p.Row.Calls, Approvals: thread.Answers{Present: true},
	}
	if p.kept.before != "" {
		d.TreeBefore = &p.kept.before
	}
	if p.kept.after != "" {
		d.TreeAfter = &p.kept.after
	}
	d.Files, d.SessionFiles = p.kept.files, p.kept.session
	if d.Context == nil {
		d.Context = []thread.ContextUse{}
	}
	for _, a := range p.tries.earlier {
		failure := a.Failure
		if failure != nil && failure.NotBegun { // rows have that, nodes do not: docs/format.md
			failure = &store.Failure{Kind: failure.Kind, Message: failure.Message, ResetAt: failure.ResetAt}
		}
		d.Attempts = append(d.Attempts, thread.EarlierAttempt{ID: a.ID, Failure: failure, Transcript: a.Transcript,
			Calls: a.Calls})
		d.Usage = d.Usage.Add(a.Usage)
	}
	return d
}

// Events returns the events of the step that an outcome becomes. row is the thread's row before the step.
func (o *Outcome) Events(row store.Thread, ch thread.Change) []store.Event {
	p, ans := o.p, o.ans
	if o.Summary {
		return []store.Event{event.New(row, p.Row.EndedAt, event.ThreadCompacted{
			Step: ch.Step.Hash, N: ch.Row.Steps, Steps: o.steps, Bytes: o.bytes, Agent: p.Row.Agent,
		})}
	}
	var events []store.Event
	at := func(what event.Payload) { events = append(events, event.OfAttempt(row, p.Row, p.Row.EndedAt, what)) }
	at(event.AttemptCompleted{Role: p.Row.Role, Step: ch.Step.Hash, N: ch.Row.Steps, Status: ans.status,
		Usage: p.Row.Usage})
	if len(ans.names) > 0 || len(ans.skipped) > 0 {
		at(event.ArtifactWritten{Names: ans.names, Skipped: ans.skipped})
	}
	for _, added := range p.kept.evidence.Added {
		at(added)
	}
	at(event.AgentEnded{State: p.ended(ans.status), Role: p.Row.Role, Status: ans.status})
	events = append(events, event.Phase(row, p.Role.Plan && ans.status == flow.Planned, p.Row.EndedAt,
		event.Dispatching)...)
	return events
}

// ended returns the status of the instance after a step with a $status: it is blocked if it asks a person.
func (p *Prepared) ended(status string) store.Status {
	switch {
	case p.acts():
		return cmp.Or(store.Status(flow.ActionEnds(status)), store.Blocked)
	case status == flow.Suspend && !p.Role.Chat:
		return store.Blocked
	}
	return store.Completed
}

// acts reports whether the attempt is at an action of a plan.
func (p *Prepared) acts() bool { return p.strict && !p.Role.Plan }
