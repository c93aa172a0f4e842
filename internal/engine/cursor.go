package engine

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/plait-run/plait/internal/dag"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/thread"
)

// A cursor is what the engine remembers of a thread between steps. It is owned
// by the goroutine that drives the thread, and is rebuilt from the record when
// the head is not where it was left.
type cursor struct {
	row      store.Thread
	tip      thread.Tip
	prompt   string
	task     dag.Hash           // the content that has prompt
	asked    *thread.KeptPrompt // the last one of an agent, nil: none is known
	last     []flow.Step        // the last routed step and the inputs after it
	before   []flow.Step        // what led to the last routed step
	visits   map[string]int     // how often each role has run
	attempts int                // rows so far
	tries    []store.Attempt    // attempts at the step after head
	account  *account
	limits   flow.Limits
	terms    Approvals
	sessions map[string]session // by role: the one to go on in, or to branch off from
	past     map[string]session // by role: that of its last step in the chain
	gather   *gatherer          // what was seen of attempts whose answer could not be used
	ready    *prepared          // an attempt whose batch A has been committed
	stamp    int64              // when the head was made, Unix ms
	forked   int64              // the last event before its paths were made, zero: not known
	depth    int                // of the start
	caller   dag.Hash           // the caller's head, zero when nobody called
	parent   string             // what a prompt says of the caller
	talk     int                // bytes of the conversation since the last summary
	unsummed bool               // an agent could not summarise it
	def      *flow.Definition
	made     map[string]made // by path or role
	main     string          // the last role of the conversation that does not plan
	gathered dag.Hash        // the detail of the join of a plan's actions
}

// load returns the cursor of a thread at from, or the row alone when the thread
// is elsewhere by now.
func (e *Engine) load(ctx context.Context, id string, from dag.Hash) (*cursor, store.Thread, error) {
	e.mu.Lock()
	c := e.cursors[id]
	e.mu.Unlock()
	if c != nil && c.row.Head == from {
		return c, c.row, nil
	}
	row, err := e.cfg.Store.Thread(ctx, id)
	if err != nil {
		return nil, store.Thread{}, fmt.Errorf("read thread %s: %w", id, err)
	}
	if row.Head != from {
		return nil, row, nil
	}
	e.mu.Lock()
	if c = e.seeds[id]; c != nil {
		delete(e.seeds, id)
		if c.row.Head != from {
			c = nil
		}
	}
	e.mu.Unlock()
	if c != nil {
		c.row = row
	} else if c, err = e.build(ctx, row); err != nil {
		return nil, store.Thread{}, err
	}
	if c.account, err = e.account(ctx, row); err != nil {
		return nil, store.Thread{}, err
	}
	if c.limits, err = e.cfg.Limits(row, c.def); err != nil {
		return nil, store.Thread{}, err
	}
	if c.terms, err = e.cfg.Approvals(row); err != nil {
		return nil, store.Thread{}, err
	}
	e.mu.Lock()
	e.cursors[id] = c
	e.mu.Unlock()
	return c, row, nil
}

// seed keeps the cursor of a path that has just been made: it knows what its
// parent's knows, and nothing has to be read again.
func (e *Engine) seed(c *cursor, path store.Thread) {
	if action(path) != "" {
		return // it goes by another definition
	}
	n := *c
	n.row, n.attempts, n.tries, n.ready = path, 0, nil, nil
	n.visits, n.past, n.sessions = maps.Clone(c.visits), maps.Clone(c.past), maps.Clone(c.past)
	n.made = nil
	n.last, n.before = slices.Clip(c.last), slices.Clip(c.before)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.seeds[path.ID] = &n
}

// Forget drops what the engine remembers of a thread, so that the next step
// reads it anew. Drivers call it after changing a thread's row themselves.
func (e *Engine) Forget(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.cursors, id)
	delete(e.seeds, id)
}

// build reads everything a cursor holds.
func (e *Engine) build(ctx context.Context, row store.Thread) (*cursor, error) {
	fail := func(err error) (*cursor, error) { return nil, fmt.Errorf("read thread %s: %w", row.ID, err) }
	def, err := e.Definition(ctx, row)
	if err != nil {
		return fail(err)
	}
	c := &cursor{row: row, def: def, visits: make(map[string]int), sessions: make(map[string]session), past: make(map[string]session)}
	if c.tip, err = e.cfg.Reader.Tip(ctx, row.Head); err != nil {
		return fail(err)
	}
	start, err := e.cfg.Reader.Start(ctx, row.Start)
	if err != nil {
		return fail(err)
	}
	if c.prompt, err = e.cfg.Reader.Text(ctx, start.Prompt); err != nil {
		return fail(err)
	}
	c.task, c.depth = start.Prompt, start.Depth
	if c.caller = start.ParentState; !c.caller.IsZero() && def.Acts() == "" {
		if c.parent, err = e.cfg.Reader.Caller(ctx, c.caller); err != nil {
			return fail(err)
		}
	}
	steps, err := e.cfg.Reader.Steps(ctx, row.Head)
	if err != nil {
		return fail(err)
	}
	if c.stamp, err = e.stamp(ctx, row, steps); err != nil {
		return fail(err)
	}
	for _, s := range steps {
		step, err := e.flowStep(ctx, s)
		if err != nil {
			return fail(err)
		}
		if err := e.advance(ctx, c, s, step); err != nil {
			return fail(err)
		}
	}
	attempts, err := e.cfg.Store.Attempts(ctx, store.AttemptFilter{Thread: row.ID})
	if err != nil {
		return fail(err)
	}
	became := make(map[string]dag.Hash, len(steps)) // attempt → step, of this chain
	after := make(map[dag.Hash]dag.Hash, len(steps))
	for _, s := range steps {
		if len(s.State.Ancestors) > 0 {
			after[s.State.Ancestors[0]] = s.Hash
		} else {
			after[row.Start] = s.Hash
		}
	}
	for _, a := range attempts {
		if a.Status == store.AttemptDone {
			became[a.ID] = after[a.From]
		}
		c.count(a, became[a.ID])
	}
	if err := e.left(ctx, c, steps); err != nil {
		return fail(err)
	}
	c.inherit()
	if c.asked, err = e.lastAsked(ctx, steps); err != nil {
		return fail(err)
	}
	return c, nil
}

// lastAsked returns the prompt of the newest of steps that an agent did, nil when none did.
func (e *Engine) lastAsked(ctx context.Context, steps []thread.Step) (*thread.KeptPrompt, error) {
	for _, s := range slices.Backward(steps) {
		d, err := e.cfg.Reader.Detail(ctx, s.State.Detail)
		if err != nil {
			return nil, err
		}
		if d != nil && !d.Prompt.IsZero() {
			return e.cfg.Reader.KeptPrompt(ctx, d.Prompt)
		}
	}
	return nil, nil
}

// stamp returns when a thread's head was made, which goes into the ids of what is
// made from there. The start of a path is that of the thread it is a path of.
func (e *Engine) stamp(ctx context.Context, row store.Thread, steps []thread.Step) (int64, error) {
	if n := len(steps); n > 0 {
		return steps[n-1].State.Timestamp, nil
	}
	for row.Kind == store.KindPath {
		var err error
		if row, err = e.cfg.Store.Thread(ctx, row.Parent.Thread); err != nil {
			return 0, err
		}
	}
	return row.CreatedAt, nil
}

// advance moves the cursor's view of the conversation over one step.
func (e *Engine) advance(ctx context.Context, c *cursor, s thread.Step, step flow.Step) error {
	if !slices.Contains(c.def.Context.Pin, s.State.Role) {
		if c.talk += len(step.Body); !s.State.Compact.IsZero() {
			c.talk = len(step.Body)
		}
	}
	_, gate := c.def.Gates[s.State.Role]
	switch {
	case gate, s.State.Role == thread.RoleInput:
		c.last = append(c.last, step)
	case s.State.Role == thread.RoleJoin:
		planned, err := e.stepAt(ctx, s.State.Fork)
		if err != nil {
			return err
		}
		c.before, c.last = nil, []flow.Step{planned, step}
		c.gathered = s.State.Detail
	case thread.Routed(s.State.Role):
		if !c.suspended() {
			c.before = c.last
		}
		c.last = []flow.Step{step}
		if s.State.Paths == nil {
			c.visits[s.State.Role]++
			if !c.plans(step) {
				c.main = s.State.Role
			}
		}
	}
	return nil
}

// at is where the cursor's thread stands.
func (c *cursor) at() flow.At {
	at := flow.At{Flow: c.row.Flow, Prompt: c.prompt}
	if c.row.Path != nil && c.row.Kind != store.KindWorker {
		at.Path = c.row.Path.ID
	}
	return at
}

// suspended tells whether the last routed step waits for a person.
func (c *cursor) suspended() bool {
	return len(c.last) > 0 && c.last[0].Meta["$status"] == flow.Suspend
}

// where returns the directory inside the tree that a decision means. A suspended
// role that runs again stays where it was.
func (c *cursor) where(location string) string {
	if c.suspended() {
		switch first := flow.Next(c.def, c.at(), c.before).(type) {
		case flow.Run:
			return first.Location
		case flow.Call:
			return first.Location
		}
	}
	return location
}

// count takes note of an attempt as it is in the record, and of the step that it
// became, if it did.
func (c *cursor) count(a store.Attempt, step dag.Hash) {
	c.attempts = max(c.attempts, a.N)
	if a.From == c.row.Head && a.Status != store.AttemptDone && thread.Routed(a.Role) {
		c.tries = append(c.tries, a)
	}
	c.remember(a, step)
}
