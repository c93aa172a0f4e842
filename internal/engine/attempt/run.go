package attempt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/agent/discreet"
	"github.com/plait-run/plait/internal/engine/briefing"
	"github.com/plait-run/plait/internal/files/worktree"
	"github.com/plait-run/plait/internal/record/store"
)

// notBegunMessage is the failure message of an attempt that was recorded but whose agent never started.
const notBegunMessage = "stopped before it began"

func notBegun() *agent.Failure {
	return &agent.Failure{Kind: agent.Cancelled, Message: notBegunMessage}
}

// NotBegun reports whether an interrupted attempt failed before its agent started. Such an attempt may be run again
// without asking.
func NotBegun(f store.Failure) bool {
	return f.Void || f.Message == notBegunMessage // rows of releases before there was the field have only the message
}

// treeFailure returns the failure of an attempt whose working tree cannot be used. An agent can cause that; machine
// says that none did.
func treeFailure(ctx context.Context, err error, machine bool) *agent.Failure {
	if ctx.Err() != nil {
		return notBegun()
	}
	return &agent.Failure{Kind: agent.Infra, Message: err.Error(), Final: true, Machine: machine}
}

// Drop records that an attempt whose row is committed will not be run.
func (e *Runner) Drop(ctx context.Context, c *Thread, p *Prepared) error {
	_, err := e.newRun(c, p, Means{}).stop(ctx, notBegun())
	return err
}

// Run runs a prepared attempt whose row is committed. It returns an outcome for the caller to commit, or one with a
// failure that it has recorded. It changes c: a failed attempt is added to Tries, and what earlier attempts saw and
// heard is used up, and kept again only after an answer that could not be used.
func (e *Runner) Run(ctx context.Context, c *Thread, p *Prepared, m Means) (*Outcome, error) {
	r := e.newRun(c, p, m)
	if ctx.Err() != nil {
		return r.stop(ctx, notBegun())
	}
	bg := context.WithoutCancel(ctx)
	desk, err := r.e.cfg.Desks.Open(r.c.Row, r.row.Instance, r.row.ID,
		r.p.in.Vendor(r.p.worker.Agent, r.e.cfg.Host.home(r.c.Row.Task), r.p.tries.earlier))
	if err != nil {
		return r.unable(ctx, fmt.Errorf("open desk of %s: %w", r.row.Instance, err))
	}
	defer func() { desk.Close(r.vendor) }()
	r.readable, err = r.e.briefer.Export(bg, &r.c.Position,
		briefing.Export{Given: r.p.given, Named: r.p.named, Uses: r.p.uses}, desk)
	if err != nil {
		return r.unable(ctx, err)
	}
	r.desk = desk
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	req, total, err := r.request(desk.Agent())
	defer func() { r.cell.Leave() }() // what cannot be killed is not the task's concern
	if err == nil && r.p.Role.Access.Writes() {
		r.before, err = r.e.cfg.Trees.Snapshot(ctx, r.c.Row, worktree.Before(r.row.N))
	}
	if err != nil {
		return r.stop(ctx, treeFailure(ctx, err, !errors.Is(err, worktree.ErrRefused)))
	}
	if r.activity = r.c.seen; r.activity == nil || r.p.summary {
		r.activity, err = r.e.evidence.Before(bg, r.c.Row.Task, r.c.Visits[r.row.Role]+1, r.c.Tries, r.p.in.Session)
		if err != nil {
			return r.unable(ctx, err)
		}
	}
	r.activity.Begin(r.row.ID, r.p.tries.turn)
	requests := r.traffic()
	req.Traffic = requests
	r.begun = true
	began := time.Now()
	result, err := r.work(ctx, end, req)
	err = requests.close(&result, err)
	if newsErr := r.news.close(); newsErr != nil {
		return r.unable(ctx, fmt.Errorf("record events of attempt %s: %w", r.row.ID, newsErr))
	}
	result.Usage = r.e.cfg.Agents.priced(result.Model, result.Usage)
	var fail *agent.Failure
	switch {
	case errors.As(err, &fail):
		r.vendor = fail.Session
		blameLimit(fail, r.cell.Spent())
		fail.Usage = r.e.cfg.Agents.priced(fail.Model, fail.Usage)
		worked := time.Since(began) - time.Duration(r.row.Waited)*time.Millisecond
		if fail.Kind == agent.TimedOut && total && worked >= req.Timeout { // not because it was idle
			fail = &agent.Failure{
				Kind: agent.Limit, Message: "the thread's time is used up: " + fail.Message,
				Session: fail.Session, Exit: fail.Exit, Usage: fail.Usage,
			}
		}
	case err != nil:
		return r.unable(ctx, fmt.Errorf("run attempt %s: %w", r.row.ID, err))
	default:
		r.vendor, r.spent = result.Session, result.Usage
		out, err := r.outcome(bg, result)
		if err == nil {
			return out, nil
		}
		if !errors.As(err, &fail) {
			return r.unable(ctx, err)
		}
		if fail.Kind == agent.InvalidOutput && !r.p.summary {
			r.c.seen, r.c.heard = r.activity, r.listens.all() // what it did and heard still counts when it answers again
		}
		fail.Session, fail.Exit, fail.Usage = result.Session, result.Exit, result.Usage
	}
	return r.stop(ctx, fail)
}

// unable returns the outcome of an attempt after an error that is not its agent's. Where another machine can do it, the
// attempt has failed and counts for nothing. Otherwise one whose agent had begun is unfinished: whoever drives the
// thread next asks what it has done.
func (r *run) unable(ctx context.Context, err error) (*Outcome, error) {
	others := r.e.cfg.Ready != nil
	if r.begun && (!others || ctx.Err() != nil) {
		return nil, err
	}
	fail := agent.OfMachine("%v", err)
	fail.Usage = r.spent
	out, stopErr := r.stop(ctx, fail)
	if stopErr != nil || !others {
		return nil, errors.Join(err, stopErr)
	}
	return out, nil
}

// work runs the agent, and records its events. end ends the attempt.
func (r *run) work(ctx context.Context, end context.CancelCauseFunc, req agent.Request) (agent.Result, error) {
	news := r.e.newNews(ctx, r.c.Row, r.row)
	r.news = news
	req.Started = func(proc agent.Process) {
		r.update(nil, func(a *store.Attempt) {
			a.PID, a.PIDStart, a.Tag = proc.PID, proc.Start, cmp.Or(proc.Tag, a.Tag)
			a.Host, a.Boot = r.e.cfg.Host.Name, r.e.cfg.Host.Boot
		})
	}
	req.Opened = func(vendor string) {
		r.vendor = vendor
		r.update(nil, func(a *store.Attempt) { a.Session = store.Text(vendor) })
	}
	emit := r.activity.Recording(news.emit)
	if r.asks != nil {
		r.asks.seen, r.asks.end = news, end
		emit = r.asks.hear(emit)
	}
	if s, ok := r.p.worker.Agent.(agent.Steerer); ok && s.Steers() && !r.p.summary {
		r.listens = r.e.listen(ctx, r.c.Row, r.c.heard)
		req.Additions = r.listens.more
		defer r.listens.stop()
	}
	r.c.heard = nil
	worker := r.p.worker.Agent
	if r.e.cfg.Player != nil {
		var err error
		if worker, req, err = r.e.cfg.Player.Play(ctx, r.c.Row, worker, req); err != nil {
			return agent.Result{}, err
		}
		if recorded, ok := worker.(Recorded); ok {
			r.memory = recorded.Memory()
		}
	}
	req, heard := discreet.Of(r.e.cfg.Host.Secrets, req, emit)
	result, err := worker.Run(ctx, req, heard.Emit)
	if endErr := cmp.Or(heard.End(), r.e.clean(r.desk.Artifacts())); err == nil {
		err = endErr
	}
	if r.asks != nil {
		r.updating.Lock() // calls may still be recorded
		r.row.Waited = r.asks.time().Milliseconds()
		r.updating.Unlock()
	}
	return result, err
}
