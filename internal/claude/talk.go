package claude

import (
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
	asking sync.WaitGroup

	mu     sync.Mutex // guards what follows: questions are asked beside the reader
	asked  int        // questions that are open
	since  time.Time  // when something last happened, or the last question was answered
	paused time.Duration
	from   time.Time // when the first open question was asked

	// Owned by the reader.
	tools   map[string]tool // that run, by id
	answer  string          // the last text
	turn    string          // the uuid of the last message of the model
	model   string
	result  *result
	emitErr error
}

// Why an attempt was stopped.
var (
	errTimeout = errors.New("timeout")
	errIdle    = errors.New("idle")
	errOver    = errors.New("over")
)

func newTalk(s *site, req agent.Request, emit func(agent.Event) error) *talk {
	t := &talk{site: s, req: req, emit: emit, since: time.Now(), tools: map[string]tool{}}
	t.stdin, t.in = io.Pipe()
	return t
}

// run starts Claude Code, says the prompt, and reads until it has answered.
func (t *talk) run(ctx context.Context) (agent.Result, error) {
	warning, err := t.site.program.Advice()
	if err != nil {
		return agent.Result{}, finalFailure("%v", err)
	}
	began := time.Now()
	inner, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	t.ctx, t.stop = inner, stop
	go t.say(userLine(t.req.Prompt))
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		t.watch(inner, began)
	}()
	res, err := proc.Run(inner, proc.Config{
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
	stop(errOver)
	t.in.Close()
	<-watched
	t.asking.Wait()
	var se *proc.StartError
	switch {
	case t.emitErr != nil:
		return agent.Result{}, t.emitErr
	case errors.As(err, &se):
		return agent.Result{}, finalFailure("Claude Code could not be started: %v", se)
	case err != nil:
		return agent.Result{}, fmt.Errorf("run Claude Code: %w", err)
	}
	return t.outcome(ctx, context.Cause(inner), res)
}

// watch ends an attempt that takes too long, or says nothing for too long. The time in which a person is asked does
// not count.
func (t *talk) watch(ctx context.Context, began time.Time) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			t.mu.Lock()
			open, worked, silent := t.asked > 0, now.Sub(began)-t.paused, now.Sub(t.since)
			t.mu.Unlock()
			switch {
			case open:
			case t.req.Timeout > 0 && worked > t.req.Timeout:
				t.stop(errTimeout)
			case t.req.Idle > 0 && silent > t.req.Idle:
				t.stop(errIdle)
			}
		}
	}
}

// say writes a line to Claude Code. It waits until that reads.
func (t *talk) say(line []byte) {
	if t.req.Desk.Requests != nil {
		t.req.Desk.Requests.Write(line) // a log that cannot be written is found by the raw one
	}
	t.in.Write(line) // when it has ended, its end says why
}

// line understands a line that is logged already.
func (t *talk) line(line []byte, cut bool) error {
	t.mu.Lock()
	t.since = time.Now()
	t.mu.Unlock()
	var m message
	if cut || json.Unmarshal(line, &m) != nil {
		return nil
	}
	t.take(m)
	return t.emitErr
}

// event tells of something that happened.
func (t *talk) event(e agent.Event) {
	if t.emitErr == nil {
		t.emitErr = t.emit(e)
	}
}

// userLine is what a person says, as a line of the protocol.
func userLine(text string) []byte {
	return encode(map[string]any{"type": "user", "parent_tool_use_id": nil, "session_id": "",
		"message": map[string]any{"role": "user", "content": []any{map[string]any{"type": "text", "text": text}}}})
}

// encode is a value as a line of JSON.
func encode(v any) []byte {
	line, err := json.Marshal(v)
	if err != nil {
		return nil // all that is encoded here is made of texts and JSON
	}
	return append(line, '\n')
}
