package model

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/agent/sandbox"
	"github.com/plait-run/plait/internal/sys/text"
)

// maxSilence is how long a model's server may be silent during a request, unless a limit is set.
const maxSilence = 15 * time.Minute

// A conversation is one attempt in progress.
type conversation struct {
	agent    *Agent
	req      agent.Request
	dir      string            // working directory
	vars     map[string]string // variables of commands
	emit     func(agent.Event) error
	log      *transcript
	client   client
	sandbox  sandbox.Sandbox
	session  *session
	files    *files
	watchdog *agent.Watchdog
	form     *form          // of the answer, nil: any
	fields   map[string]any // of each request, beyond Plait's own; null leaves one out
	model    string
	used     agent.Usage

	ctx  context.Context // ends with the attempt
	stop context.CancelCauseFunc

	mu    sync.Mutex // guards the fields below, and emit: people add input concurrently
	added []agent.Addition
	fault error // of emit
}

// A transcript is the raw log: the server's responses byte for byte, and lines about how they
// were used.
type transcript struct {
	mu    sync.Mutex
	to    io.Writer // nil: nowhere
	seen  func()
	lines int
	open  bool // the last line has no line feed
	fault error
}

func (l *transcript) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seen != nil {
		l.seen()
	}
	l.put(p)
	return len(p), l.fault
}

func (l *transcript) put(p []byte) {
	if l.to == nil || l.fault != nil || len(p) == 0 {
		return
	}
	if _, err := l.to.Write(p); err != nil {
		l.fault = fmt.Errorf("keep what the model says: %w", err)
	}
	l.lines += strings.Count(string(p), "\n")
	l.open = p[len(p)-1] != '\n'
}

// note writes a separate line.
func (l *transcript) note(v any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open {
		l.put([]byte{'\n'})
	}
	l.put(encode(v))
}

// line returns the number of the last line, 0 if there is none.
func (l *transcript) line() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines
}

// run sends the prompt, and does what the model asks for until it answers.
func (t *conversation) run(ctx context.Context) (agent.Result, error) {
	t.ctx, t.stop = context.WithCancelCause(ctx)
	defer t.stop(nil)
	t.watchdog = agent.NewWatchdog(agent.Limits{Timeout: t.req.Timeout, Idle: cmp.Or(t.req.Idle, maxSilence)})
	t.log.seen = t.watchdog.Active
	var beside sync.WaitGroup
	beside.Go(func() { t.watchdog.Watch(t.ctx, t.stop) })
	beside.Go(t.listen)
	answer, err := t.work()
	t.stop(nil)
	beside.Wait()
	if err != nil || t.log.fault != nil {
		return agent.Result{}, t.failure(ctx, err)
	}
	return answer, nil
}

// work makes the attempt, without set-up and clean-up.
func (t *conversation) work() (agent.Result, error) {
	prompt := t.req.Prompt
	if t.req.Shaped {
		var err error
		if t.form, err = formOf(t.req.Schema); err != nil {
			return agent.Result{}, err
		}
		prompt += t.form.wanted()
	}
	if err := t.report(prompt); err != nil {
		return agent.Result{}, err
	}
	if t.req.Opened != nil {
		t.req.Opened(t.session.id)
	}
	asked := false // for an answer in the required form
	turns := cmp.Or(t.agent.cfg.MaxTurns, defaultTurns)
	for turn := range turns {
		s, err := t.next(asked)
		if err != nil {
			return agent.Result{}, err
		}
		if len(s.calls) > 0 {
			if err := t.useAll(s.calls); err != nil {
				return agent.Result{}, err
			}
			continue
		}
		text, wrong := string(s.text), error(nil)
		if t.form != nil {
			text, wrong = t.form.front(s.text)
		}
		switch {
		case wrong != nil && !asked && turn+1 < turns:
			asked = true
			if err := t.askAgain(wrong); err != nil {
				return agent.Result{}, err
			}
			continue
		case strings.TrimSpace(text) == "":
			return agent.Result{}, &agent.Failure{Kind: agent.InvalidOutput, Message: "the model ended without an answer"}
		}
		if err := t.event(agent.Event{Kind: agent.EventMessage, Phase: "completed", Text: t.form.body(s.text)}); err != nil {
			return agent.Result{}, err
		}
		return t.result(text), nil
	}
	return agent.Result{}, &agent.Failure{Kind: agent.Limit, Final: true,
		Message: fmt.Sprintf("the model was asked %d times without an answer (maxTurns)", turns)}
}

// askAgain asks for an answer in the required form.
func (t *conversation) askAgain(wrong error) error {
	err := t.event(agent.Event{Kind: agent.EventError, WillRetry: true,
		Text: "the answer does not have the form that it must have, and is asked for again: " + wrong.Error()})
	if err != nil {
		return err
	}
	return t.report(t.form.again(wrong))
}

func (t *conversation) result(text string) agent.Result {
	out := agent.Result{Output: []byte(text), Session: t.session.id, Turn: t.session.turn, Model: t.model, Usage: t.used,
		Sandbox: t.sandbox.String()}
	return out.Clipped()
}

// report adds a text to the next request to the model.
func (t *conversation) report(text string) error {
	e := entry{Role: byUser, Text: text}
	if t.req.Desk.Requests != nil {
		if _, err := t.req.Desk.Requests.Write(encode(e)); err != nil {
			return fmt.Errorf("keep what the model is told: %w", err)
		}
	}
	return t.session.add(e)
}

// next asks the model until it gives a whole answer, and records it.
func (t *conversation) next(shaped bool) (reply, error) {
	heard, err := t.additions()
	if err != nil {
		return reply{}, err
	}
	q := query{model: t.agent.server.Model, system: t.system(), entries: t.session.entries, tools: t.allowedTools(),
		fields: t.fields}
	if shaped { // only then: many servers return no tool calls with a schema
		if q.schema = t.form.strict; t.agent.server.API == Chat {
			q.tools = nil
		}
	}
	s, err := t.ask(q)
	if err != nil {
		return reply{}, err
	}
	for _, a := range heard {
		if a.Delivered != nil {
			a.Delivered()
		}
	}
	t.model, t.used = s.model, addUsage(t.used, s.used)
	for i := range s.calls {
		if s.calls[i].ID == "" {
			s.calls[i].ID = rand.Text()[:9]
		}
	}
	e := entry{Role: byAssistant, Text: string(s.text), Calls: s.calls, Kept: s.kept}
	if len(s.calls) > 0 && t.agent.server.API == Chat {
		e.Thought = string(s.thought)
	}
	t.log.note(object{"type": "assistant", "text": e.Text, "calls": e.Calls})
	if err := t.session.add(e); err != nil {
		return reply{}, err
	}
	return s, t.show(s)
}

// show emits events for intermediate text of the model.
func (t *conversation) show(s reply) error {
	events := []agent.Event{{Kind: agent.EventUsage, Usage: &t.used}}
	if len(s.thought) > 0 {
		events = append(events, agent.Event{Kind: agent.EventThought, Phase: "completed", Text: string(s.thought)})
	}
	if len(s.calls) > 0 && strings.TrimSpace(string(s.text)) != "" {
		events = append(events, agent.Event{Kind: agent.EventMessage, Phase: "completed", Text: string(s.text)})
	}
	for _, e := range events {
		if err := t.event(e); err != nil {
			return err
		}
	}
	return nil
}

// ask retries until the server gives a whole answer, or a retry cannot help.
func (t *conversation) ask(q query) (reply, error) {
	for try := 1; ; {
		t.watchdog.Active()
		s, err := t.client.ask(t.ctx, dialectOf(t.agent.server), q, t.log)
		var why *serverError
		switch {
		case t.ctx.Err() != nil:
			return s, context.Cause(t.ctx)
		case t.log.fault != nil:
			return s, t.log.fault
		case err == nil && s.cut:
			return s, &agent.Failure{Kind: agent.Limit,
				Message: "the model had no room to end its answer (its limit of tokens for one answer)"}
		case err == nil && s.refused:
			return s, &agent.Failure{Kind: agent.Refused, Message: "the model declined: " + text.Clip(string(s.text), 2000)}
		case err == nil:
			return s, nil
		case !errors.As(err, &why):
			return s, err
		}
		change, pause, again := t.adapt(&q, why), time.Duration(0), true
		if change == "" {
			pause, again = why.pause(try)
			try++
		}
		if !again {
			return s, why
		}
		if err := t.event(agent.Event{Kind: agent.EventError, WillRetry: true, Text: why.Error() + change}); err != nil {
			return s, err
		}
		if t.agent.wait(t.ctx, pause) != nil {
			return s, context.Cause(t.ctx)
		}
	}
}

// adapt changes a request for a server that may have refused it for something that it can do without, and says what is
// different, "" if nothing is. Fields are changed for the rest of the attempt.
func (t *conversation) adapt(q *query, why *serverError) string {
	if !why.unfit() {
		return ""
	}
	change := q.without(why.said, dialectOf(t.agent.server))
	if change == nil {
		if q.schema == nil {
			return ""
		}
		q.schema, q.tools = nil, t.allowedTools()
		return "; it is asked without a schema"
	}
	said := "; it is asked"
	for _, field := range slices.Sorted(maps.Keys(change)) {
		if t.fields[field] = change[field]; change[field] == nil {
			said += " without " + field
		} else {
			said += " with " + field
		}
	}
	return said
}

// useAll runs the requested tools, one after the other.
func (t *conversation) useAll(calls []call) error {
	for _, c := range calls {
		text, wrong, err := t.use(c)
		if err != nil {
			return err
		}
		if t.ctx.Err() != nil {
			return context.Cause(t.ctx)
		}
		if err := t.session.add(entry{Role: byTool, Call: c.ID, Text: text, Wrong: wrong}); err != nil {
			return err
		}
	}
	return nil
}

// event emits an event.
func (t *conversation) event(e agent.Event) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.fault == nil {
		t.fault = t.emit(e)
	}
	return t.fault
}
