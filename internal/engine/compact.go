package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/dag"
	"github.com/plait-run/plait/internal/event"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/thread"
)

// compactAt is the part of the quota at which a conversation is summarised.
const compactAt = 0.9

// summaryQuota is how much longer than the quota of a prompt the conversation may
// be that an agent is given to summarise.
const summaryQuota = 8

// summariser is who writes a summary.
var summariser = flow.Role{
	Description: "Summarises what a team of agents has done, so that its work can go on without the steps themselves.",
	Goal:        "Whoever reads only the summary can do the next step as well as one who has read everything.",
	Procedure: "Keep what was decided and why, what was found out and where it can be looked up (files, commands, hashes\n" +
		"of steps), what was tried and did not work, and what is still to be done. Leave out how it was said.",
	Access: flow.Read, Retry: flow.Retry{},
}

// Compact lets an agent summarise the conversation of a thread and commits the
// summary as a step: prompts stop there, the steps that it stands for stay. The
// thread is otherwise left as it is. An agent that fails is an *agent.Failure.
func (e *Engine) Compact(ctx context.Context, id string, w Worker) (store.Thread, error) {
	keep := context.WithoutCancel(ctx)
	row, err := e.cfg.Store.Thread(keep, id)
	if err != nil {
		return store.Thread{}, fmt.Errorf("read thread %s: %w", id, err)
	}
	c, row, err := e.load(keep, id, row.Head)
	if err != nil || c == nil {
		return row, err
	}
	return e.compact(ctx, c, w)
}

func (e *Engine) compact(ctx context.Context, c *cursor, w Worker) (store.Thread, error) {
	keep := context.WithoutCancel(ctx)
	now := e.now()
	if why := c.account.take(now); why != nil {
		return store.Thread{}, &agent.Failure{Kind: agent.Limit, Message: why.Message, Final: true}
	}
	p := &prepared{role: summariser, worker: w, try: 1, summary: true, slot: anySlot{}}
	p.run.Role = thread.RoleCompact
	n := c.attempts + 1
	p.row = store.Attempt{
		ID: thread.AttemptID(c.row.ID, n), Thread: c.row.ID, From: c.row.Head, Role: thread.RoleCompact, N: n,
		Agent: w.Name, Instance: Instance(c.row, c.def, thread.RoleCompact), Status: store.AttemptRunning,
		Tag: tag(c.row.ID, n), StartedAt: now,
	}
	err := e.ask(keep, c, p, thread.Prompt{
		Contract: "Answer with the summary alone, as plain text or Markdown.",
		Role:     describe("summariser", summariser), Task: c.prompt, TaskNode: c.task, Parent: c.parent,
		Quota: c.def.Context.Tokens * summaryQuota, Steps: c.row.Steps,
		Route: "Summarise what happened so far. The task and what pinned roles said will be given beside your summary: do not repeat them.",
	})
	if err != nil {
		return store.Thread{}, p.fault(c, err)
	}
	attempts, events := p.begun(c.row)
	if err := e.cfg.Store.Commit(keep, store.Batch{Objects: []store.Object{p.object}, Attempts: attempts, Events: events}); err != nil {
		return store.Thread{}, fmt.Errorf("compact thread %s: %w", c.row.ID, err)
	}
	c.attempts, c.asked = n, p.prompt
	row, fail, err := e.attempt(ctx, c, p)
	if err == nil && fail != nil {
		err = fail
	}
	return row, err
}

// compacted commits a summary: the attempt becomes a __compact__ step.
func (e *Engine) compacted(ctx context.Context, c *cursor, p *prepared, desk Desk, result agent.Result) (store.Thread, error) {
	ctx = context.WithoutCancel(ctx)
	text := summaryOf(result)
	if text == "" {
		return store.Thread{}, &agent.Failure{Kind: agent.InvalidOutput, Message: "the summary is empty or not UTF-8 text"}
	}
	objects, err := e.logs(ctx, p, desk)
	if err != nil {
		return store.Thread{}, err
	}
	steps, bytes := 0, 0
	for s, err := range e.cfg.Reader.Walk(ctx, c.row.Head) {
		if err != nil {
			return store.Thread{}, err
		}
		said, err := e.cfg.Reader.Text(ctx, s.State.Content)
		if err != nil {
			return store.Thread{}, err
		}
		steps, bytes = steps+1, bytes+len(said)
	}
	p.row.Status, p.row.EndedAt = store.AttemptDone, e.now()
	p.row.Usage, p.row.Session, p.row.Turn = store.Usage(result.Usage), result.Session, result.Turn
	pins := p.row.Pins
	p.row.Pins = nil
	c.account.spent(p.row)
	from := c.row.Head
	row, err := e.change(ctx, c, func(row store.Thread) (thread.Change, store.Batch, error) {
		ch, err := thread.Append(row, c.tip, thread.Draft{
			Role: thread.RoleCompact, Meta: fmt.Appendf(nil, `{"bytes":%d,"steps":%d}`, bytes, steps),
			Text: text, Compact: true, Detail: detail(p, result), At: p.row.EndedAt,
		})
		b := store.Batch{
			Objects: append(ch.Objects, objects...), Unpin: unpin(p.row.ID, pins),
			Attempts: []store.AttemptChange{{Row: p.row, From: store.AttemptRunning}},
			Events: []store.Event{event.New(row, p.row.EndedAt, event.ThreadCompacted{
				Step: ch.Step.Hash, N: ch.Row.Steps, Steps: steps, Bytes: bytes, Agent: p.row.Agent,
			})},
		}
		return ch, b, err
	})
	if err != nil {
		return store.Thread{}, err
	}
	if row.Head == from {
		// Somebody else moved the thread on: the summary stands for something else.
		p.row.Pins = pins
		return e.superseded(ctx, c, p, objects, pins)
	}
	c.count(p.row, dag.Hash{})
	return row, nil
}

// summaryOf returns the text of a summary, "" when there is none that can be used.
// Front matter, which some agents cannot leave out, is cut off.
func summaryOf(result agent.Result) string {
	if result.Truncated || !utf8.Valid(result.Output) || len(result.Output) > headBytes {
		return ""
	}
	text := strings.TrimSpace(string(result.Output))
	if _, body, ok := cutFrontMatter(text); ok {
		text = strings.TrimSpace(body)
	}
	return text
}

// long tells whether the next prompt for role should stand on a summary: the
// conversation has come near its quota, the agent can write one, and it does not
// go on in a session that knows the conversation already.
func (e *Engine) long(c *cursor, role string) bool {
	if e.cfg.Full || c.unsummed || float64(thread.ApproxTokens(c.talk)) < compactAt*float64(c.def.Context.Tokens) {
		return false
	}
	w, err := e.cfg.Worker(c.row, role, c.def.Roles[role])
	if err != nil || !w.Summarises {
		return false
	}
	s, ok := c.sessions[role]
	_, continues := w.Agent.(agent.Continuer)
	return !ok || s.gone || s.foreign || !continues
}

// shorten summarises the conversation before an attempt at role. It reports false
// when no summary came of it: the work goes on without one.
func (e *Engine) shorten(ctx context.Context, c *cursor, role string) (row store.Thread, done bool, err error) {
	w, err := e.cfg.Worker(c.row, role, c.def.Roles[role])
	if err != nil {
		return store.Thread{}, false, err
	}
	row, err = e.compact(ctx, c, w)
	var fail *agent.Failure
	if errors.As(err, &fail) {
		c.unsummed = true // not again before every step
		return row, false, nil
	}
	return row, err == nil, err
}
