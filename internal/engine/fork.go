package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/plait-run/plait/internal/files/worktree"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// A forkState is the state of a fork whose thread waits for the join.
type forkState struct {
	flow.Fork
	threads  []store.Thread      // the newest thread of each path, in the fork's order
	states   []flow.PathState    // of the paths, ordered by the journal
	after    map[string][]string // by action id: the actions it waits for
	since    int64               // when the paths were made, Unix ms
	left     time.Duration       // time left before the join's timeout, if it has one
	outcome  flow.Resolution     // of an undecided join: what its rule gives now
	then     *thread.Verdict     // of a replay: how the join was decided, nil if that is not recorded
	decision *Decision           // nil until the join is decided
	files    bool                // paths have working trees of their own, which have to be merged
}

// ended reports whether all paths have ended.
func (f *forkState) ended() bool {
	return !slices.ContainsFunc(f.threads, func(p store.Thread) bool { return !p.Ended() })
}

// resolve decides the join by its rule. In a replay it waits for all paths, and if they end as they did, the join is
// decided as it was.
func (f *forkState) resolve(late bool) flow.Resolution {
	if f.then != nil && !f.ended() {
		return flow.Resolution{}
	}
	differs := func(p store.Thread) bool { return f.then.Paths[p.Path.ID] != p.Status }
	if f.then == nil || slices.ContainsFunc(f.threads, differs) {
		return flow.Resolve(f.Rule, f.states, late)
	}
	return flow.Resolution{Outcome: f.then.Outcome, DecidedBy: f.then.DecidedBy}
}

// cancelsLosers reports whether the join is decided and does not wait for the paths that still run.
func (f *forkState) cancelsLosers() bool {
	return f.decision != nil && (f.Rule.Losers != flow.WaitForLosers || f.decision.Outcome == flow.TimedOut)
}

// A Decision is the outcome of a join. The parent's row holds it until the join's step is committed.
type Decision struct {
	Join      string `json:"join"`
	Outcome   string `json:"outcome"`
	DecidedBy string `json:"decidedBy"`
	// Merge is how the files that the paths changed are merged, nil until known.
	Merge *thread.Merge `json:"merge,omitempty"`
}

// kept says, by thread, what the worktrees have that stay when the paths are joined.
func (f *forkState) kept() map[string]string {
	if f.decision.Merge == nil {
		return nil
	}
	kept := map[string]string{}
	for _, k := range f.decision.Merge.Kept {
		for _, p := range f.threads {
			if p.Path.ID == k.Path {
				kept[p.ID] = event.Brief(k.Holds())
			}
		}
	}
	return kept
}

// decision reads the decision in a row, nil if there is none.
func decision(row store.Thread) (*Decision, error) {
	if len(row.Decision) == 0 || string(row.Decision) == "null" {
		return nil, nil
	}
	d := new(Decision)
	if err := json.Unmarshal(row.Decision, d); err != nil {
		return nil, fmt.Errorf("thread %s: decision: %w", row.ID, err)
	}
	return d, nil
}

// fork makes the paths of a fork, once, and joins them when all have ended.
func (e *Engine) fork(ctx context.Context, c *threadState, d flow.Fork) (StepResult, error) {
	bg := context.WithoutCancel(ctx)
	f, made, err := e.paths(bg, c, d)
	switch {
	case err != nil:
		return StepResult{Thread: c.Row}, err
	case made && f.decision != nil && f.ended():
		return at(e.joinFiles(bg, c, f))
	case made && c.Row.Status == store.Pending:
		err = e.setRunning(bg, c, started) // its paths were adopted when it was forked
		return StepResult{Thread: c.Row, Waits: true}, err
	case made:
		return StepResult{Thread: c.Row, Waits: true}, nil
	case ctx.Err() != nil:
		return at(e.stopped(ctx, c))
	}
	if why, err := e.planLimit(bg, c, d); err != nil || why != nil {
		if err != nil {
			return StepResult{}, err
		}
		return at(e.block(ctx, c, *why))
	}
	if why, err := e.missingPrograms(bg, c, d); err != nil || why != "" {
		if err != nil {
			return StepResult{}, err
		}
		return at(e.block(ctx, c, store.Reason{Kind: store.ReasonAttempts, Message: why, Failure: store.FailureInfra}))
	}
	var paths []store.Thread
	moved, err := e.advance(bg, c, func(row store.Thread) (*threadState, store.Batch, error) {
		now := e.now()
		batch := store.Batch{Events: started(row, now)}
		var names, ids []string
		paths = nil
		for _, p := range d.Paths {
			objects, path, err := e.path(bg, c, d, store.Path{ID: p.ID, N: 1}, now)
			if err != nil {
				return nil, batch, err
			}
			batch.Objects = append(batch.Objects, objects...)
			paths = append(paths, path)
			names, ids = append(names, p.ID), append(ids, path.ID)
			batch.Threads = append(batch.Threads, store.ThreadChange{Row: path})
		}
		row.Status, row.UpdatedAt, row.InFlight = store.Running, now, ""
		batch.Events = append(batch.Events, event.New(row, now, event.ThreadForked{
			Fork: d.Node, Join: d.Join, Head: row.Head, Paths: names, Threads: ids,
		}))
		batch.Events = append(batch.Events, event.Phase(row, d.Plan != nil, now, event.Monitoring)...)
		return c.with(row), batch, nil
	})
	if err != nil || !moved {
		return StepResult{Thread: c.Row}, err
	}
	for _, p := range paths {
		e.seedPath(c, p)
	}
	return StepResult{Thread: c.Row, Waits: true}, nil
}

// planLimit returns why the actions of a plan may not begin, or nil.
func (e *Engine) planLimit(ctx context.Context, c *threadState, d flow.Fork) (*store.Reason, error) {
	if d.Plan == nil {
		return nil, nil
	}
	if err := e.readAccount(ctx, c); err != nil {
		return nil, err
	}
	if why := cmp.Or(c.account.exhausted(e.now()), c.account.tooDeep()); why != nil {
		return why, nil
	}
	over, err := e.attempts.TaskActions(ctx, c.Row.Task, d.Plan, c.Limits.MaxTaskActions)
	if err != nil || over == "" {
		return nil, err
	}
	return &store.Reason{Kind: store.ReasonLimit, Limit: "actions", Message: over,
		Raise: fmt.Sprintf("maxTaskActions=%d", 2*(c.Limits.MaxTaskActions+len(d.Plan.Actions)))}, nil
}

// paths reads the paths of a fork and their states; made is false when there are none yet.
func (e *Engine) paths(ctx context.Context, c *threadState, d flow.Fork) (f *forkState, made bool, err error) {
	f = &forkState{Fork: d}
	if d.Plan != nil {
		f.after = d.Plan.After()
	}
	if f.decision, err = decision(c.Row); err != nil {
		return nil, false, err
	}
	names := make([]string, len(d.Paths))
	for i, p := range d.Paths {
		names[i] = p.ID
	}
	newest, err := e.newest(ctx, c, names)
	if err != nil {
		return nil, false, err
	}
	for _, p := range newest {
		if p.n == 0 {
			return f, false, nil
		}
		f.threads = append(f.threads, p.row)
		f.since = max(f.since, p.row.CreatedAt)
	}
	if f.decision != nil {
		continues := f.decision.Outcome == flow.Joined || f.Plan == nil || f.Plan.Replans()
		f.files = continues && slices.ContainsFunc(f.threads, worktree.Own)
	}
	if f.states, err = e.pathStates(ctx, c, f.threads); err != nil {
		return nil, false, err
	}
	return f, true, nil
}

// newest returns the newest thread made at a thread's head for each name, and how many were made: what did not
// complete continues in another thread. The names are ids of paths, or the role of a call. All rows are from
// one moment, so that none of them misses an end that came before another that is seen.
func (e *Engine) newest(ctx context.Context, c *threadState, names []string) ([]spawned, error) {
	found := make([]spawned, len(names))
	var look []int
	var ids []string
	id := func(i, n int) string { return thread.DerivedID(c.Stamp, c.Row.ID, c.Row.Head, names[i], n) }
	for i, name := range names {
		if known := c.spawned[name]; known.from == c.Row.Head && known.n > 0 {
			if found[i] = known; !known.row.Ended() {
				ids = append(ids, known.row.ID)
			}
		}
		look = append(look, i)
		ids = append(ids, id(i, found[i].n+1), id(i, found[i].n+2))
	}
	rows := map[string]store.Thread{}
	rounds := 0
	for ; len(ids) > 0; rounds++ {
		read, err := e.cfg.Store.Threads(ctx, store.ThreadFilter{IDs: ids})
		if err != nil {
			return nil, fmt.Errorf("read what thread %s waits for: %w", c.Row.ID, err)
		}
		for _, row := range read {
			rows[row.ID] = row
		}
		ids = nil
		for _, i := range look {
			for {
				n := found[i].n + 1
				row, ok := rows[id(i, n)]
				if !ok {
					break
				}
				found[i] = spawned{c.Row.Head, n, row}
				if n%2 == 0 {
					ids = append(ids, id(i, n+1), id(i, n+2))
				}
			}
		}
	}
	if c.spawned == nil {
		c.spawned = make(map[string]spawned)
	}
	for i, name := range names {
		if known := &found[i]; known.n > 0 && !known.row.Ended() {
			row, ok := rows[known.row.ID]
			if !ok {
				return nil, fmt.Errorf("read thread %s: %w", known.row.ID, store.ErrNotFound)
			}
			known.row = row
		}
		c.spawned[name] = found[i]
	}
	if rounds > 1 {
		return e.newest(ctx, c, names) // all are known by now
	}
	return found, nil
}

// spawned is what was made at a head for a path or a call: how many threads, and the last of them.
type spawned struct {
	from dag.Hash
	n    int
	row  store.Thread
}

// pathStates returns the paths as a join's rule sees them, ordered by their ends in the journal.
func (e *Engine) pathStates(ctx context.Context, c *threadState, paths []store.Thread) ([]flow.PathState, error) {
	states := make([]flow.PathState, len(paths))
	for i, p := range paths {
		states[i] = flow.PathState{ID: p.Path.ID, Status: string(p.Status), Ended: math.MaxInt64}
		if !p.Ended() {
			continue
		}
		e.mu.Lock()
		end, known := e.ended[p.ID]
		e.mu.Unlock()
		if !known {
			events, err := e.cfg.Store.Events(ctx, 0, store.EventFilter{
				Task: c.Row.Task, Thread: p.ID, Types: event.Types(event.ThreadEnded{}), Newest: true, Limit: 1,
			})
			if err != nil {
				return nil, fmt.Errorf("read the ends of paths of thread %s: %w", c.Row.ID, err)
			}
			if len(events) > 0 {
				end = events[0].Pos
			}
			e.mu.Lock()
			e.ended[p.ID] = end
			e.mu.Unlock()
		}
		states[i].Ended = end
	}
	return states, nil
}

// RetryPaths makes a thread whose join could not be met wait once more: each path that has not completed
// continues in a successor, from where it was.
func (e *Engine) RetryPaths(ctx context.Context, id string, from dag.Hash) error {
	c, _, err := e.load(ctx, id, from)
	if err != nil || c == nil {
		return err
	}
	d, ok := c.Next().(flow.Fork)
	if !ok {
		return fmt.Errorf("thread %s is at no fork: %w", id, store.ErrConflict)
	}
	f, _, err := e.paths(ctx, c, d)
	if err != nil {
		return err
	}
	_, err = e.advance(ctx, c, func(row store.Thread) (*threadState, store.Batch, error) {
		now := e.now()
		batch := store.Batch{Events: resumed(row, now)}
		for _, p := range f.threads {
			if p.Status == store.Completed {
				continue
			}
			objects, next, err := e.path(ctx, c, d, store.Path{ID: p.Path.ID, N: p.Path.N + 1}, now)
			if err != nil {
				return nil, batch, err
			}
			if d.Plan == nil { // an action starts over: the last thing it did was fail
				next.Head, next.Steps = p.Head, p.Steps
			}
			batch.Objects = append(batch.Objects, objects...)
			batch.Threads = append(batch.Threads, store.ThreadChange{Row: next})
		}
		row.Status, row.Reason, row.Decision, row.UpdatedAt = store.Running, nil, nil, now
		return c.with(row), batch, nil
	})
	e.forget(id)
	return err
}
