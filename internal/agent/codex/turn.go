package codex

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/plait-run/plait/internal/agent"
)

// A turn is one attempt in progress on a server. The server's reader puts what it
// receives into the inbox; the goroutine of Run takes it out, in order.
type turn struct {
	cfg      Config
	req      agent.Request
	setup    *setup
	emit     func(agent.Event) error
	began    time.Time
	watchdog *agent.Watchdog

	srv     *server
	leave   func()       // releases the server; set by join
	session atomic.Value // string: Codex's thread, once known

	mu        sync.Mutex // guards inbox and questions
	inbox     inbox
	questions questions

	// Owned by the goroutine of Run.
	id      string           // Codex's turn, once known
	added   []agent.Addition // passed on, and not yet received by the model
	record  sessionRecord
	output  turnOutput
	items   turnItems
	used    turnUsage
	end     turnEnding
	emitErr error // the first error of emit
}

// An inbox is what the server's reader leaves for a turn.
type inbox struct {
	queue  []message
	wake   chan struct{} // one buffered: look at the queue
	lines  int           // received so far
	logErr error         // why a log could not be written
	askErr error         // why a person could not be asked
	closed bool          // Run has returned, or is about to: write nothing
}

// questions are what a turn asks people.
type questions struct {
	cancel  map[string]context.CancelFunc // by request id
	running sync.WaitGroup
}

// A sessionRecord is what is known about the session: its rollout, and the model and
// sandbox that it was opened with.
type sessionRecord struct {
	rollout string // file, or ""
	offset  int64  // the file's size before the turn
	model   string
	sandbox string
}

// A turnOutput is what a turn has produced.
type turnOutput struct {
	answer string
	final  bool // answer is the one that Codex calls final
	diff   string
}

// turnItems are the items of a turn that are needed again, by id.
type turnItems struct {
	running map[string]item // commands and tools
	patches map[string]item // file changes that were announced
}

// turnUsage is what a turn used. Codex counts per session.
type turnUsage struct {
	usage  agent.Usage
	before *usageCount // of the session, nil until known
}

// A usageCount is a token count of app-server.
type usageCount struct {
	Input     int64 `json:"inputTokens"`
	Cached    int64 `json:"cachedInputTokens"`
	Output    int64 `json:"outputTokens"`
	Reasoning int64 `json:"reasoningOutputTokens"`
}

// minus returns what was used since before.
func (u usageCount) minus(before usageCount) agent.Usage {
	return agent.Usage{
		InputTokens: u.Input - before.Input, CachedInputTokens: u.Cached - before.Cached,
		OutputTokens: u.Output - before.Output, ReasoningTokens: u.Reasoning - before.Reasoning,
	}
}

// Run makes one attempt. See [agent.Agent].
func (a *Agent) Run(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
	if ctx.Err() != nil {
		return agent.Result{}, stopFailure(ctx)
	}
	t, err := a.host.newTurn(ctx, a.cfg, req, emit)
	if err != nil {
		if ctx.Err() != nil {
			return agent.Result{}, stopFailure(ctx)
		}
		return agent.Result{}, err
	}
	shut, err := t.setup.open(req, false)
	if err != nil {
		return agent.Result{}, err
	}
	defer shut()
	opening, cancel := t.limited(ctx)
	defer cancel()
	if t.srv, err = a.host.join(opening, serverKey(t.setup), t); err != nil {
		return agent.Result{}, t.fault(t.startFailure(ctx, err))
	}
	if req.Started != nil {
		req.Started(agent.Process{PID: t.srv.pid, Start: t.srv.pidStart, Tag: t.srv.tag})
	}
	res, err := t.run(ctx, opening)
	t.cancelAsks("")
	t.questions.running.Wait()
	t.leave()
	if broken := t.fault(nil); broken != nil {
		return agent.Result{}, broken
	}
	return res, err
}

// limited returns a context that ends when the attempt's time is over. It is for the time until
// the turn begins; from then on the watchdog applies, which excludes the time spent on questions.
func (t *turn) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	if t.req.Timeout <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, t.began.Add(t.req.Timeout))
}

// newTurn finds Codex, prepares its setup and returns a turn that has not begun.
func (h *Host) newTurn(ctx context.Context, cfg Config, req agent.Request,
	emit func(agent.Event) error) (*turn, error) {
	p, err := h.Find(ctx, cfg.Path)
	if err != nil {
		return nil, agent.OfMachine("%v", err)
	}
	s, err := cfg.setup(h, p, req)
	if err != nil {
		return nil, err
	}
	t := &turn{
		cfg: cfg, req: req, setup: s, emit: emit, began: time.Now(), watchdog: agent.NewWatchdog(req.Limits),
		inbox:     inbox{wake: make(chan struct{}, 1)},
		questions: questions{cancel: map[string]context.CancelFunc{}},
		items:     turnItems{running: map[string]item{}, patches: map[string]item{}},
	}
	t.session.Store("")
	return t, nil
}

// fault returns why the attempt has to end here, whatever Codex does: a log could not be written, or a person not
// asked. Otherwise it returns err.
func (t *turn) fault(err error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return cmp.Or(t.inbox.logErr, t.inbox.askErr, err)
}

// writeLog writes to one of the desk's logs. An error ends the attempt.
func (t *turn) writeLog(to io.Writer, p []byte) {
	if to == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.inbox.logErr != nil || t.inbox.closed {
		return
	}
	if _, err := to.Write(p); err != nil {
		t.inbox.logErr = fmt.Errorf("keep what Codex says: %w", err)
		t.signal()
	}
}

// logRaw logs a line of the server, byte for byte, and restarts the idle time. It returns the
// number of the line.
func (t *turn) logRaw(line []byte) int {
	t.writeLog(t.req.Desk.Raw, line)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.watchdog.Active()
	t.inbox.lines++
	return t.inbox.lines
}

// enqueue queues a message for Run.
func (t *turn) enqueue(m message) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.inbox.queue = append(t.inbox.queue, m)
	t.signal()
}

func (t *turn) signal() {
	select {
	case t.inbox.wake <- struct{}{}:
	default:
	}
}

// dequeue empties the queue.
func (t *turn) dequeue() []message {
	t.mu.Lock()
	defer t.mu.Unlock()
	q := t.inbox.queue
	t.inbox.queue = nil
	return q
}

// errEmit carries an error of emit, which is the engine's own.
type errEmit struct{ error }

func (e errEmit) Unwrap() error { return e.error }

// send emits an event. After the first error it emits nothing and returns that error.
func (t *turn) send(ev agent.Event) error {
	if t.emitErr == nil {
		if err := t.emit(ev); err != nil {
			t.emitErr = errEmit{err}
		}
	}
	return t.emitErr
}

// run opens the session, starts the turn and follows it to its end. opening limits the
// time until the turn has started.
func (t *turn) run(ctx, opening context.Context) (agent.Result, error) {
	if t.setup.warning != "" {
		if err := t.send(agent.Event{Kind: agent.EventProgress, Text: "warning: " + t.setup.warning}); err != nil {
			return agent.Result{}, errors.Unwrap(err)
		}
	}
	soon, cancel := context.WithTimeout(opening, t.srv.startup)
	defer cancel()
	err := t.open(soon)
	if err == nil {
		err = t.begin(soon)
	}
	if err != nil {
		return agent.Result{}, t.startFailure(ctx, err)
	}
	why := t.follow(ctx)
	if t.end.turn == nil {
		t.interrupt()
	}
	t.cleanUp()
	t.closeItems()
	return t.result(why)
}

// follow handles messages until the turn has ended, which sets end.turn, or must be ended,
// for the reason that follow returns.
func (t *turn) follow(ctx context.Context) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	more := t.req.Additions
	for {
		for _, m := range t.dequeue() {
			if err := t.receive(ctx, m); err != nil {
				return err
			}
		}
		if err := t.fault(nil); err != nil || t.end.turn != nil {
			return err
		}
		select {
		case <-t.inbox.wake:
		case said, ok := <-more:
			if !ok {
				more = nil
				continue
			}
			if err := t.steer(ctx, said); err != nil {
				return err
			}
		case <-ctx.Done():
			return stopFailure(ctx)
		case <-t.srv.done:
			for _, m := range t.dequeue() {
				if err := t.receive(ctx, m); err != nil {
					return err
				}
			}
			if t.end.turn != nil {
				return nil
			}
			return &agent.Failure{Kind: agent.Infra, Message: "Codex ended in the middle of its turn: " + t.srv.how}
		case <-tick.C:
			if why := t.watchdog.Expired(); why != nil {
				return t.stopped(why)
			}
		}
	}
}

// setSession sets the session from an answer to thread/start or thread/fork, so that lines
// right behind the answer are routed to this turn.
func (t *turn) setSession(m message) {
	var o openedSession
	if json.Unmarshal(m.Result, &o) == nil && o.Thread.ID != "" {
		t.session.Store(o.Thread.ID)
	}
}

func (t *turn) sessionID() string {
	s, _ := t.session.Load().(string)
	return s
}
