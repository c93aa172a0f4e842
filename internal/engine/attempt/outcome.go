package attempt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/engine/evidence"
	"github.com/plait-run/plait/internal/engine/session"
	"github.com/plait-run/plait/internal/files/worktree"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// An Outcome is what a run came to: a failure that it has recorded, or a step, once it is committed.
type Outcome struct {
	Row        store.Attempt   // of the attempt, as it ended
	Failure    *agent.Failure  // nil: a step
	Refused    bool            // a request was refused because a limit was used up
	Asked      bool            // it has asked a person
	Unattended *store.Gate     // the question that ended it because the run does not wait for answers
	Heard      []store.Request // input that the agent heard while it worked, in that order

	Draft   thread.Draft
	Objects []store.Object
	Unpin   []string // pins to remove with the step
	Summary bool     // of the thread's conversation

	p        *Prepared
	ans      answer
	version  string // of the agent's program
	evidence []event.EvidenceAdded
	steps    int // number of steps that a summary replaces in prompts
	bytes    int // size of their texts
}

// outcome makes a step from an agent's answer. If the answer is invalid, the error is an *agent.Failure that
// tells the agent what to fix.
func (r *run) outcome(ctx context.Context, result agent.Result) (*Outcome, error) {
	out := r.ended()
	var err error
	if r.p.summary {
		err = r.summary(ctx, result, out)
	} else {
		out.ans, err = r.extract(ctx, result)
		if err == nil && r.p.Role.Access.Writes() {
			// The changes count even if the work is no longer wanted.
			name := r.stepName()
			if r.keepsFiles() {
				name = "" // keepFiles keeps them under it
			}
			if r.after, err = r.e.cfg.Trees.Snapshot(ctx, r.c.Row, name); err != nil {
				err = treeFailure(ctx, err, NoRoom(err))
			}
		}
		if err == nil {
			if err = r.keepFiles(ctx); errors.Is(err, worktree.ErrRefused) {
				err = treeFailure(ctx, err, false)
			}
		}
		if err == nil {
			r.evidence, err = r.e.evidence.Record(ctx, r.evidenceAnswer(ctx, result, &out.ans))
		}
	}
	if err != nil {
		return nil, err
	}
	if r.c.Options.KeepsSessions() {
		r.session, err = r.e.sessions.Export(ctx, &r.c.Position, session.Export{Role: r.row.Role, Agent: r.p.worker.Agent,
			AgentName: r.p.worker.Name, Session: result.Session, Bytes: &r.bytes})
		if err != nil {
			return nil, err
		}
	}
	if err := r.logs(ctx); err != nil {
		return nil, err
	}
	ans := &out.ans
	if ans.headOnly {
		if err := r.wholeOutput(ctx, result, ans); err != nil {
			return nil, err
		}
	}
	out.Objects, out.Unpin, out.evidence = slices.Concat(r.bytes.Objects, r.calls), r.unpin(), r.evidence.Added
	r.row.Status, r.row.EndedAt = store.AttemptDone, r.e.now()
	r.row.Usage, r.row.Session, r.row.Turn = store.Usage(result.Usage), store.Text(result.Session), store.Text(result.Turn)
	if !r.p.summary {
		out.Draft = thread.Draft{Meta: ans.meta, Text: ans.text, Artifacts: ans.artifacts}
	}
	out.Draft.Role, out.Draft.Detail, out.Draft.At = r.row.Role, r.detail(result), r.row.EndedAt
	if !r.p.summary {
		out.Draft.Detail.Memory = r.e.sessions.Memory(&r.c.Position, session.Turn{In: r.p.in, Tries: r.p.tries.earlier,
			Told: r.p.Prompt.Text[r.p.talk:], Heard: r.activity.Told(), Requests: r.requests, Result: result,
			Recorded: r.memory})
	}
	out.Row, out.version = r.row, result.Version
	return out, nil
}

// ended returns the part of an outcome that steps and failures share.
func (r *run) ended() *Outcome {
	out := &Outcome{p: r.p, Summary: r.p.summary, Refused: r.refused, Heard: r.listens.all()}
	out.Unattended, out.Asked = r.asks.outcome()
	return out
}

// stop commits an attempt that did not become a step. If the thread has moved meanwhile, the attempt is
// superseded.
func (r *run) stop(ctx context.Context, fail *agent.Failure) (*Outcome, error) {
	out := r.ended()
	out.Failure = fail
	r.blameMachine(context.WithoutCancel(ctx), fail)
	fail.Message = r.e.cfg.Host.Secrets.Text(fail.Message)
	interrupted := fail.Kind == agent.Cancelled && errors.Is(context.Cause(ctx), ErrInterrupted)
	if interrupted {
		r.c.seen = nil // what counts then depends on the session that continues
	}
	ctx = context.WithoutCancel(ctx)
	r.bytes.Objects = nil                                // of an answer that does not count
	if err := r.logs(ctx); err != nil && !fail.Machine { // which may be unable to read them
		return nil, err
	}
	r.row.EndedAt, r.row.Usage = r.e.now(), store.Usage(fail.Usage)
	if r.begun {
		r.row.Session = store.Text(fail.Session) // an attempt that never began leaves its session unchanged
	}
	r.row.Failure = &store.Failure{Kind: store.FailureKind(fail.Kind), Message: event.Brief(fail.Message),
		ResetAt: Millis(fail.ResetAt), Void: fail.Kind == agent.Infra && (fail.Machine || !r.begun) ||
			WaitsForReset(r.p.Role, r.c.Options, fail)}
	switch {
	case interrupted:
		r.row.Status, r.row.Failure.Kind = store.AttemptInterrupted, store.FailureInterrupted
		switch {
		case !r.begun:
			r.row.Failure.Void, r.row.Failure.Message = true, notBegunMessage
		case out.Unattended != nil:
			r.row.Failure.Message = "stopped: it waited for an answer, and the run does not wait for people"
		}
	case fail.Kind == agent.Cancelled:
		r.row.Status = store.AttemptCancelled
	default:
		r.row.Status = store.AttemptFailed
	}
	failed := event.AttemptFailed{
		Interrupted: interrupted, Role: r.row.Role, Kind: r.row.Failure.Kind, Message: event.Text(r.row.Failure.Message),
	}
	if fail.Kind == agent.InvalidOutput && !r.p.summary {
		for _, w := range out.Heard {
			failed.Heard = append(failed.Heard, w.ID)
		}
	}
	ev := event.OfAttempt(r.c.Row, r.row, r.row.EndedAt, failed)
	err := r.e.cfg.Store.Commit(ctx, store.Batch{
		Objects: slices.Concat(r.bytes.Objects, r.calls), Events: []store.Event{ev}, Unpin: r.unpin(),
		Attempts: []store.AttemptChange{{Row: r.row, From: store.AttemptRunning}},
	})
	if err != nil && !errors.Is(err, store.ErrConflict) {
		return nil, fmt.Errorf("record failure of attempt %s: %w", r.row.ID, err)
	}
	r.c.Count(r.row, dag.Hash{})
	out.Row = r.row
	return out, nil
}

// WaitsForReset reports whether a failed attempt is made again, and counts for nothing, because it met a limit of a
// vendor that is known to end.
func WaitsForReset(role flow.Role, o record.Options, fail *agent.Failure) bool {
	return fail.Kind == agent.Limit && !fail.ResetAt.IsZero() && (role.Retry.WaitForReset || o.WaitForReset)
}

// logs keeps what the attempt added to its logs as blobs.
func (r *run) logs(ctx context.Context) (err error) {
	if r.desk == nil {
		return nil
	}
	if r.row.Transcript, r.logged, err = r.bytes.KeepLog(ctx, r.desk.Transcript); err == nil {
		r.row.Stderr, _, err = r.bytes.KeepLog(ctx, r.desk.StderrLog)
	}
	if err != nil {
		return fmt.Errorf("keep logs of attempt %s: %w", r.row.ID, err)
	}
	return nil
}

// stepName is the name under which the files are kept that the step leaves.
func (r *run) stepName() string { return strconv.Itoa(r.c.Row.Steps + 1) }

// keepsFiles reports whether the task wants its files recorded, and how they were before the attempt is known.
func (r *run) keepsFiles() bool { return r.c.Options.KeepsFiles() && r.before != "" }

// keepFiles records the files that a step left, if the task wants that.
func (r *run) keepFiles(ctx context.Context) error {
	if !r.keepsFiles() || r.after == "" {
		return nil
	}
	change := worktree.Change{Name: r.stepName(), From: r.before, To: r.after, Whole: r.c.Options.KeepFiles}
	files, objects, err := r.e.cfg.Trees.Keep(ctx, r.c.Row, change, r.c.Row.Head, func(all io.Reader) (dag.Hash, error) {
		blob, _, err := r.bytes.Stage(ctx, all)
		return blob, err
	})
	r.files, r.bytes.Objects = files, append(r.bytes.Objects, objects...)
	return err
}

// evidenceAnswer returns an answer, with what is known about how it came about.
func (r *run) evidenceAnswer(ctx context.Context, result agent.Result, ans *answer) evidence.Answer {
	return evidence.Answer{
		Attempt: r.row, Task: r.c.Row.Task, Turn: r.p.tries.turn, Earlier: r.p.tries.earlier, Seen: r.activity,
		Meta: ans.meta, Text: ans.text, Strict: r.p.strict, Plan: r.p.Role.Plan, Chat: r.p.Role.Chat, Plain: result.Plain,
		Desk: r.desk, Tree: worktree.Of(r.c.Row), Location: r.p.location, After: r.after,
		Names: ans.names, Nodes: ans.artifacts, Bytes: &r.bytes,
		Accepted: func() (bool, error) { return r.accepted(ctx, ans) },
	}
}

// detail returns how the step was made.
func (r *run) detail(result agent.Result) *thread.Detail {
	d := &thread.Detail{
		Agent: r.p.worker.Name, Model: result.Model, Instance: r.row.Instance, Session: result.Session,
		Attempt: r.row.ID, Attempts: []thread.EarlierAttempt{}, StartedAt: r.row.StartedAt, EndedAt: r.row.EndedAt,
		Prompt: r.row.Prompt, Context: r.p.uses, Usage: r.row.Usage,
		Transcript: r.row.Transcript, Stderr: r.row.Stderr, Exit: result.Exit, Sandbox: result.Sandbox,
		Evidence: r.evidence.Nodes, Calls: r.row.Calls, Approvals: thread.Answers{Present: true},
	}
	if r.p.worker.SSHAgent {
		d.Sandbox += ", SSH agent"
	}
	if r.before != "" {
		d.TreeBefore = &r.before
	}
	if r.after != "" {
		d.TreeAfter = &r.after
	}
	d.Files, d.SessionFiles = r.files, r.session
	if d.Context == nil {
		d.Context = []thread.ContextUse{}
	}
	for _, a := range r.p.tries.earlier {
		failure := a.Failure
		if failure != nil && failure.Void { // rows have that, nodes do not: docs/format.md
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
	p, a, ans := o.p, o.Row, o.ans
	if o.Summary {
		return []store.Event{event.New(row, a.EndedAt, event.ThreadCompacted{
			Step: ch.Step.Hash, N: ch.Row.Steps, Steps: o.steps, Bytes: o.bytes, Agent: a.Agent,
		})}
	}
	var events []store.Event
	at := func(what event.Payload) { events = append(events, event.OfAttempt(row, a, a.EndedAt, what)) }
	at(event.AttemptCompleted{Role: a.Role, Step: ch.Step.Hash, N: ch.Row.Steps, Status: ans.status,
		Usage: a.Usage, Version: o.version})
	if len(ans.names) > 0 || len(ans.skipped) > 0 {
		at(event.ArtifactWritten{Names: ans.names, Skipped: ans.skipped})
	}
	for _, added := range o.evidence {
		at(added)
	}
	at(event.AgentEnded{State: p.stateAfter(ans.status), Role: a.Role, Status: ans.status})
	events = append(events, event.Phase(row, p.Role.Plan && ans.status == flow.Planned, a.EndedAt,
		event.Dispatching)...)
	return events
}

// stateAfter returns the status of the instance after a step with a $status: it is blocked if it asks a person.
func (p *Prepared) stateAfter(status string) store.Status {
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
