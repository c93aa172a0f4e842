package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/engine/attempt"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record"
	"github.com/plait-run/plait/internal/record/prompt"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// littleTalk is how many times a conversation must fit into its quota for a session to begin anew without a summary.
const littleTalk = 4

// A Compaction names the thread to summarize and the agent that does it.
type Compaction struct {
	Thread  string
	Agent   string // "": the agent named by the task's options or the configuration
	Offline string // the scenario of a scripted model, or ""
}

// Compact has an agent summarize the conversation of a thread, and commits the summary as a step. Later prompts
// begin with the summary; the steps before it stay in the record. Otherwise the thread does not change. The
// caller holds the task's lease. Errors are an *agent.Failure if the agent fails, or match attempt.ErrUsage or
// store.ErrConflict.
func (e *Engine) Compact(ctx context.Context, r Compaction) (store.Thread, error) {
	fail := func(err error) (store.Thread, error) {
		return store.Thread{}, fmt.Errorf("compact thread %s: %w", r.Thread, err)
	}
	bg := context.WithoutCancel(ctx)
	row, err := e.cfg.Store.Thread(bg, r.Thread)
	if err != nil {
		return fail(err)
	}
	rows, err := thread.Subtree(bg, e.cfg.Store, row.Root)
	if err == nil {
		err = e.recover(bg, rows)
	}
	if err == nil {
		row, err = e.cfg.Store.Thread(bg, r.Thread)
	}
	if err != nil {
		return fail(err)
	}
	held := &ownership{engine: e}
	defer held.release()
	if !held.tryLock(row.ID) {
		return fail(store.ErrConflict)
	}
	if err := e.compactable(bg, row); err != nil {
		if errors.Is(err, attempt.ErrUsage) {
			return store.Thread{}, err
		}
		return fail(err)
	}
	if err := e.cfg.Trees.Prepare(ctx, row); err != nil {
		return store.Thread{}, err
	}
	w, err := e.summaryFor(row, r)
	if err != nil {
		return store.Thread{}, err
	}
	task := row.Root
	work, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := e.watch(work, task, cancel, func() {
		if root, err := e.cfg.Store.Thread(work, task); err == nil && root.Intent == store.IntentCancel && !root.Ended() {
			cancel(errUnwanted)
		}
	})
	slot, err := e.slots.take(work, nil, row, flow.Role{})
	if err == nil {
		row, err = e.compactNow(work, row, w)
		slot.Release()
	}
	stop()
	root, readErr := e.cfg.Store.Thread(bg, task)
	if readErr == nil && root.Intent == store.IntentCancel && !root.Ended() {
		held.release()
		_, _, err := e.cancelTree(bg, held, root.ID)
		return fail(errors.Join(fmt.Errorf("the task was cancelled: %w", store.ErrConflict), err))
	}
	var failure *agent.Failure
	if errors.As(err, &failure) {
		return fail(fmt.Errorf("agent %s: %w", w.Name, err))
	}
	return row, errors.Join(err, readErr)
}

// compactNow summarizes the conversation of a thread that the caller owns.
func (e *Engine) compactNow(ctx context.Context, row store.Thread, w attempt.Worker) (store.Thread, error) {
	c, row, err := e.load(context.WithoutCancel(ctx), row.ID, row.Head)
	if err != nil || c == nil {
		return row, err
	}
	return e.compact(ctx, c, w)
}

// summaryFor returns the agent that writes the summary.
func (e *Engine) summaryFor(row store.Thread, r Compaction) (attempt.Worker, error) {
	opts, err := record.OptionsOf(row)
	if err != nil {
		return attempt.Worker{}, err
	}
	if r.Agent != "" {
		opts.Agent, opts.Roles = r.Agent, nil
	}
	opts.Offline = cmp.Or(r.Offline, opts.Offline)
	if row.Options, err = json.Marshal(opts); err != nil {
		return attempt.Worker{}, err
	}
	return e.cfg.Agents.Worker(row, thread.RoleCompact, flow.Role{})
}

// compactable returns why no step can be added to a thread now, or nil. A thread that waits for others must
// stay at the step where they left it.
func (e *Engine) compactable(ctx context.Context, row store.Thread) error {
	blocked := row.Status == store.Blocked && row.Reason != nil
	switch {
	case row.Ended():
		return attempt.Usage("thread %s has ended, and nothing can follow its end: fork it and compact the fork",
			row.ID)
	case row.Steps == 0:
		return attempt.Usage("thread %s has no steps to summarize", row.ID)
	case blocked && (row.Reason.Kind == store.ReasonGate || row.Reason.Kind == store.ReasonJoin):
		return attempt.Usage("thread %s is blocked (%s); compact it when it runs again", row.ID, row.Reason.Kind)
	}
	last, err := e.attemptAt(ctx, row.ID, row.Head)
	if err != nil {
		return err
	}
	if last != nil { // a step would hide an attempt that was cut off here
		why, err := e.needsPerson(ctx, row, last)
		if err != nil {
			return err
		}
		if why != nil {
			return attempt.Usage("thread %s: %s", row.ID, why.Message)
		}
	}
	head, err := e.cfg.Reader.State(ctx, row.Head)
	if err == nil && head.Role == thread.RoleCompact {
		return attempt.Usage("thread %s has just been compacted: its last step is a summary", row.ID)
	}
	rows, err := thread.Subtree(ctx, e.cfg.Store, row.ID)
	if err != nil {
		return err
	}
	for _, t := range rows[1:] {
		if t.Parent != nil && t.Parent.Thread == row.ID && t.Parent.From == row.Head {
			return attempt.Usage("thread %s waits for thread %s; compact that one, or compact this one later", row.ID,
				t.ID)
		}
	}
	return nil
}

// compact has an agent write a summary, and commits it as a step.
func (e *Engine) compact(ctx context.Context, c *threadState, w attempt.Worker) (store.Thread, error) {
	bg := context.WithoutCancel(ctx)
	p, err := e.beginSummary(bg, c, w)
	if err != nil {
		return store.Thread{}, err
	}
	c.Attempts, c.Asked = p.Row.N, p.Prompt
	out, err := e.attempt(ctx, c, p, nil)
	if err == nil && out.Failure != nil {
		err = out.Failure
	}
	if err != nil {
		return c.Row, err
	}
	return e.step(ctx, c, out)
}

// beginSummary commits batch A of an attempt at a summary.
func (e *Engine) beginSummary(ctx context.Context, c *threadState, w attempt.Worker) (*attempt.Prepared, error) {
	for {
		if err := e.readAccount(ctx, c); err != nil {
			return nil, err
		}
		now := e.now()
		if why := c.account.exhausted(now); why != nil {
			return nil, &agent.Failure{Kind: agent.Limit, Message: why.Message, Final: true}
		}
		p, err := e.attempts.PrepareSummary(ctx, &c.Thread, w)
		if err != nil {
			return nil, err
		}
		p = p.At(now)
		batch := store.Batch{Objects: p.Objects}
		batch.Attempts, batch.Events = p.Begun(c.Row)
		c.account.guardCount(c.Row.Task, &batch)
		err = e.cfg.Store.Commit(ctx, batch)
		if err == nil {
			return p, nil
		}
		if !errors.Is(err, store.ErrConflict) || !e.outdated(ctx, c.Row.Task, c.account) {
			return nil, fmt.Errorf("compact thread %s: %w", c.Row.ID, err)
		}
	}
}

// needsSummary reports whether the next prompt for role should begin with a summary. The agent must be able to write
// one. If it continues no session, the conversation is near its quota. Otherwise what the session holds is, or the
// conversation would no longer fit whole into a new prompt; but if little was said beside what the session saw of
// commands and files, a prompt with all that was said is better than a summary.
func (e *Engine) needsSummary(ctx context.Context, c *threadState, role string) (bool, error) {
	if record.WholeContext(c.Row) || c.noSummary || e.cfg.Player != nil || c.Talk == c.Summed || len(c.Tries) > 0 {
		return false, nil
	}
	w, err := e.attempts.Worker(&c.Thread, role)
	if err != nil || !w.Summarizes {
		return false, nil
	}
	talk := prompt.ApproxTokens(c.Talk)
	held, continues, err := e.attempts.Held(ctx, &c.Thread, role, w)
	if continues {
		whole := prompt.FitsWhole(c.Framed, c.Def.Context.Tokens)
		return !whole || c.Crowded(held) && c.Crowded(littleTalk*talk), err
	}
	return c.Crowded(talk), err
}

// compactFirst summarizes the conversation before an attempt at role. It reports false if there is no summary;
// the work continues without one.
func (e *Engine) compactFirst(ctx context.Context, c *threadState, role string) (row store.Thread, done bool,
	err error) {
	w, err := e.attempts.Worker(&c.Thread, role)
	if err != nil {
		return store.Thread{}, false, err
	}
	row, err = e.compact(ctx, c, w)
	var fail *agent.Failure
	if errors.As(err, &fail) {
		c.noSummary = true // do not try again before every step
		return row, false, nil
	}
	return row, err == nil, err
}
