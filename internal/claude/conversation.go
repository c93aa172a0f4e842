package claude

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"syscall"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/proc"
)

// maxLine is the longest line that is taken in, in bytes.
const maxLine = 64 << 20

// A talk is one attempt at work.
type talk struct {
	site *site
	req  agent.Request
	emit func(agent.Event) error

	in     *io.PipeWriter
	stdin  *io.PipeReader
	ctx    context.Context // ends with the attempt
	stop   context.CancelCauseFunc
	halted chan struct{} // a turn ended after it was told to stop
	beside sync.WaitGroup

	patient *agent.Patience

	mu sync.Mutex // guards saying: people speak beside the reader
	saying
	logging sync.Mutex // held while a line is logged

	reading
}

// saying is what people add, and change.
type saying struct {
	added    map[string]*addition // that the model does not have, by the id of its line
	answered bool                 // nothing more is taken

	edited map[string]json.RawMessage // inputs that a person gave to tools, by the id of their use
}

// reading is what was understood. It is the reader's, and Run's when that has ended.
type reading struct {
	tools   map[string]tool // that run, by id
	answer  string          // the last text
	turn    string          // the uuid of the last message of the model, or of what is answered to a shaped one
	given   string          // the id of the call that gave a shaped answer
	model   string
	result  *result
	spent   agent.Usage // as Claude Code says
	told    agent.Usage // what was told of it
	emitErr error
}

var errOver = errors.New("over") // why an attempt was stopped that had ended

func newTalk(s *site, req agent.Request, emit func(agent.Event) error) *talk {
	t := &talk{site: s, req: req, emit: emit, patient: agent.NewPatience(req.Limits),
		saying: saying{added: map[string]*addition{}, edited: map[string]json.RawMessage{}}, reading: reading{tools: map[string]tool{}},
		halted: make(chan struct{}, 1)}
	t.stdin, t.in = io.Pipe()
	return t
}

// run starts Claude Code, says the prompt, and reads until it has answered.
func (t *talk) run(ctx context.Context) (agent.Result, error) {
	warning, err := t.site.program.Advice()
	if err != nil {
		return agent.Result{}, agent.Final("%v", err)
	}
	inner, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	t.ctx, t.stop = inner, stop
	alive, kill := context.WithCancel(context.WithoutCancel(ctx))
	defer kill()
	exited := make(chan struct{})
	t.beside.Go(func() { t.speak(inner) })
	t.beside.Go(func() { t.patient.Watch(inner, stop) })
	t.beside.Go(func() { t.halt(exited, kill) })
	res, err := proc.Run(alive, proc.Config{
		Path: t.site.path, Args: t.site.args, Dir: t.site.dir, Env: t.site.env, Stdin: t.stdin,
		Stdout: t.req.Desk.Raw, Stderr: t.req.Desk.Stderr, Line: t.line, MaxLine: maxLine, MaxBytes: 4 << 30,
		Signals: []syscall.Signal{syscall.SIGTERM}, Grace: t.site.grace, Tag: t.req.Tag,
		Started: func(pid int, start int64) {
			if t.req.Started != nil {
				t.req.Started(agent.Process{PID: pid, Start: start})
			}
			if t.req.Opened != nil {
				t.req.Opened(t.site.session)
			}
			if warning != "" {
				t.event(agent.Event{Kind: agent.EventError, Text: warning, WillRetry: true})
			}
		},
	})
	close(exited)
	stop(errOver)
	t.in.Close()
	t.beside.Wait()
	t.close()
	var se *proc.StartError
	switch {
	case t.emitErr != nil:
		return agent.Result{}, t.emitErr
	case errors.As(err, &se):
		return agent.Result{}, agent.Final("Claude Code could not be started: %v", se)
	case err != nil:
		return agent.Result{}, fmt.Errorf("run Claude Code: %w", err)
	}
	return t.outcome(ctx, context.Cause(inner), res)
}

// halt ends Claude Code in order once the attempt has to end: its turn is interrupted, which ends its commands and keeps
// its session whole; then nothing more is said to it; then it is killed.
func (t *talk) halt(exited <-chan struct{}, kill func()) {
	select {
	case <-exited:
		return
	case <-t.ctx.Done():
	}
	patience := min(cmp.Or(t.site.grace, proc.DefaultGrace), time.Second)
	t.beside.Go(func() {
		t.say(encode(map[string]any{"type": "control_request", "request_id": "stop",
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

// close tells of tools that never ended, and what was used.
func (t *talk) close() {
	for id, u := range t.tools {
		t.event(agent.Event{Kind: u.kind, ID: id, Phase: "failed", Text: u.text})
	}
	t.use()
}

// use tells what was used, when that is more than was told.
func (t *talk) use() {
	if used := t.used(); used != t.told {
		t.told = used
		t.event(agent.Event{Kind: agent.EventUsage, Usage: &used})
	}
}

// say writes a line to Claude Code. It waits until that reads.
func (t *talk) say(line []byte) {
	if t.req.Desk.Requests != nil {
		t.logging.Lock()
		t.req.Desk.Requests.Write(line) // a log that cannot be written is found by the raw one
		t.logging.Unlock()
	}
	t.in.Write(line) // when it has ended, its end says why
}

// line understands a line that is logged already.
func (t *talk) line(line []byte, cut bool) error {
	t.patient.Heard()
	var m message
	if cut || json.Unmarshal(line, &m) != nil {
		return nil
	}
	t.take(m)
	t.patient.Running(len(t.tools))
	return t.emitErr
}

// event tells of something that happened.
func (t *talk) event(e agent.Event) {
	if t.emitErr == nil {
		t.emitErr = t.emit(e)
	}
}

// userLine is what a person says, as a line of the protocol, with an id if it is to be told how far it has come.
func userLine(id, text string) []byte {
	line := map[string]any{"type": "user", "parent_tool_use_id": nil, "session_id": "",
		"message": map[string]any{"role": "user", "content": []any{map[string]any{"type": "text", "text": text}}}}
	if id != "" {
		line["uuid"] = id
	}
	return encode(line)
}

// encode is a value as a line of JSON.
func encode(v any) []byte {
	line, err := json.Marshal(v)
	if err != nil {
		return nil // all that is encoded here is made of texts and JSON
	}
	return append(line, '\n')
}
