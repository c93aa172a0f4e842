package acp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/agent/gateway"
	"github.com/plait-run/plait/internal/sys/jsonrpc"
	"github.com/plait-run/plait/internal/sys/proc"
)

const (
	startTime = time.Minute // until an agent has a session
	cancelled = time.Second // for the answer to session/cancel
	version   = 1           // of the protocol
	maxFailed = 3           // requests to the model in a row
	maxOpen   = 64          // requests for permission at once
	maxTools  = 10_000      // tool calls
)

// A conversation is one attempt in progress.
type conversation struct {
	setup *setup
	req   agent.Request
	emit  func(agent.Event) error
	conn  *jsonrpc.Conn

	ctx      context.Context // ends with the attempt's work
	stop     context.CancelCauseFunc
	asking   sync.WaitGroup
	watchdog *agent.Watchdog

	mu       sync.Mutex // guards what follows
	session  string
	live     bool            // the prompt was sent: earlier updates are history
	failed   gateway.Failure // of its model, at the end of its turn
	lines    int             // of the raw log
	permits  int             // requests for permission that are not answered
	updates  updateLog
	reported agent.Usage // by the last event
	emitErr  error
}

// An ending is the outcome of an attempt according to the agent.
type ending struct {
	stop  string // its stop reason
	model string
	usage agent.Usage
	err   error
}

func newConversation(s *setup, req agent.Request, emit func(agent.Event) error) *conversation {
	return &conversation{setup: s, req: req, emit: emit, updates: newUpdateLog(s), watchdog: agent.NewWatchdog(req.Limits)}
}

// title returns the agent's name, for people.
func (t *conversation) title() string { return t.setup.agent.kind.Title }

// Sent logs a message to the agent. An error ends the attempt.
func (t *conversation) Sent(_ jsonrpc.Message, line []byte) {
	if err := t.setup.Log(append(slices.Clone(line), '\n')); err != nil {
		t.stop(err)
	}
}

// run starts the agent, sends the prompt, waits for the answer, and ends the agent.
func (t *conversation) run(ctx context.Context) (agent.Result, error) {
	t.ctx, t.stop = context.WithCancelCause(ctx)
	defer t.stop(nil)
	stdin, in := io.Pipe()
	t.conn = jsonrpc.New(in, "2.0")
	go t.conn.Pump()
	alive, kill := context.WithCancel(context.Background())
	defer kill()
	var res proc.Result
	var runErr error
	over := make(chan struct{})
	go func() {
		defer close(over)
		defer t.conn.End()
		res, runErr = t.setup.Run(alive, proc.Config{Stdin: stdin, Line: t.line, Signals: []syscall.Signal{},
			Grace: t.grace()})
		stdin.Close()
	}()
	var watching sync.WaitGroup
	watching.Go(func() { t.watchdog.Watch(t.ctx, t.stop) })
	watching.Go(t.giveUp)
	end := t.converse()
	t.use(end)
	why := context.Cause(t.ctx)
	t.stop(nil)
	t.closeAgent(over, kill)
	watching.Wait()
	t.asking.Wait()
	if err := cmp.Or(t.emitErr, runErr, t.setup.Logged()); err != nil {
		return agent.Result{}, err
	}
	return t.outcome(ctx, why, end, res)
}

// errTooMuch is why an attempt ends that would need too much memory.
var errTooMuch = errors.New("too much at once")

// errFailing is why an attempt ends after repeated failures of the model.
var errFailing = errors.New("the model fails")

// grace returns how long the agent may take to exit.
func (t *conversation) grace() time.Duration { return cmp.Or(t.setup.agent.host.Grace, grace) }

// giveUp ends the attempt after several failed requests in a row: agents retry for minutes, each
// in its own way.
func (t *conversation) giveUp() {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for t.setup.Gateway.Failed().Times < maxFailed {
		select {
		case <-t.ctx.Done():
			return
		case <-tick.C:
		}
	}
	t.stop(errFailing)
}

// use emits the usage if it has grown.
func (t *conversation) use(end ending) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if used := t.setup.Used(end.usage); used != t.reported {
		t.reported = used
		t.send([]agent.Event{{Kind: agent.EventUsage, Usage: &used}})
	}
}

// closeAgent ends the agent by closing its input, or by killing everything with its tag.
func (t *conversation) closeAgent(over <-chan struct{}, kill func()) {
	t.conn.HangUp()
	if !t.setup.agent.kind.Stays {
		select {
		case <-over:
		case <-time.After(t.grace()):
		}
	}
	kill()
	<-over
}

// converse opens the session and sends the prompt.
func (t *conversation) converse() (end ending) {
	starting, done := context.WithTimeout(t.ctx, startTime)
	defer done()
	if end.err = t.open(starting); end.err != nil {
		return end
	}
	t.mu.Lock()
	t.live = true
	t.mu.Unlock()
	prompt := t.req.Prompt
	if t.setup.delivery != nil {
		prompt += deliverNote
	}
	if end = t.prompt(prompt); end.err == nil && end.stop == "end_turn" && t.answerMissing() {
		more := t.prompt(deliverAgain) // once
		more.usage = add(end.usage, more.usage, t.setup.agent.kind.Usage)
		end = more
	}
	return end
}

// answerMissing reports whether a structured answer was required, and was neither submitted nor written
// as an object.
func (t *conversation) answerMissing() bool {
	if t.setup.delivery == nil || t.setup.delivery.submitted() {
		return false
	}
	if answer := t.updates.answer; strings.HasPrefix(answer, "---\n") && strings.Contains(answer, "\n---\n") {
		return false // front matter, which is checked after the attempt
	}
	_, err := frontMatter([]byte(t.updates.answer), "")
	return err != nil
}

// prompt sends a prompt and waits for the end of the turn. If the attempt must end, the agent is
// told to cancel, and has a second to do so.
func (t *conversation) prompt(text string) (end ending) {
	var r struct {
		Stop  string       `json:"stopReason"`
		Usage *tokenCounts `json:"usage"`
	}
	answered := make(chan error, 1)
	patient, leave := context.WithCancel(context.WithoutCancel(t.ctx))
	defer leave()
	go func() {
		answered <- t.conn.Call(patient, t, "session/prompt", map[string]any{
			"sessionId": t.session, "prompt": []any{map[string]any{"type": "text", "text": text}}}, &r)
	}()
	select {
	case end.err = <-answered:
	case <-t.ctx.Done():
		t.conn.Notify(t, "session/cancel", map[string]any{"sessionId": t.session}) // the response says the rest
		select {
		case end.err = <-answered:
		case <-time.After(cancelled):
			end.err = context.Cause(t.ctx)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.send(t.updates.flush())
	t.send(t.updates.refusals())
	t.failed = t.setup.Gateway.Failed() // without its own requests after the turn
	end.stop, end.model, end.usage = r.Stop, t.updates.model, t.updates.used
	if r.Usage != nil {
		end.usage = r.Usage.usage(t.setup.agent.kind.Usage)
	}
	return end
}

// line handles a line that was logged already.
func (t *conversation) line(line []byte, cut bool) error {
	t.watchdog.Active()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines++
	m, ok := jsonrpc.Read(line)
	if cut || !ok {
		return nil
	}
	switch {
	case m.IsResponse():
		t.conn.Resolve(m)
	case m.IsRequest():
		t.answer(m)
	case m.Method == "session/update" && t.live:
		t.send(t.updates.update(m.Params, t.lines))
	}
	if len(t.updates.tools) > maxTools {
		t.updates.tools = map[string]*tool{}
		t.stop(errTooMuch)
	}
	t.watchdog.SetTools(len(t.updates.working))
	return t.emitErr
}

// send emits events. t.mu is held.
func (t *conversation) send(events []agent.Event) {
	for _, e := range events {
		if t.emitErr == nil {
			if t.emitErr = t.emit(e); t.emitErr != nil {
				t.stop(t.emitErr)
			}
		}
	}
}

// answer answers a request of the agent to its client. t.mu is held.
func (t *conversation) answer(m jsonrpc.Message) {
	if m.Method != "session/request_permission" {
		t.conn.Refuse(t, m.ID, jsonrpc.NoMethod, "not offered: "+m.Method)
		return
	}
	var p permission
	if json.Unmarshal(m.Params, &p) != nil {
		t.conn.Refuse(t, m.ID, jsonrpc.InvalidRequest, "this permission cannot be read")
		return
	}
	if t.permits >= maxOpen {
		t.conn.Refuse(t, m.ID, jsonrpc.InvalidRequest, "too many requests")
		t.stop(errTooMuch)
		return
	}
	t.permits++
	t.send(t.updates.flush())
	events, tool := t.updates.merge(p.Call, t.lines, true)
	t.send(events)
	act := tool.action(t.setup.Dir)
	title := tool.title()
	t.asking.Go(func() {
		t.permit(m, p, title, act)
		t.mu.Lock()
		defer t.mu.Unlock()
		t.permits--
	})
}

// An update is a session update of the agent.
type update struct {
	Kind    string          `json:"sessionUpdate"`
	Entries json.RawMessage `json:"entries"`
	call
}

// textOf returns the text of a content block.
func textOf(content json.RawMessage) string {
	var c struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if json.Unmarshal(content, &c) != nil {
		return ""
	}
	return strings.ToValidUTF8(c.Text, "\uFFFD")
}
