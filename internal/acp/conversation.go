package acp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/gateway"
	"github.com/plait-run/plait/internal/jsonrpc"
	"github.com/plait-run/plait/internal/proc"
)

const (
	maxLine   = 64 << 20    // bytes of one line; 0.5 MB was seen
	startTime = time.Minute // until an agent has a session
	cancelled = time.Second // for the answer to session/cancel
	version   = 1           // of the protocol
	maxFailed = 3           // requests to the model in a row
)

// A talk is one attempt at work.
type talk struct {
	site *site
	req  agent.Request
	emit func(agent.Event) error
	conn *jsonrpc.Conn

	ctx     context.Context // ends with the attempt's work
	stop    context.CancelCauseFunc
	asking  sync.WaitGroup
	patient *agent.Patience
	logging sync.Mutex // guards the desk's requests

	mu      sync.Mutex // guards what follows
	session string
	live    bool            // the prompt was sent: what is said before is old
	failed  gateway.Failure // of its model, when its turn was over
	lines   int             // of the raw log
	news    news
	told    agent.Usage // by the last event
	emitErr error
}

// What an attempt came to, as far as the agent says.
type ending struct {
	stop  string // its stop reason
	model string
	usage agent.Usage
	err   error
}

func newTalk(s *site, req agent.Request, emit func(agent.Event) error) *talk {
	return &talk{site: s, req: req, emit: emit, news: newNews(s), patient: agent.NewPatience(req.Limits)}
}

// title is the agent's name, for people.
func (t *talk) title() string { return t.site.agent.kind.Title }

// Sent logs what is said to the agent.
func (t *talk) Sent(_ jsonrpc.Message, line []byte) {
	if t.req.Desk.Requests != nil {
		t.logging.Lock()
		defer t.logging.Unlock()
		t.req.Desk.Requests.Write(append(slices.Clone(line), '\n')) // a log that cannot be written is found by the raw one
	}
}

// run starts the agent, has it answer the prompt, and ends it.
func (t *talk) run(ctx context.Context) (agent.Result, error) {
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
		res, runErr = proc.Run(alive, proc.Config{
			Path: t.site.path, Args: t.site.args, Dir: t.site.dir, Env: t.site.env, Stdin: stdin, Stdout: t.req.Desk.Raw,
			Stderr: t.req.Desk.Stderr, Line: t.line, MaxLine: maxLine, MaxBytes: 4 << 30, Signals: []syscall.Signal{},
			Grace: t.site.agent.host.cfg.Grace, Tag: t.req.Tag, Started: func(pid int, start int64) {
				if t.req.Started != nil {
					t.req.Started(agent.Process{PID: pid, Start: start})
				}
			},
		})
		stdin.Close()
	}()
	var watching sync.WaitGroup
	watching.Go(func() { t.patient.Watch(t.ctx, t.stop) })
	watching.Go(t.giveUp)
	end := t.converse()
	t.use(end)
	why := context.Cause(t.ctx)
	t.stop(nil)
	t.hangUp(over, kill)
	watching.Wait()
	t.asking.Wait()
	var se *proc.StartError
	switch {
	case t.emitErr != nil:
		return agent.Result{}, t.emitErr
	case errors.As(runErr, &se):
		return agent.Result{}, agent.Final("%s could not be started: %v", t.title(), se)
	case runErr != nil && end.err != nil:
		return agent.Result{}, fmt.Errorf("run %s: %w", t.title(), runErr)
	}
	return t.outcome(ctx, why, end, res)
}

// errFailing is why an attempt ends whose requests to the model failed again and again.
var errFailing = errors.New("the model fails")

// giveUp ends the attempt after some failed requests in a row: agents ask again for minutes, each in its own way.
func (t *talk) giveUp() {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for t.site.failed().Times < maxFailed {
		select {
		case <-t.ctx.Done():
			return
		case <-tick.C:
		}
	}
	t.stop(errFailing)
}

// use tells what was used, when that is more than was told.
func (t *talk) use(end ending) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if used := t.used(end); used != t.told {
		t.told = used
		t.send([]agent.Event{{Kind: agent.EventUsage, Usage: &used}})
	}
}

// hangUp ends the agent: closing its input does, or killing all that has its tag.
func (t *talk) hangUp(over <-chan struct{}, kill func()) {
	t.conn.HangUp()
	if !t.site.agent.kind.Stays {
		select {
		case <-over:
		case <-time.After(t.site.agent.host.cfg.Grace):
		}
	}
	kill()
	<-over
}

// converse opens the session and has the prompt answered.
func (t *talk) converse() (end ending) {
	starting, done := context.WithTimeout(t.ctx, startTime)
	defer done()
	if end.err = t.open(starting); end.err != nil {
		return end
	}
	t.mu.Lock()
	t.live = true
	t.mu.Unlock()
	prompt := t.req.Prompt
	if t.site.delivery != nil {
		prompt += deliverNote
	}
	if end = t.prompt(prompt); end.err == nil && end.stop == "end_turn" && t.missing() {
		more := t.prompt(deliverAgain) // once
		more.usage = add(end.usage, more.usage, t.site.agent.kind.Usage)
		end = more
	}
	return end
}

// missing reports whether the answer was to be handed back, and was neither that nor said as an object.
func (t *talk) missing() bool {
	if t.site.delivery == nil || t.site.delivery.came() {
		return false
	}
	if answer := t.news.answer; strings.HasPrefix(answer, "---\n") && strings.Contains(answer, "\n---\n") {
		return false // front matter, which is checked when the attempt is over
	}
	_, err := frontMatter([]byte(t.news.answer), "")
	return err != nil
}

// An opened session, as agents tell of it.
type opened struct {
	SessionID string `json:"sessionId"`
	Modes     struct {
		Available []struct {
			ID string `json:"id"`
		} `json:"availableModes"`
	} `json:"modes"`
	Options []struct {
		ID string `json:"id"`
	} `json:"configOptions"`
	Models struct {
		Current string `json:"currentModelId"`
	} `json:"models"`
}

// open introduces Plait, opens or loads the session, and sets how it asks.
func (t *talk) open(ctx context.Context) error {
	var agentIs struct {
		Version      int `json:"protocolVersion"`
		Capabilities struct {
			Load    bool `json:"loadSession"`
			Session struct {
				Resume json.RawMessage `json:"resume"`
			} `json:"sessionCapabilities"`
		} `json:"agentCapabilities"`
	}
	if err := t.conn.Call(ctx, t, "initialize", map[string]any{
		"protocolVersion": version, "clientCapabilities": map[string]any{},
		"clientInfo": map[string]any{"name": "plait", "title": "Plait", "version": "1"},
	}, &agentIs); err != nil {
		return err
	}
	if agentIs.Version != version {
		return agent.Final("%s speaks version %d of the Agent Client Protocol, Plait speaks %d", t.title(), agentIs.Version, version)
	}
	a := t.site.agent
	params := map[string]any{"cwd": t.site.dir, "mcpServers": t.site.delivery.servers(a.kind, a.host.cfg.Deliver)}
	method := "session/new"
	if t.req.Session != "" {
		params["sessionId"] = t.req.Session
		switch {
		case len(agentIs.Capabilities.Session.Resume) > 0:
			method = "session/resume"
		case agentIs.Capabilities.Load:
			method = "session/load"
		default:
			return agent.Final("%s cannot continue a session", t.title())
		}
	}
	var o opened
	if err := t.conn.Call(ctx, t, method, params, &o); err != nil {
		return err
	}
	if t.req.Session != "" {
		o.SessionID = t.req.Session
	}
	if o.SessionID == "" {
		return fmt.Errorf("%s opened a session without a name", t.title())
	}
	t.mu.Lock()
	t.session, t.news.model = o.SessionID, o.Models.Current
	t.mu.Unlock()
	if err := t.settle(ctx, o); err != nil {
		return err
	}
	if err := a.known(t.req, o.SessionID); err != nil {
		return err
	}
	if t.req.Opened != nil {
		t.req.Opened(o.SessionID)
	}
	return nil
}

// settle sets how the agent asks. That it cannot be set is an error: the agent would ask as it likes.
func (t *talk) settle(ctx context.Context, o opened) error {
	set := t.site.setting
	if set.Mode != "" {
		if err := t.conn.Call(ctx, t, "session/set_mode", map[string]any{"sessionId": o.SessionID, "modeId": set.Mode}, nil); err != nil {
			return fmt.Errorf("set the mode %s: %w", set.Mode, err)
		}
	}
	for name, value := range set.Options {
		if err := t.conn.Call(ctx, t, "session/set_config_option", map[string]any{
			"sessionId": o.SessionID, "configId": name, "value": value}, nil); err != nil {
			return fmt.Errorf("set the option %s: %w", name, err)
		}
	}
	return nil
}

// prompt has a prompt answered. When the attempt must end, the agent is told, and has a second to say so.
func (t *talk) prompt(text string) (end ending) {
	var r struct {
		Stop  string `json:"stopReason"`
		Usage *spent `json:"usage"`
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
		t.conn.Notify(t, "session/cancel", map[string]any{"sessionId": t.session}) // its end says the rest
		select {
		case end.err = <-answered:
		case <-time.After(cancelled):
			end.err = context.Cause(t.ctx)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.send(t.news.flush())
	t.send(t.news.refusals())
	t.failed = t.site.failed() // not what it asks for itself from now on
	end.stop, end.model, end.usage = r.Stop, t.news.model, t.news.used
	if r.Usage != nil {
		end.usage = r.Usage.usage(t.site.agent.kind.Usage)
	}
	return end
}

// line understands a line that is logged already.
func (t *talk) line(line []byte, cut bool) error {
	t.patient.Heard()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines++
	var m jsonrpc.Message
	if cut || json.Unmarshal(line, &m) != nil {
		return nil
	}
	switch {
	case m.IsResponse():
		t.conn.Resolve(m)
	case m.IsRequest():
		t.answer(m)
	case m.Method == "session/update" && t.live:
		t.send(t.news.update(m.Params, t.lines))
	}
	t.patient.Running(t.news.working())
	return t.emitErr
}

// send tells of what happened. t.mu is held.
func (t *talk) send(events []agent.Event) {
	for _, e := range events {
		if t.emitErr == nil {
			if t.emitErr = t.emit(e); t.emitErr != nil {
				t.stop(t.emitErr)
			}
		}
	}
}

// answer answers what the agent asks of its client. t.mu is held.
func (t *talk) answer(m jsonrpc.Message) {
	if m.Method != "session/request_permission" {
		t.conn.Refuse(t, m.ID, jsonrpc.NoMethod, "not offered: "+m.Method)
		return
	}
	var p permission
	if json.Unmarshal(m.Params, &p) != nil {
		t.conn.Refuse(t, m.ID, jsonrpc.InvalidRequest, "this permission cannot be read")
		return
	}
	t.send(t.news.flush())
	events, tool := t.news.merge(p.Call, t.lines)
	t.send(events)
	act := tool.action(t.site.dir)
	t.asking.Go(func() { t.permit(m, p, tool.title(), act) })
}

// An update is one thing that an agent tells while it works.
type update struct {
	Kind    string          `json:"sessionUpdate"`
	Entries json.RawMessage `json:"entries"`
	call
}

// text is the text of a piece of content.
func text(content json.RawMessage) string {
	var c struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if json.Unmarshal(content, &c) != nil {
		return ""
	}
	return strings.ToValidUTF8(c.Text, "\uFFFD")
}
