package engine

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/dag"
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
	prompt  string
	session string        // to go on in
	from    *agent.Branch // to branch off from
	lost    dag.Hash      // what a lost session knew
	shaped  bool          // see agent.Request.Shaped
	summary bool          // the answer is a summary of the thread
	asks    *asker
	object  store.Object // the prompt
	uses    []thread.ContextUse
	earlier []store.Attempt
	try     int
	logged  int64  // bytes of the transcript
	before  string // git tree, "" when not known
	after   string
}

// run makes attempts at one step until one becomes the step, or nothing can go
// on without a person.
func (e *Engine) run(ctx context.Context, c *cursor, d flow.Run) (store.Thread, error) {
	var faults, corrections, timeouts int
	note, err := e.told(context.WithoutCancel(ctx), c)
	if err != nil {
		return store.Thread{}, err
	}
	for {
		if why := e.limit(c); why != nil {
			return e.block(ctx, c, *why)
		}
		release, err := e.slot(ctx, c, d.Role)
		if err != nil {
			return store.Thread{}, err
		}
		p := c.ready
		if p == nil && ctx.Err() == nil && e.long(c, d.Role) {
			row, done, err := e.shorten(ctx, c, d.Role)
			if err != nil || done {
				release()
				return row, err
			}
		}
		if c.ready = nil; p != nil {
			c.account.began()
		} else {
			if ctx.Err() != nil {
				release()
				return e.stopped(ctx, c)
			}
			if p, err = e.prepare(context.WithoutCancel(ctx), c, d, note); err != nil {
				release()
				return store.Thread{}, err
			}
			if ok, err := e.begin(ctx, c, p); err != nil || !ok {
				release()
				return c.row, err
			}
		}
		row, fail, err := e.attempt(ctx, c, p)
		release()
		if err != nil || fail == nil {
			return row, err
		}
		retry := p.role.Retry.Max
		wait := time.Duration(0)
		switch {
		case fail.Kind == agent.Cancelled:
			return e.stopped(ctx, c)
		case fail.Kind == agent.Limit:
			if why := e.limit(c); why != nil && why.Limit == "time" {
				return e.block(ctx, c, *why) // ours, not the vendor's
			}
			return e.block(ctx, c, store.Reason{Kind: "limit", Limit: "agent", Message: fail.Message, ResetAt: millis(fail.ResetAt)})
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
			return e.block(ctx, c, store.Reason{Kind: "attempts", Message: fmt.Sprintf("%s: %s", d.Role, fail.Error())})
		}
		note = ""
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return e.stopped(ctx, c)
		}
	}
}

// slot waits until an agent may be at work for role. When ctx ends first there is
// nothing to give back.
func (e *Engine) slot(ctx context.Context, c *cursor, role string) (release func(), err error) {
	if e.cfg.Slot == nil || ctx.Err() != nil {
		return func() {}, nil
	}
	release, err = e.cfg.Slot(ctx, c.row, c.def.Roles[role])
	if err != nil && ctx.Err() != nil {
		return func() {}, nil
	}
	return release, err
}

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

// limit returns why no further attempt may begin, or nil.
func (e *Engine) limit(c *cursor) *store.Reason {
	l := e.cfg.Limits(c.row, c.def)
	rounds := 0
	for _, n := range c.visits {
		rounds += n
	}
	if l.MaxRounds > 0 && rounds >= l.MaxRounds {
		return &store.Reason{Kind: "limit", Limit: "rounds", Message: fmt.Sprintf("%d of %d rounds used", rounds, l.MaxRounds)}
	}
	return c.account.over()
}

// prepare makes the next attempt ready: its row and its prompt. It writes
// nothing.
func (e *Engine) prepare(ctx context.Context, c *cursor, d flow.Run, note string) (*prepared, error) {
	role, ok := c.def.Roles[d.Role]
	if !ok {
		return nil, fmt.Errorf("thread %s: flow %s has no role %q", c.row.ID, c.row.Flow, d.Role)
	}
	w, err := e.cfg.Worker(c.row, d.Role, role)
	if err != nil {
		return nil, fmt.Errorf("thread %s: role %s: %w", c.row.ID, d.Role, err)
	}
	p := &prepared{run: d, role: role, worker: w, earlier: c.tries, try: len(c.tries) + 1}
	route := d.Prompt
	if note != "" {
		route += "\n\n" + note
	}
	ask := thread.Prompt{
		Contract: p.contracted(), Role: describe(d.Role, role), Task: c.prompt, Parent: c.parent, Route: route,
		Quota: c.def.Context.Tokens, Steps: c.row.Steps, Pin: c.def.Context.Pin, Full: e.cfg.Full,
	}
	n := c.attempts + 1
	p.row = store.Attempt{
		ID: thread.AttemptID(c.row.ID, n), Thread: c.row.ID, From: c.row.Head, Role: d.Role, N: n,
		Agent: w.Name, Instance: Instance(c.row, c.def, d.Role), Status: store.AttemptRunning,
		Tag: tag(c.row.ID, n), StartedAt: e.now(),
	}
	e.connect(c, p, &ask)
	p.row.Session = p.session
	if p.prompt, p.uses, err = e.cfg.Reader.Assemble(ctx, c.row.Head, ask); err != nil {
		return nil, p.fault(c, err)
	}
	p.uses = append(p.lossy(), p.uses...)
	if p.object, err = thread.NewContent(p.prompt, nil); err != nil {
		return nil, p.fault(c, err)
	}
	p.row.Prompt = p.object.Hash
	return p, nil
}

// tag marks the processes of an attempt.
func tag(id string, n int) string {
	return thread.AttemptID(id, n) + "-" + strings.ToLower(rand.Text()[:8])
}

// Instance returns the instance name of a role in a thread, unique in its task:
// [a-z0-9][a-z0-9-]{0,62}. Roles of one flow whose names come out the same are
// numbered in name order. In a path or child the name says which path, and ends
// with the last characters of the thread's id.
func Instance(row store.Thread, def *flow.Definition, role string) string {
	taken := map[string]bool{}
	own := ""
	for _, other := range slices.Sorted(maps.Keys(def.Roles)) {
		name := slug(other)
		for n := 2; taken[name]; n++ {
			name = suffixed(slug(other), fmt.Sprintf("-%d", n))
		}
		if own = name; other == role {
			break
		}
		taken[name] = true
		own = slug(role)
	}
	if taken[own] {
		own = suffixed(own, "-2") // a reserved role whose name a flow's role has
	}
	if row.Kind == store.KindRoot || row.Kind == "" {
		return own
	}
	tail := "-" + strings.ToLower(row.ID[max(len(row.ID)-6, 0):])
	if row.Path != nil {
		path := slug(row.Path.ID)
		tail = "-" + path[:min(len(path), 24)] + tail
	}
	return suffixed(own, tail)
}

// suffixed returns name with a suffix, no longer than an instance name may be.
func suffixed(name, suffix string) string {
	return strings.TrimRight(name[:min(len(name), 63-len(suffix))], "-") + suffix
}

func slug(role string) string {
	var b strings.Builder
	for _, c := range strings.ToLower(role) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			c = '-'
		}
		b.WriteRune(c)
	}
	name := strings.Trim(b.String(), "-")
	if name == "" {
		name = "role"
	}
	return name[:min(len(name), 63)]
}

// begun returns what batch A writes beside the thread's row.
func (p *prepared) begun(row store.Thread) ([]store.AttemptChange, []store.Event) {
	var events []store.Event
	at := func(typ string, payload any) {
		ev := event(row, p.row.StartedAt, typ, payload)
		ev.Instance, ev.Attempt = p.row.Instance, p.row.ID
		events = append(events, ev)
	}
	if p.try == 1 {
		at("agent.started", map[string]any{"role": p.row.Role, "agent": p.row.Agent})
	}
	at("attempt.started", map[string]any{"role": p.row.Role, "agent": p.row.Agent, "from": p.row.From, "try": p.try})
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
	c.attempts = p.row.N
	c.account.began()
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
	if err := errors.Join(e.lend(context.WithoutCancel(ctx), desk, p.uses), e.lendParents(context.WithoutCancel(ctx), c, desk)); err != nil {
		return store.Thread{}, nil, err
	}
	if p.before, err = e.snapshot(ctx, c.row, p.role, TreeBefore(p.row.N)); err != nil {
		return store.Thread{}, nil, err
	}
	req, total := e.request(c, p, desk.Agent())
	news := e.report(c.row, p.row)
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
	result, err := p.worker.Agent.Run(ctx, req, news.emit)
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
			row, err := e.step(ctx, c, p, desk, result, answer)
			return row, nil, err
		}
		fail = ask
		fail.Session, fail.Exit, fail.Usage = result.Session, result.Exit, result.Usage
	}
	row, err := e.stop(ctx, c, p, desk, fail)
	return row, fail, err
}

// TreeBefore names the snapshot of the working tree before a thread's n-th attempt.
func TreeBefore(n int) string { return fmt.Sprintf("attempt-%d", n) }

// snapshot returns the working tree as it is, when role may change it.
func (e *Engine) snapshot(ctx context.Context, row store.Thread, role flow.Role, name string) (string, error) {
	if e.cfg.Snapshot == nil || role.Access != flow.Write && role.Access != flow.Full {
		return "", nil
	}
	return e.cfg.Snapshot(context.WithoutCancel(ctx), row, name)
}

// request is what the agent is asked. total tells that the time it has is what
// is left of the thread's.
func (e *Engine) request(c *cursor, p *prepared, desk agent.Desk) (req agent.Request, total bool) {
	timeout := time.Duration(p.role.Timeout)
	if left := c.account.left(); left > 0 && (timeout == 0 || left < timeout) {
		timeout, total = left, true
	}
	tree := c.row.Tree
	if tree == "" {
		tree = c.row.Workspace
	}
	env := []string{
		"PLAIT_TASK=" + c.row.Task, "PLAIT_THREAD=" + c.row.ID, "PLAIT_ROLE=" + p.row.Role, "PLAIT_ATTEMPT=" + p.row.ID,
		"PLAIT_PARENT_STATE=" + c.parentState(), "PLAIT_ARTIFACTS=" + desk.Artifacts, "PLAIT_CONTEXT=" + desk.Context, "PLAIT_BIN=" + e.cfg.Bin,
	}
	req = agent.Request{
		Task: c.row.Task, Thread: c.row.ID, Role: p.row.Role, Instance: p.row.Instance, Attempt: p.row.ID,
		Visit: c.visits[p.row.Role], Try: p.try,
		Prompt: p.prompt, Dir: filepath.Join(tree, filepath.FromSlash(p.run.Location)), Access: agent.Access(p.role.Access),
		Schema: p.role.Frontmatter, Session: p.session, From: p.from, Shaped: p.shaped, Home: e.cfg.Home(c.row.Task),
		Desk: desk, Tag: p.row.Tag, Timeout: timeout, Idle: p.worker.Idle, Env: env,
	}
	if terms := e.cfg.Approvals(c.row); terms.Policy != ApproveNever {
		p.asks = &asker{e: e, row: c.row, a: p.row, terms: terms}
		req.Ask = p.asks.ask
	}
	return req, total
}
