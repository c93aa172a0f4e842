package claude

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/sys/proc"
)

// A conversation is one attempt in progress.
type conversation struct {
	setup *setup
	req   agent.Request
	emit  func(agent.Event) error

	in         *io.PipeWriter
	stdin      *io.PipeReader
	ctx        context.Context // ends with the attempt
	stop       context.CancelCauseFunc
	halted     chan struct{} // a turn ended after an interrupt
	background sync.WaitGroup
	open       atomic.Int64 // requests of Claude Code that are not answered

	watchdog *agent.Watchdog

	mu sync.Mutex // guards outgoing, which is used by another goroutine than the reader's
	outgoing

	incoming
}

// outgoing is what people add and edit.
type outgoing struct {
	added    map[string]*addition // not received by the model yet, by the id of its line
	answered bool                 // no more input is accepted

	edited map[string]json.RawMessage // inputs that a person edited, by tool use id
}

// incoming is what was parsed. It belongs to the reader, and to Run once that has ended.
type incoming struct {
	tools      map[string]tool // running ones, by id
	answer     string          // the last text
	turn       string          // the uuid of the model's last message, or of the reply to a structured answer
	shapedCall string          // the id of the call with the structured answer
	model      string
	result     *result
	spent      agent.Usage // according to Claude Code
	reported   agent.Usage // in the last event
	emitErr    error
}

var errOver = errors.New("over") // why an attempt was stopped that was already over

func newConversation(s *setup, req agent.Request, emit func(agent.Event) error) *conversation {
	t := &conversation{setup: s, req: req, emit: emit, watchdog: agent.NewWatchdog(req.Limits),
		outgoing: outgoing{added: map[string]*addition{}, edited: map[string]json.RawMessage{}},
		incoming: incoming{tools: map[string]tool{}},
		halted:   make(chan struct{}, 1)}
	t.stdin, t.in = io.Pipe()
	return t
}

// run starts Claude Code, sends the prompt, and reads until it has answered.
func (t *conversation) run(ctx context.Context) (agent.Result, error) {
	warning, err := Package.Advice(t.setup.program)
	if err != nil {
		return agent.Result{}, agent.Final("%v", err)
	}
	inner, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	t.ctx, t.stop = inner, stop
	alive, kill := context.WithCancel(context.WithoutCancel(ctx))
	defer kill()
	exited := make(chan struct{})
	t.background.Go(func() { t.sendPrompts(inner) })
	t.background.Go(func() { t.watchdog.Watch(inner, stop) })
	t.background.Go(func() { t.halt(exited, kill) })
	res, err := t.setup.Run(alive, proc.Config{Stdin: t.stdin, Line: t.line, Signals: []syscall.Signal{syscall.SIGTERM},
		Grace: t.setup.grace, Started: func(int, int64) {
			if t.req.Opened != nil {
				t.req.Opened(t.setup.session)
			}
			if warning != "" {
				t.event(agent.Event{Kind: agent.EventError, Text: warning, WillRetry: true})
			}
		},
	})
	close(exited)
	stop(errOver)
	t.in.Close()
	t.background.Wait()
	t.close()
	if err := cmp.Or(t.emitErr, err, t.setup.Logged()); err != nil {
		return agent.Result{}, err
	}
	return t.outcome(ctx, context.Cause(inner), res)
}

// halt stops Claude Code in an orderly way when the attempt must end. It interrupts the turn,
// which ends its commands and keeps its session intact, then closes its input, and finally kills
// it.
func (t *conversation) halt(exited <-chan struct{}, kill func()) {
	select {
	case <-exited:
		return
	case <-t.ctx.Done():
	}
	patience := min(cmp.Or(t.setup.grace, proc.DefaultGrace), time.Second)
	t.background.Go(func() {
		t.send(encode(map[string]any{"type": "control_request", "request_id": "stop",
			"request": map[string]any{"subtype": "interrupt", "cancel_queued": true}}))
	})
	select {
	case <-t.halted:
	case <-exited:
	case <-time.After(patience):
	}
	t.in.Close()
	select {
	case <-exited:
	case <-time.After(patience):
		kill()
	}
}

// close emits events for unfinished tools, and the final usage.
func (t *conversation) close() {
	for id, u := range t.tools {
		t.event(agent.Event{Kind: u.kind, ID: id, Phase: "failed", Text: u.text})
	}
	t.use()
}

// use emits the usage if it has grown.
func (t *conversation) use() {
	if used := t.setup.Used(t.spent); used != t.reported {
		t.reported = used
		t.event(agent.Event{Kind: agent.EventUsage, Usage: &used})
	}
}

// send writes a line to Claude Code, and waits until that reads it. An error of the log ends the attempt.
func (t *conversation) send(line []byte) {
	if err := t.setup.Log(line); err != nil {
		t.stop(err)
	}
	t.in.Write(line) // if Claude Code has ended, its exit says why
}

// line handles a line that was logged already.
func (t *conversation) line(line []byte, cut bool) error {
	t.watchdog.Active()
	var m message
	if cut || json.Unmarshal(line, &m) != nil {
		return nil
	}
	t.handle(m)
	t.watchdog.SetTools(len(t.tools))
	return t.emitErr
}

// event emits an event.
func (t *conversation) event(e agent.Event) {
	if t.emitErr == nil {
		t.emitErr = t.emit(e)
	}
}

// userLine returns a person's message as a line of the protocol. An id asks for its delivery
// state.
func userLine(id, text string) []byte {
	line := map[string]any{"type": "user", "parent_tool_use_id": nil, "session_id": "",
		"message": map[string]any{"role": "user", "content": []any{map[string]any{"type": "text", "text": text}}}}
	if id != "" {
		line["uuid"] = id
	}
	return encode(line)
}

// encode returns a value as a line of JSON.
func encode(v any) []byte {
	line, err := json.Marshal(v)
	if err != nil {
		return nil // cannot happen: all values are texts and JSON
	}
	return append(line, '\n')
}
