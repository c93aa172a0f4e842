package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/engine"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/testing/housetest"
	"github.com/plait-run/plait/internal/testing/mem"
	"github.com/plait-run/plait/internal/testing/storetest"
)

// A crash strikes once, at the n-th operation or the n-th start of an agent.
type crash struct {
	// fault: one operation fails; kill: and all after it; stop: the process is asked to stop; request: the task is
	// cancelled
	Kind string
	Op   mem.Op // "": the start of an agent
	When mem.When
	N    int
}

// A world is a store, the agents of a program, and processes that drive it one
// after the other.
type world struct {
	program program
	oracle  *oracle
	nodes   map[string]*node // by role
	index   map[string]int   // key → turn
	dir     string
	empty   *os.Root   // an empty directory
	disk    *mem.Store // of the living process
	log     storetest.Witness

	mu      sync.Mutex
	crash   *crash // nil: none to come
	stop    func() // interrupts the process
	request func() // requests that the task be cancelled
	killed  bool
	pos     map[string]string // thread → pos
	length  map[dag.Hash]int  // head → steps
	from    map[string]string // attempt → key
	over    map[string]bool   // what has happened, see turn
	next    int               // the turn it is
	news    chan struct{}     // closed when next changes
	tries   map[string]int    // by key
	said    map[string][]byte // by attempt
	stalled bool
}

func newWorld(p program, o *oracle, dir string, empty *os.Root) *world {
	w := &world{
		program: p, oracle: o, nodes: map[string]*node{}, index: map[string]int{}, dir: dir, empty: empty,
		disk: mem.New(mem.Config{Proven: true}),
		pos:  map[string]string{}, length: map[dag.Hash]int{}, from: map[string]string{}, over: map[string]bool{},
		news: make(chan struct{}), tries: map[string]int{}, said: map[string][]byte{},
	}
	for i, t := range o.turns {
		w.index[t.key] = i
	}
	var add func(block []*node)
	add = func(block []*node) {
		for _, n := range block {
			w.nodes[n.name] = n
			if n.fork != nil {
				for _, path := range n.fork.paths {
					add(path)
				}
			}
		}
	}
	for _, f := range p {
		add(f.body)
	}
	return w
}

// controller returns a controller like a new process's on the disk.
func (w *world) controller(s store.Store) *Controller {
	return New(Config{
		Store: s, Backoff: time.Microsecond, Now: func() time.Time { return time.UnixMilli(1_700_000_000_000) },
		Settings: housetest.Settings("scripted"),
		Agent:    func(string, flow.Agent, AgentOptions) (agent.Agent, error) { return scripted(w.agent), nil },
	})
}

// begin writes the task; nothing fails yet.
func (w *world) begin(ctx context.Context) error {
	b, err := w.program.bundle()
	if err != nil {
		return err
	}
	_, err = w.controller(process{w.disk, w}).Begin(ctx, Spec{Bundle: b, Prompt: "do it", Workspace: w.dir, ID: rootID})
	return err
}

var errStalled = errors.New("the task stalls")

// drive lets one process drive the task while c, if any, strikes. The next process
// finds what it left.
func (w *world) drive(ctx context.Context, c *crash) (row store.Thread, struck bool, err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var requesting sync.WaitGroup
	w.mu.Lock()
	w.stop, w.killed = stop, false
	if c != nil {
		own := *c
		w.crash = &own
	}
	disk := w.disk
	w.request = func() {
		requesting.Go(func() { w.controller(disk).Cancel(context.Background(), rootID) }) // the process continues
	}
	w.mu.Unlock()
	watchdog := time.AfterFunc(2*time.Minute, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.stalled = true
		stop()
	})
	row, err = w.process(ctx, w.controller(process{w.disk, w}))
	requesting.Wait()
	watchdog.Stop()
	w.mu.Lock()
	defer w.mu.Unlock()
	struck = c != nil && w.crash == nil
	w.crash = nil
	if !w.killed {
		w.disk = w.disk.Reopen()
	}
	if w.stalled {
		err = fmt.Errorf("%w at turn %d of %v; over: %v", errStalled, w.next, w.oracle.turns,
			slices.Sorted(maps.Keys(w.over)))
	}
	return row, struck, err
}

// process is [Controller.Drive] with desks that keep nothing: a model that writes files
// would be a model of the disk.
func (w *world) process(ctx context.Context, c *Controller) (store.Thread, error) {
	row, err := c.cfg.Store.Thread(ctx, rootID)
	if err != nil || row.Ended() {
		return row, err
	}
	lease, err := c.cfg.Store.Acquire(ctx, rootID)
	if err != nil {
		return row, err
	}
	defer lease.Release()
	cfg := c.engineConfig(false)
	cfg.Desks = loggedDesks{housetest.BareDesks{Empty: w.empty}, w}
	if err := c.ask(ctx, row, Resume{Again: true}); err != nil {
		return row, err
	}
	return engine.New(cfg).Run(ctx, rootID)
}

// strike makes the crash happen when it is due.
func (w *world) strike(disk *mem.Store, op mem.Op, when mem.When) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.crash
	if c == nil || c.Op != op || c.When != when || w.killed {
		return nil
	}
	if c.N--; c.N > 0 {
		return nil
	}
	w.crash = nil
	switch c.Kind {
	case "stop":
		w.stop()
		return nil
	case "wish":
		w.request()
		return nil
	case "kill":
		w.killed = true
		w.disk = disk.Reopen()
		w.stop() // so that the rest of the process is gone soon
	}
	return errBroken
}

// seen records what was committed.
func (w *world) seen(b store.Batch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range b.Threads {
		row := t.Row
		if _, ok := w.pos[row.ID]; !ok {
			switch {
			case row.Parent == nil:
				w.pos[row.ID] = ""
			case row.Path != nil:
				w.pos[row.ID] = below0(w.pos[row.Parent.Thread], w.length[row.Parent.From], row.Path.ID)
			default:
				w.pos[row.ID] = below0(w.pos[row.Parent.Thread], w.length[row.Parent.From], "call")
			}
		}
		w.length[row.Head] = row.Steps
		w.over[growth(w.pos[row.ID], row.Steps)] = true
		switch {
		case row.Status == store.Completed, row.Status == store.Failed:
			w.over[w.pos[row.ID]] = true
		case row.Status == store.Blocked && row.Reason.Kind == "attempts":
			w.over[w.pos[row.ID]+"!"] = true
		}
	}
	for _, a := range b.Attempts {
		w.from[a.Row.ID] = keyOf(w.pos[a.Row.Thread], w.length[a.Row.From])
	}
	was := w.next
	for w.next < len(w.oracle.turns) && w.past(w.oracle.turns[w.next]) {
		w.next++
	}
	if w.next != was {
		close(w.news)
		w.news = make(chan struct{})
	}
}

func (w *world) past(t turn) bool {
	return !slices.ContainsFunc(t.ends, func(pos string) bool { return !w.over[pos] })
}

// agent does what its role's node says, when it is its turn. One whose turn never comes
// works until it is stopped.
func (w *world) agent(ctx context.Context, req agent.Request, _ func(agent.Event) error) (agent.Result, error) {
	w.strike(nil, "", mem.Before)
	stopped := &agent.Failure{Kind: agent.Cancelled, Message: "stopped"}
	w.mu.Lock()
	key := w.from[req.Attempt]
	turn, ok := w.index[key]
	for {
		now, news := w.next, w.news
		w.mu.Unlock()
		if ctx.Err() != nil {
			return agent.Result{}, stopped
		}
		if ok && turn <= now {
			break
		}
		select {
		case <-ctx.Done():
		case <-news:
		}
		w.mu.Lock()
	}
	w.mu.Lock()
	w.tries[key]++
	first := w.tries[key] == 1
	w.mu.Unlock()
	_, steps, _ := strings.Cut(key, "#")
	length := 0
	fmt.Sscan(steps, &length)
	says := w.nodes[req.Role].said(length)
	switch says {
	case saysRefuse:
		return agent.Result{}, &agent.Failure{Kind: agent.Refused, Message: "no"}
	case saysFault, saysMess:
		if first && says == saysFault {
			return agent.Result{}, &agent.Failure{Kind: agent.Infra, Message: "out of order"}
		}
		if first {
			return agent.Result{Output: []byte("---\nno status: here\n---\n")}, nil
		}
		says = saysDone
	}
	_, heard, _ := strings.Cut(req.Prompt[max(strings.LastIndex(req.Prompt, "HEARD"), 0):], " ")
	heard, _, _ = strings.Cut(heard, "\n")
	out := fmt.Appendf(nil, "---\n$status: %s\nkey: %q\n---\nI heard %s.", says, key, heard)
	w.mu.Lock()
	w.said[req.Attempt] = out
	w.mu.Unlock()
	return agent.Result{Output: out, Usage: agent.Usage{InputTokens: 3}}, nil
}

// A process is the store as one process has it.
type process struct {
	*mem.Store
	w *world
}

func (p process) around(op mem.Op, do func() error) error {
	if err := p.w.strike(p.Store, op, mem.Before); err != nil {
		return err
	}
	if err := do(); err != nil {
		return err
	}
	return p.w.strike(p.Store, op, mem.After)
}

func (p process) Commit(ctx context.Context, b store.Batch) error {
	return p.around(mem.OpCommit, func() error {
		err := p.Store.Commit(ctx, b)
		if err == nil {
			p.w.seen(b)
		}
		return err
	})
}

func (p process) Get(ctx context.Context, h dag.Hash) (o store.Object, err error) {
	err = p.around(mem.OpGet, func() (err error) { o, err = p.Store.Get(ctx, h); return err })
	return o, err
}

func (p process) Thread(ctx context.Context, id string) (row store.Thread, err error) {
	err = p.around(mem.OpThread, func() (err error) { row, err = p.Store.Thread(ctx, id); return err })
	return row, err
}

func (p process) Threads(ctx context.Context, f store.ThreadFilter) (rows []store.Thread, err error) {
	err = p.around(mem.OpThreads, func() (err error) { rows, err = p.Store.Threads(ctx, f); return err })
	return rows, err
}

func (p process) Attempts(ctx context.Context, f store.AttemptFilter) (rows []store.Attempt, err error) {
	err = p.around(mem.OpAttempts, func() (err error) { rows, err = p.Store.Attempts(ctx, f); return err })
	return rows, err
}

func (p process) Events(ctx context.Context, after int64, f store.EventFilter) (rows []store.Event, err error) {
	err = p.around(mem.OpEvents, func() (err error) { rows, err = p.Store.Events(ctx, after, f); return err })
	return rows, err
}

func (p process) Stage(ctx context.Context, pin string, r io.Reader) (h dag.Hash, n int64, err error) {
	err = p.around(mem.OpStage, func() (err error) { h, n, err = p.Store.Stage(ctx, pin, r); return err })
	return h, n, err
}

func (p process) Acquire(ctx context.Context, name string) (l store.Lease, err error) {
	err = p.around(mem.OpAcquire, func() (err error) { l, err = p.Store.Acquire(ctx, name); return err })
	if err != nil && l != nil {
		l.Release() // no process holds it
	}
	return l, err
}

// reader reads what is on the disk.
func (w *world) reader() *thread.Reader { return thread.NewReader(w.disk) }
