package codex

import (
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

// A turn is one attempt at work on a server. What comes in is queued by the
// server's reader and taken in by the goroutine of Run, in order.
type turn struct {
	cfg  Config
	req  agent.Request
	site *site
	emit func(agent.Event) error

	srv   *server
	leave func() // the server; set by join

	session atomic.Value // string: Codex's thread, once known

	mu     sync.Mutex
	queue  []message
	broken error         // a log could not be written
	over   bool          // Run has returned, or is about to: write nothing
	heard  time.Time     // when something last came
	wake   chan struct{} // one buffered: look at the queue
	// Waiting for people: how many questions are open, since when there is one,
	// and how long there was one before.
	asking  int
	asked   time.Time
	paused  time.Duration
	pending map[string]context.CancelFunc // questions by request id

	// Owned by the goroutine of Run.
	id       string // Codex's turn, once known
	rollout  string // file, or ""
	offset   int64  // its size before
	model    string
	sandbox  string
	answer   string
	final    bool // answer is the one that Codex calls final
	diff     string
	openOnes map[string]item // commands and tools that run
	patches  map[string]item // file changes that were announced
	usage    agent.Usage
	base     *usageCount // what the session had used before
	lastErr  *turnError  // the last error that Codex does not retry
	outcome  *turnEnd
	unsaid   error // the first error of emit
	astray   bool  // the turn may go on although we do not

	asks  sync.WaitGroup
	began time.Time
}

// turnError is what app-server says went wrong.
type turnError struct {
	Message string          `json:"message"`
	Info    json.RawMessage `json:"codexErrorInfo"`
	Details string          `json:"additionalDetails"`
}

// turnEnd is how a turn ended, in turn/completed.
type turnEnd struct {
	ID     string     `json:"id"`
	Status string     `json:"status"`
	Error  *turnError `json:"error"`
}

// usageCount is a token count as app-server tells it.
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
		return agent.Result{}, stopped(ctx)
	}
	t, err := a.host.newTurn(ctx, a.cfg, req, emit)
	if err != nil {
		if ctx.Err() != nil {
			return agent.Result{}, stopped(ctx)
		}
		return agent.Result{}, err
	}
	opening, cancel := t.limited(ctx)
	defer cancel()
	if t.srv, err = a.host.join(opening, sharing(t.site), t); err != nil {
		return agent.Result{}, t.fault(t.unopened(ctx, err))
	}
	if req.Started != nil {
		req.Started(agent.Process{PID: t.srv.pid, Start: t.srv.pidStart, Tag: t.srv.tag})
	}
	res, err := t.run(ctx, opening)
	t.cancelAsks("")
	t.asks.Wait()
	t.leave()
	if broken := t.fault(nil); broken != nil {
		return agent.Result{}, broken
	}
	return res, err
}

// limited returns a context that ends when the attempt's time is over. It holds
// until the turn begins: from then on time spent waiting does not count.
func (t *turn) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	if t.req.Timeout <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, t.began.Add(t.req.Timeout))
}

// newTurn finds Codex and makes the site ready.
func (h *Host) newTurn(ctx context.Context, cfg Config, req agent.Request, emit func(agent.Event) error) (*turn, error) {
	p, err := h.Find(ctx, cfg.Path)
	if err != nil {
		return nil, final("%v", err)
	}
	s, err := cfg.site(h, p, req)
	if err != nil {
		return nil, err
	}
	t := &turn{
		cfg: cfg, req: req, site: s, emit: emit, wake: make(chan struct{}, 1), heard: time.Now(), began: time.Now(),
		openOnes: map[string]item{}, patches: map[string]item{}, pending: map[string]context.CancelFunc{},
	}
	t.session.Store("")
	return t, nil
}

// fault returns the error of a log that could not be written, else err.
func (t *turn) fault(err error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.broken != nil {
		return t.broken
	}
	return err
}

// keep writes to one of the desk's logs. An error ends the attempt.
func (t *turn) keep(to io.Writer, p []byte) {
	if to == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.broken != nil || t.over {
		return
	}
	if _, err := to.Write(p); err != nil {
		t.broken = fmt.Errorf("keep what Codex says: %w", err)
		t.nudge()
	}
}

// hear keeps a line of the server's, byte for byte.
func (t *turn) hear(line []byte) {
	t.keep(t.req.Desk.Raw, line)
	t.mu.Lock()
	t.heard = time.Now()
	t.mu.Unlock()
}

// post queues a message for Run.
func (t *turn) post(m message) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.queue = append(t.queue, m)
	t.nudge()
}

func (t *turn) nudge() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// take returns what was queued.
func (t *turn) take() []message {
	t.mu.Lock()
	defer t.mu.Unlock()
	q := t.queue
	t.queue = nil
	return q
}

// errEmit carries an error of emit, which is the engine's own.
type errEmit struct{ error }

func (e errEmit) Unwrap() error { return e.error }

// say emits an event. After the first error nothing is emitted any more.
func (t *turn) say(ev agent.Event) error {
	if t.unsaid == nil {
		if err := t.emit(ev); err != nil {
			t.unsaid = errEmit{err}
		}
	}
	return t.unsaid
}

// run opens the session, starts the turn and sees it through to its end. opening
// bounds the time until it is started.
func (t *turn) run(ctx, opening context.Context) (agent.Result, error) {
	if t.site.warning != "" {
		if err := t.say(agent.Event{Kind: agent.EventProgress, Text: "warning: " + t.site.warning}); err != nil {
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
		return agent.Result{}, t.unopened(ctx, err)
	}
	why := t.follow(ctx)
	if t.outcome == nil {
		t.interrupt()
	}
	t.cleanUp()
	t.settle()
	return t.result(why)
}

// follow takes in what happens until the turn has ended, or must end: then it
// returns why.
func (t *turn) follow(ctx context.Context) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	more := t.req.More
	for {
		for _, m := range t.take() {
			if err := t.receive(ctx, m); err != nil {
				return err
			}
		}
		if err := t.fault(nil); err != nil || t.outcome != nil {
			return err
		}
		select {
		case <-t.wake:
		case text, ok := <-more:
			if !ok {
				more = nil
				continue
			}
			if err := t.steer(ctx, text); err != nil {
				return err
			}
		case <-ctx.Done():
			return stopped(ctx)
		case <-t.srv.done:
			for _, m := range t.take() {
				if err := t.receive(ctx, m); err != nil {
					return err
				}
			}
			if t.outcome != nil {
				return nil
			}
			return &agent.Failure{Kind: agent.Infra, Message: "Codex ended in the middle of its turn: " + t.srv.how}
		case <-tick.C:
			if err := t.late(); err != nil {
				return err
			}
		}
	}
}

// late returns a failure when the attempt's time is over. Time spent waiting for
// a person does not count.
func (t *turn) late() error {
	t.mu.Lock()
	asking, worked, silent := t.asking, time.Since(t.began)-t.paused, time.Since(t.heard)
	t.mu.Unlock()
	if asking > 0 {
		return nil
	}
	if w := t.req.Timeout; w > 0 && worked > w {
		return t.outOfTime()
	}
	// A command that runs may be silent for as long as it likes: only the wall
	// time bounds it.
	if i := t.req.Idle; i > 0 && silent > i && len(t.openOnes) == 0 {
		return &agent.Failure{Kind: agent.TimedOut, Message: fmt.Sprintf("Codex was stopped: it said nothing for %v (idle limit)", i)}
	}
	return nil
}

func (t *turn) outOfTime() *agent.Failure {
	return &agent.Failure{Kind: agent.TimedOut, Message: fmt.Sprintf("Codex was stopped: it ran longer than its timeout of %v", t.req.Timeout)}
}

// interrupt ends a turn that goes on, and waits for Codex to say so.
func (t *turn) interrupt() {
	t.cancelAsks("")
	if isClosed(t.srv.done) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), t.srv.grace)
	defer cancel()
	if t.srv.conn.call(ctx, t, "turn/interrupt", map[string]any{"threadId": t.sessionID(), "turnId": t.id}, nil) == nil {
		t.drain(ctx, func() bool { return t.outcome != nil })
	}
	t.astray = t.outcome == nil
}

// cleanUp ends the commands that a turn left running, as an interrupted one does
// and one that put them in the background.
func (t *turn) cleanUp() {
	if isClosed(t.srv.done) || !t.srv.can("thread/backgroundTerminals/clean") {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), t.srv.grace)
	defer cancel()
	if t.srv.conn.call(ctx, t, "thread/backgroundTerminals/clean", map[string]any{"threadId": t.sessionID()}, nil) == nil {
		t.drain(ctx, func() bool { return len(t.openOnes) == 0 })
	}
}

// drain takes in messages until enough or ctx says so. What is asked meanwhile
// is refused, and errors are too late to matter.
func (t *turn) drain(ctx context.Context, enough func() bool) {
	dead, cancel := context.WithCancel(ctx)
	cancel()
	for {
		for _, m := range t.take() {
			t.receive(dead, m)
		}
		if enough() {
			return
		}
		select {
		case <-t.wake:
		case <-ctx.Done():
			return
		case <-t.srv.done:
			return
		}
	}
}

// settle tells of what was started and of which no end came.
func (t *turn) settle() {
	for _, it := range t.openOnes {
		if ev, ok := it.event("failed"); ok {
			t.say(ev)
		}
	}
	t.openOnes = nil
}

// adopt takes the session that an answer names.
func (t *turn) adopt(m message) {
	var o opened
	if json.Unmarshal(m.Result, &o) == nil && o.Thread.ID != "" {
		t.session.Store(o.Thread.ID)
	}
}

func (t *turn) sessionID() string {
	s, _ := t.session.Load().(string)
	return s
}
