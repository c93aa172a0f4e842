package control

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/view/advice"
)

// A Retry describes a task to try again.
type Retry struct {
	Thread  string          // a task
	From    string          // the step to repeat, as thread.Reader.Find reads it; "": what failed
	Prompt  string          // more input, or ""
	About   *thread.Comment // lines that it is about, see About; or nil
	Options Options
}

// A Retried is how to try a task again: drive Row, the task or a fork of it, with Resume.
type Retried struct {
	Row    store.Thread // the thread that continues
	Resume Resume       // how to resume it
	Note   string       // what was done, for people
}

// A retryCase is what the decision is based on.
type retryCase struct {
	row    store.Thread
	rows   []store.Thread // the task with all below
	open   []store.Gate
	driver string      // who drives it, or ""
	last   thread.Step // of a task that has ended: the last routed step; its State is nil if there is none
	number int         // of that step
}

// A retryPlan is the decision.
type retryPlan struct {
	resume bool
	thread string     // to fork: the task, or a path of it
	at     string     // the step to fork at
	rejoin bool       // the path continues there, and the others are adopted
	before *forkPoint // to fork before this step instead
	note   string
}

// decide returns how to try a task again: with new attempts if it is blocked or was interrupted, otherwise in a
// fork before the step that failed. Errors match ErrUsage, or are a conflict.
func (t retryCase) decide() (retryPlan, error) {
	name := displayName(t.row)
	switch {
	case t.driver != "":
		return retryPlan{}, &store.HeldError{Name: "task " + t.row.ID, Owner: t.driver}
	case t.row.Status == store.Completed:
		return retryPlan{}, suggest("task %s is done: continue it with %s, or repeat part of it with %s", name,
			option(advice.Resume, t.row, advice.NeedsText, "MORE"), option(advice.Fork, t.row, advice.NeedsStep, ""))
	case !t.row.Ended():
		return t.retryUnfinished()
	case t.row.Status == store.Cancelled:
		return retryPlan{thread: t.row.ID, note: "continues where it was cancelled"}, nil
	case t.last.State == nil:
		return retryPlan{thread: t.row.ID, at: "0", note: "starts from the beginning"}, nil
	case t.last.State.Paths != nil:
		return t.retryPaths(t.last.State), nil
	}
	return retryPlan{before: &forkPoint{row: t.row, head: t.row.Head, step: t.last, number: t.number}}, nil
}

// retryUnfinished is decide for a task that has not ended and is not being driven.
func (t retryCase) retryUnfinished() (retryPlan, error) {
	tries, routeless := false, ""
	for _, row := range t.rows {
		if row.Status != store.Blocked || row.Reason == nil {
			continue
		}
		asks := slices.ContainsFunc(t.open, func(g store.Gate) bool { return g.Thread == row.ID })
		switch why := row.Reason; {
		case why.Kind == store.ReasonAttempts && why.Failure == store.FailureRoute:
			routeless = why.Message
		case why.Kind == store.ReasonAttempts, why.Kind == store.ReasonLimit, why.Kind == store.ReasonJoin,
			why.Kind == store.ReasonWorker,
			why.Kind == store.ReasonConflict && !asks:
			tries = true
		}
	}
	name := displayName(t.row)
	switch {
	case tries:
		return retryPlan{resume: true, note: "new attempts where it is blocked"}, nil
	case routeless != "":
		return retryPlan{}, suggest("task %s keeps the flow that it was started with: %s; fix the flow and start again "+
			"with %s, or have an agent answer again with %s", name, routeless, advice.Option{Verb: advice.Start},
			option(advice.Retry, t.row, advice.NeedsStep, ""))
	case t.row.Status != store.Blocked:
		return retryPlan{resume: true, note: "continues where it was interrupted"}, nil
	case len(t.open) > 0:
		return retryPlan{}, suggest("task %s waits for an answer: %s shows the question; to repeat a step instead: %s",
			name, option(advice.Show, t.row, "", ""), option(advice.Retry, t.row, advice.NeedsStep, ""))
	case t.row.Reason.Kind == store.ReasonInput:
		return retryPlan{}, suggest("it is your turn in task %s: %s", name,
			option(advice.Resume, t.row, advice.NeedsText, ""))
	}
	return retryPlan{resume: true, note: "new attempts where it is blocked"}, nil
}

// retryPaths is decide for a task that ended after a join: the path that failed continues from its last step, and
// completed paths are kept. The actions of a plan are all repeated, as are paths that joined.
func (t retryCase) retryPaths(join *thread.State) retryPlan {
	i := slices.IndexFunc(join.Paths, func(p thread.PathHead) bool { return p.Status == store.Failed })
	if i < 0 {
		i = slices.IndexFunc(join.Paths, func(p thread.PathHead) bool { return p.Status != store.Completed })
	}
	if i < 0 || join.Role == thread.RoleJoin {
		return retryPlan{thread: t.row.ID, at: join.Fork.String(), note: "runs its paths again"}
	}
	p := join.Paths[i]
	return retryPlan{thread: p.Thread, at: p.Head.String(), rejoin: true,
		note: "path " + p.ID + " continues from its last step, completed paths are kept"}
}

// displayName returns the name that people use for a task.
func displayName(row store.Thread) string { return cmp.Or(row.Short, row.ID) }

// option returns what a person can do to a task.
func option(verb advice.Verb, row store.Thread, needs advice.Need, value string) advice.Option {
	return advice.Option{Verb: verb, ID: row.ID, Name: row.Short, Needs: needs, Value: value}
}

// maxReleaseWaits is how often Retry waits for the driver of a task that has ended, ten seconds in all.
const maxReleaseWaits = 100

// Retry decides how to try a task again, and prepares it: the caller drives the result. A task that is blocked
// or was interrupted continues itself. For one that failed or was cancelled, a fork continues in the same
// working tree.
func (c *Controller) Retry(ctx context.Context, r Retry) (Retried, error) {
	row, err := c.cfg.Store.Thread(ctx, r.Thread)
	if err != nil {
		return Retried{}, fmt.Errorf("retry task %s: %w", r.Thread, err)
	}
	if row.Root != row.ID {
		return Retried{}, suggest("thread %s is part of task %s; retry the task: %s", row.ID, row.Root,
			advice.Option{Verb: advice.Retry, ID: row.Root})
	}
	t, err := c.retryCase(ctx, row)
	// The record shows the task as ended before its driver has left.
	for tries := 0; err == nil && t.driver != "" && row.Ended() && tries < maxReleaseWaits && ctx.Err() == nil; tries++ {
		if c.waitReleased(ctx, row.Root) {
			t, err = c.retryCase(ctx, row)
		}
	}
	if err != nil {
		return Retried{}, fmt.Errorf("retry task %s: %w", r.Thread, err)
	}
	plan, err := t.decide()
	if r.From != "" && (err == nil || t.driver == "" && row.Status == store.Blocked) {
		at, findErr := c.forkPoint(ctx, row, r.From)
		plan, err = retryPlan{before: &at}, findErr
	}
	if err != nil {
		return Retried{}, err
	}
	if plan.resume {
		return Retried{Row: row, Resume: Resume{Prompt: r.Prompt, About: r.About, Options: r.Options},
			Note: fmt.Sprintf("%s: %s", displayName(row), plan.note)}, nil
	}
	if plan.before != nil {
		if plan, err = c.forkBefore(ctx, *plan.before); err != nil {
			return Retried{}, err
		}
	}
	next, err := c.Fork(ctx, Fork{Thread: plan.thread, At: plan.at, Rejoin: plan.rejoin, InPlace: !plan.rejoin,
		Prompt: r.Prompt, About: r.About, Options: r.Options})
	if err != nil {
		return Retried{}, err
	}
	note := fmt.Sprintf("%s is a fork of %s: %s", displayName(next), displayName(row), plan.note)
	return Retried{Row: next, Note: note}, nil
}

// retryCase reads what the decision is based on.
func (c *Controller) retryCase(ctx context.Context, row store.Thread) (t retryCase, err error) {
	t.row = row
	driver, held, err := c.cfg.Store.Holder(ctx, row.Root)
	if err != nil {
		return t, err
	}
	if held {
		t.driver = cmp.Or(driver, "another process")
	}
	if t.rows, err = thread.Subtree(ctx, c.cfg.Store, row.ID); err != nil {
		return t, err
	}
	if t.open, err = c.cfg.Store.Gates(ctx, store.GateFilter{Task: row.Task, State: store.GateOpen}); err != nil ||
		!row.Ended() {
		return t, err
	}
	t.number = row.Steps
	for s, err := range c.reader.Walk(ctx, row.Head) {
		if err != nil {
			return t, err
		}
		if thread.Routed(s.State.Role) {
			t.last = s
			break
		}
		t.number--
	}
	return t, nil
}

// forkBefore returns where to fork to repeat a step: where the step before it was made, which inside a path is in
// that path. To repeat a join, all paths are repeated.
func (c *Controller) forkBefore(ctx context.Context, at forkPoint) (retryPlan, error) {
	if at.step.State == nil {
		return retryPlan{}, suggest("step 0 is the start: there is nothing to repeat; start again with %s, or name a "+
			"later step of %s", advice.Option{Verb: advice.Start}, displayName(at.row))
	}
	if s := at.step.State; s.Paths != nil {
		return retryPlan{thread: at.row.ID, at: s.Fork.String(), note: fmt.Sprintf("runs the paths of step %d (%s) again",
			at.number, s.Role)}, nil
	}
	plan := retryPlan{thread: at.row.ID, at: strconv.Itoa(at.number - 1),
		note: fmt.Sprintf("repeats step %d (%s)", at.number, at.step.State.Role)}
	def, err := c.record.Definition(ctx, at.row)
	if err != nil {
		return plan, err
	}
	prev := forkPoint{row: at.row, head: at.head, number: at.number - 1, step: thread.Step{Hash: at.row.Start}}
	if before := at.step.State.Ancestors; len(before) > 0 {
		if prev.step, err = c.stepAt(ctx, at.row, prev.number); err != nil {
			return plan, err
		}
	}
	place, err := c.pathAt(ctx, def, prev)
	plan.rejoin = place != nil && place.Join != thread.RoleJoin
	return plan, err
}
