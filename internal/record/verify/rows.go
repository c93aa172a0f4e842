package verify

import (
	"context"
	"fmt"
	"slices"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// rows are the rows of a store that name objects.
type rows struct {
	threads  []store.Thread
	attempts []store.Attempt
	gates    []store.Gate
	requests []store.Request
	flows    []store.Flow
	live     map[string]bool // threads that existed at the beginning, by id; nil: not read
	complete bool            // every task here has all its rows here
	answers  bool            // every thread here has all its gates here
	proofs   proofs
	all      bool // every row that proofs are about is here
}

// readRows reads every row that can be read.
func (c *check) readRows(ctx context.Context) (r rows, err error) {
	had := len(c.problems)
	early, err := c.cfg.Store.Threads(ctx, store.ThreadFilter{})
	if err := c.unreadable(ctx, "threads", err); err != nil {
		return r, err
	}
	proven, err := c.beginProofs(ctx)
	if err := c.unreadable(ctx, "events", err); err != nil {
		return r, err
	}
	r.live = make(map[string]bool, len(early))
	for _, t := range early {
		r.live[t.ID] = true
	}
	r.attempts, err = c.cfg.Store.Attempts(ctx, store.AttemptFilter{})
	if err := c.unreadable(ctx, "attempts", err); err != nil {
		return r, err
	}
	r.flows, err = c.cfg.Store.Flows(ctx)
	if err := c.unreadable(ctx, "flows", err); err != nil {
		return r, err
	}
	r.threads, err = c.cfg.Store.Threads(ctx, store.ThreadFilter{})
	r.complete = err == nil
	if err := c.unreadable(ctx, "threads", err); err != nil {
		return r, err
	}
	// Last, so that what was answered before a step of these threads is there.
	r.gates, err = c.cfg.Store.Gates(ctx, store.GateFilter{})
	r.answers = err == nil
	if err := c.unreadable(ctx, "gates", err); err != nil {
		return r, err
	}
	r.requests, err = c.cfg.Store.Requests(ctx, store.RequestFilter{})
	if err := c.unreadable(ctx, "requests", err); err != nil {
		return r, err
	}
	err = proven.read(ctx, c.cfg.Store, "")
	if err == nil {
		var log store.Log
		log, err = c.cfg.Store.Log(ctx)
		proven.whole[""] = log.Since == 0
	}
	if err == nil {
		r.proofs, r.all = proven, len(c.problems) == had
	}
	return r, c.unreadable(ctx, "events", err)
}

// roots returns every object that the rows name.
func (r rows) roots() []root {
	var out []root
	add := func(id string, names []store.Name) {
		for _, n := range names {
			if !n.Maybe {
				out = append(out, root{n.Hash, n.What, id})
			}
		}
	}
	for _, t := range r.threads {
		add(t.ID, t.Names())
	}
	for _, a := range r.attempts {
		add(a.ID, a.Names())
	}
	for _, g := range r.gates {
		add(g.ID, g.Names())
	}
	for _, f := range r.flows {
		add(f.Name, f.Names())
	}
	return out
}

// followers returns the states after h, and the states after inputs and summaries there: what an agent was told while
// it worked precedes its step.
func (k *threadIndex) followers(h dag.Hash) []*object {
	out := slices.Clone(k.following[h])
	for i := 0; i < len(out); i++ {
		if role := out[i].state.Role; role == thread.RoleInput || role == thread.RoleCompact {
			out = append(out, k.following[out[i].hash]...)
		}
	}
	return out
}

// checkRows compares the rows with the objects they name.
func (c *check) checkRows(ctx context.Context, r rows) error {
	for _, t := range r.threads {
		c.checkRow(t)
	}
	c.checkProofs(r)
	k := c.index(r)
	if err := k.checkThreads(ctx); err != nil {
		return err
	}
	if err := k.checkAnswers(ctx); err != nil {
		return err
	}
	for _, a := range r.attempts {
		if _, known := k.byID[a.Thread]; !known {
			c.wrong(dag.Hash{}, "attempt %s: there is no thread %s", a.ID, a.Thread)
		}
		if a.Status == store.AttemptDone && !c.hasOutcome(a, k.followers(a.From)) {
			c.absent(a.From, "attempt %s is done, but produced no %s step after this one", a.ID, a.Role)
		}
	}
	return ctx.Err()
}

// hasOutcome reports whether one of steps, which follow the head at which the attempt was
// made, is the attempt's outcome.
func (c *check) hasOutcome(a store.Attempt, steps []*object) bool {
	for _, o := range steps {
		if o.state.Role != a.Role {
			continue
		}
		d, ok := c.sound(o.state.Detail)
		if !ok || d.detail != nil && d.detail.Attempt == a.ID {
			return true // without a detail, only the role can be compared
		}
	}
	return false
}

// checkRow compares a thread's row with its chain.
func (c *check) checkRow(t store.Thread) {
	wrong := func(format string, args ...any) {
		c.wrong(t.Head, "thread %s: %s", t.ID, fmt.Sprintf(format, args...))
	}
	if t.Head.IsZero() || t.Start.IsZero() {
		wrong("its row names no head or no start")
		return
	}
	start, startOK := c.sound(t.Start)
	if startOK {
		switch {
		case start.start == nil:
			wrong("its start %s is a %s", t.Start, start.kindName())
			startOK = false
		case start.start.Hash != t.Bundle:
			wrong("its row names the bundle %s, its start %s", t.Bundle, start.start.Hash)
		case start.start.Name != t.Flow:
			wrong("its row names the flow %q, its start %q", t.Flow, start.start.Name)
		}
	}
	if startOK && t.Parent != nil && (t.Kind == store.KindCall || t.Kind == store.KindWorker) &&
		t.Parent.From != start.start.ParentState {
		wrong("its row says that %s called it, its start has the parentState %s", t.Parent.From, start.start.ParentState)
	}
	if !t.Files.IsZero() {
		if f, ok := c.sound(t.Files); ok && f.typ != dag.TypeTree {
			wrong("its files %s are a %s", t.Files, f.kindName())
		}
	}
	head, ok := c.sound(t.Head)
	if !ok {
		return
	}
	switch {
	case head.state == nil && head.start == nil:
		wrong("its head is a %s", head.kindName())
		return
	case head.start != nil && t.Head != t.Start:
		wrong("its head is the start of another thread")
		return
	case head.state != nil && head.state.Start != t.Start:
		wrong("its head belongs to the start %s, its row names %s", head.state.Start, t.Start)
	}
	if t.ForkedFrom != nil && !c.mayPassThrough(t.Head, t.ForkedFrom.Step, false) {
		wrong("its chain does not go through %s, where it was forked", t.ForkedFrom.Step)
	}
	if t.Path != nil && !c.mayPassThrough(t.Head, t.Path.Fork, t.Kind == store.KindWorker) {
		wrong("its chain does not go through its fork %s", t.Path.Fork)
	}
	if head.chain.steps >= 0 && t.Steps != int(head.chain.steps) {
		wrong("its row counts %d steps, its chain has %d", t.Steps, head.chain.steps)
	}
	c.checkEnding(t, head, wrong)
}

// checkEnding compares a row's status with its last step.
func (c *check) checkEnding(t store.Thread, head *object, wrong func(string, ...any)) {
	ended := head.state != nil && head.state.Role == thread.RoleEnd
	switch {
	case t.Kind == store.KindPath:
		if ended {
			wrong("it is a path and has an end of its own")
		}
	case ended != t.Ended():
		if ended {
			wrong("its row is %s, but its chain has ended", t.Status)
		} else {
			wrong("its row is %s, but its chain has no end", t.Status)
		}
	case ended:
		if end, ok := endOf(head.state); ok && t.Status != thread.EndStatus(end.Code) {
			wrong("its row is %s, but its end has return code %d", t.Status, end.Code)
		}
	}
}
