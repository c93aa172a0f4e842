// Package discreet keeps known secrets out of what an agent writes, reports and asks. The agent still has them: what a
// person approves is done as the agent asked.
package discreet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/sys/secret"
)

// A Listener receives the events of an agent.
type Listener struct {
	secrets *secret.Set
	to      func(agent.Event) error
	logs    []*secret.Writer
	items   map[string]*streamed // by kind and id
}

// A streamed item is one whose text or output comes in pieces. A secret may be in two of them.
type streamed struct {
	of           agent.Event // its kind, id and phase
	text, output pieces
}

// pieces are texts that follow each other.
type pieces struct {
	out bytes.Buffer
	in  *secret.Writer
}

// next returns as much of the text so far as can be told.
func (p *pieces) next(text string) string {
	io.WriteString(p.in, text) // neither this nor Flush can fail
	defer p.out.Reset()
	return p.out.String()
}

// last returns the rest.
func (p *pieces) last() string {
	p.in.Flush()
	return p.out.String()
}

// Of returns the request with which an agent works, and what listens to it in place of emit.
func Of(secrets *secret.Set, req agent.Request, emit func(agent.Event) error) (agent.Request, *Listener) {
	l := &Listener{secrets: secrets, to: emit, items: map[string]*streamed{}}
	req.Desk.Secrets = secrets
	for _, log := range []*io.Writer{&req.Desk.Raw, &req.Desk.Stderr, &req.Desk.Requests} {
		if *log != nil {
			w := secrets.Writer(*log)
			l.logs, *log = append(l.logs, w), w
		}
	}
	if ask := req.Ask; ask != nil {
		req.Ask = func(ctx context.Context, q agent.Question) (agent.Answer, error) { return ask(ctx, l.question(q)) }
	}
	return req, l
}

// Emit passes an event on.
func (l *Listener) Emit(ev agent.Event) error {
	key := ev.Kind + " " + ev.ID
	if ev.ID != "" && ev.Phase == "updated" && ev.Kind != agent.EventPlan {
		it := l.items[key]
		if it == nil {
			it = &streamed{of: agent.Event{Kind: ev.Kind, ID: ev.ID, Phase: ev.Phase}}
			it.text.in, it.output.in = l.secrets.Writer(&it.text.out), l.secrets.Writer(&it.output.out)
			l.items[key] = it
		}
		ev.Text, ev.Output = it.text.next(ev.Text), it.output.next(ev.Output)
	} else {
		if err := l.rest(key); err != nil {
			return err
		}
		ev.Text, ev.Output = l.secrets.Text(ev.Text), l.secrets.Text(ev.Output)
	}
	ev.Asked, ev.Detail, ev.Files = l.secrets.Text(ev.Asked), l.json(ev.Detail), slices.Clone(ev.Files)
	for i := range ev.Files {
		f := &ev.Files[i]
		f.Path, f.Diff = l.secrets.Text(f.Path), l.secrets.Text(f.Diff)
	}
	return l.to(ev)
}

// rest passes on what was held back of an item.
func (l *Listener) rest(key string) error {
	it := l.items[key]
	if it == nil {
		return nil
	}
	delete(l.items, key)
	if it.of.Text, it.of.Output = it.text.last(), it.output.last(); it.of.Text == "" && it.of.Output == "" {
		return nil
	}
	return l.to(it.of)
}

// End completes the logs and the events once the agent has ended.
func (l *Listener) End() error {
	var errs []error
	for _, log := range l.logs {
		errs = append(errs, log.Flush())
	}
	for _, key := range slices.Sorted(maps.Keys(l.items)) {
		errs = append(errs, l.rest(key))
	}
	return errors.Join(errs...)
}

// question returns a question as people see it.
func (l *Listener) question(q agent.Question) agent.Question {
	a, text := &q.Action, l.secrets.Text
	q.Text = text(q.Text)
	a.Command, a.Cwd, a.Diff, a.Tool, a.Params = text(a.Command), text(a.Cwd), text(a.Diff), text(a.Tool), l.json(a.Params)
	return q
}

// json replaces secrets in JSON. A secret of digits may also be in a number.
func (l *Listener) json(text json.RawMessage) json.RawMessage {
	out := l.secrets.Bytes(text)
	if len(text) > 0 && !json.Valid(out) {
		return json.RawMessage(`"***"`)
	}
	return out
}
