package tui

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/plait-run/plait/internal/gate"
	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/view"
)

// A Plain asks line by line, one question after the other, and moves nothing that it has written: for
// screen readers and for terminals that can do no more.
type Plain struct {
	cfg   Config
	typed chan string

	mu     sync.Mutex // one writes at a time
	prompt string     // that waits for a line
}

// maxTyped bounds a line that is typed, in bytes.
const maxTyped = 1 << 20

// NewPlain returns one that reads lines from cfg.In until its end.
func NewPlain(cfg Config) *Plain {
	p := &Plain{cfg: cfg, typed: make(chan string)}
	go func() {
		defer close(p.typed)
		in := bufio.NewScanner(cfg.In)
		in.Buffer(nil, maxTyped)
		for in.Scan() {
			p.typed <- in.Text()
		}
	}()
	return p
}

// Write writes what is shown beside the questions. A prompt that it interrupts is written again.
func (p *Plain) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(b)
	if p.prompt != "" {
		b = append(append([]byte("\n"), b...), p.prompt...)
	}
	if _, err := p.cfg.Out.Write(b); err != nil {
		return 0, err
	}
	return n, nil
}

// ask writes a prompt, after which a line is waited for. With "", none is any more.
func (p *Plain) ask(prompt string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.prompt = prompt
	io.WriteString(p.cfg.Out, prompt)
}

// Line asks for one line. io.EOF when there is no more.
func (p *Plain) Line(ctx context.Context, prompt string) (string, error) {
	p.ask(prompt)
	defer p.ask("")
	select {
	case l, ok := <-p.typed:
		p.ask("")
		if !ok {
			fmt.Fprintln(p)
			return "", io.EOF
		}
		return l, nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// Ask asks what is open, and what will be, until ctx ends, the task that is asked for has ended, or
// there is no more to read. done is told of each answer; nil: nobody.
func (p *Plain) Ask(ctx context.Context, task string, done func(store.Gate)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	feed := p.cfg.Views.GateFeed(view.GateFilter{All: p.cfg.All, Task: task})
	type news struct {
		gates []store.Gate
		over  bool
		err   error
	}
	heard := make(chan news)
	go func() {
		for {
			var n news
			if n.gates, n.err = feed.Next(ctx); n.err == nil {
				n.over, n.err = feed.Over(ctx)
			}
			select {
			case heard <- n:
			case <-ctx.Done():
				return
			}
			if n.err != nil || n.over {
				return
			}
			feed.Wait(ctx, 0)
		}
	}()
	var open []store.Gate
	var shown *question
	for {
		var typed chan string
		if shown != nil {
			typed = p.typed
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case n := <-heard:
			if n.err != nil || n.over {
				return n.err
			}
			open = changed(open, n.gates)
			if shown != nil && !slices.ContainsFunc(open, func(g store.Gate) bool { return g.ID == shown.gate.ID }) {
				p.ask("")
				fmt.Fprintf(p, "\n%s needs no answer any more.\n", shown.gate.ID)
				shown = nil
			}
		case l, ok := <-typed:
			p.ask("")
			if !ok {
				fmt.Fprintln(p)
				return io.EOF
			}
			g, err := p.answer(ctx, shown, l)
			switch {
			case errors.Is(err, gate.ErrInvalid):
				fmt.Fprintln(p, view.Safe(err.Error()))
				p.askFor(shown)
				continue
			case err != nil && !errors.Is(err, store.ErrConflict) && !errors.Is(err, store.ErrNotFound):
				return err
			case err != nil:
				fmt.Fprintln(p, view.Safe(err.Error()))
			case g.ID == "":
				continue // nothing was decided
			default:
				fmt.Fprintf(p, "%s is %s.\n", g.ID, g.State)
				if done != nil {
					done(g)
				}
			}
			open = slices.DeleteFunc(open, func(o store.Gate) bool { return o.ID == shown.gate.ID })
			shown = nil
		}
		if shown == nil && len(open) > 0 {
			shown = p.show(ctx, open[0])
		}
	}
}

// changed are the open gates after what has happened to some.
func changed(open, news []store.Gate) []store.Gate {
	for _, g := range news {
		open = slices.DeleteFunc(open, func(o store.Gate) bool { return o.ID == g.ID })
		if g.State == store.GateOpen {
			open = append(open, g)
		}
	}
	return open
}

// plainWidth is how wide text is where nobody says how wide the terminal is.
const plainWidth = 78

// show writes a question whole, and asks for its answer.
func (p *Plain) show(ctx context.Context, g store.Gate) *question {
	d := newDesk(p.cfg, "")
	d.ctx = ctx
	a, err := d.asked(g)
	if err != nil {
		a = asked{gate: g}
	}
	q := newQuestion(a, time.Now())
	q.width = plainWidth
	fmt.Fprintln(p)
	for _, l := range q.body() {
		fmt.Fprintln(p, strings.TrimRight(plain(l), " "))
	}
	p.askFor(q)
	return q
}

// code is what must be typed with a yes. It belongs to one approval: what was typed for another, or
// ahead, approves nothing.
func (q *question) code() string { return strings.TrimPrefix(q.gate.ID, "g-")[:4] }

func (p *Plain) askFor(q *question) {
	if q.approval() {
		p.ask(fmt.Sprintf("Type \"approve %s\", or \"deny\" and a reason: ", q.code()))
		return
	}
	p.ask("Your answer: ")
}

// answer sends what a line says. The zero Gate says that it decided nothing.
func (p *Plain) answer(ctx context.Context, q *question, typed string) (store.Gate, error) {
	typed = strings.TrimSpace(strings.ToValidUTF8(typed, "\ufffd"))
	with := gate.Answer{By: p.cfg.Person, Via: store.ViaCLI, Digest: q.gate.Digest}
	word, rest, _ := strings.Cut(typed, " ")
	switch {
	case !q.approval() && typed == "":
		p.askFor(q)
		return store.Gate{}, nil
	case !q.approval():
		with.Text = choice(typed, q.gate.Options)
	case strings.EqualFold(typed, "approve "+q.code()):
		with.Approve = true
	case strings.EqualFold(word, "deny"):
		with.Reject, with.Text = true, strings.TrimSpace(rest)
	default:
		if typed != "" {
			fmt.Fprintln(p, "Nothing was approved or denied.")
		}
		p.askFor(q)
		return store.Gate{}, nil
	}
	return p.cfg.Book.Answer(ctx, q.gate.ID, with)
}
