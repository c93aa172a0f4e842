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

	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/text"
	"github.com/plait-run/plait/internal/view"
)

// A Plain asks one question at a time, line by line, and never redraws. It is for screen readers
// and simple terminals.
type Plain struct {
	cfg   Config
	typed chan string

	mu     sync.Mutex // held while writing
	prompt string     // the prompt that is waiting for a line
}

// maxTyped limits a line of input, in bytes.
const maxTyped = 1 << 20

// NewPlain returns a Plain that reads lines from cfg.In until its end.
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

// Write prints other output. If it interrupts a prompt, the prompt is printed again.
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

// ask prints a prompt and records that a line is expected; "" means none is.
func (p *Plain) ask(prompt string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.prompt = prompt
	io.WriteString(p.cfg.Out, prompt)
}

// Line asks for one line. It returns io.EOF at the end of the input.
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

// tooEarly says that a line that was typed before anything is asked answers nothing.
func (p *Plain) tooEarly(line string) {
	if strings.TrimSpace(line) != "" {
		fmt.Fprintln(p, "Nothing is asked now: that line was not sent.")
	}
}

// Ask asks open questions, including new ones, until ctx ends, task has ended, or there is no more
// input. done, if not nil, is called with each answered gate.
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
				n.over, n.err = feed.Ended(ctx)
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
	var typed <-chan string // nil until it is known what is asked
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case n := <-heard:
			if n.err != nil || n.over {
				return n.err
			}
			open, typed = changed(open, n.gates), p.typed
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
			if shown == nil {
				p.tooEarly(l)
				continue
			}
			g, err := p.answer(ctx, shown, l)
			switch {
			case errors.Is(err, gate.ErrInvalid):
				fmt.Fprintln(p, text.Safe(err.Error()))
				p.askFor(shown)
				continue
			case err != nil && !errors.Is(err, store.ErrConflict) && !errors.Is(err, store.ErrNotFound):
				return err
			case err != nil:
				fmt.Fprintln(p, text.Safe(err.Error()))
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

// changed returns the open gates after an update.
func changed(open, news []store.Gate) []store.Gate {
	for _, g := range news {
		open = slices.DeleteFunc(open, func(o store.Gate) bool { return o.ID == g.ID })
		if g.State == store.GateOpen {
			open = append(open, g)
		}
	}
	return open
}

// plainWidth is the width of text if the width of the terminal is not known.
const plainWidth = 78

// show prints a question and asks for its answer.
func (p *Plain) show(ctx context.Context, g store.Gate) *question {
	d := newDesk(p.cfg, "")
	d.ctx = ctx
	a, err := d.newGateCard(g)
	if err != nil {
		a = gateCard{gate: g}
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

// code returns what must be typed with "approve". It differs between approvals, so that input
// that was meant for another approval or typed ahead approves nothing.
func (q *question) code() string { return strings.TrimPrefix(q.gate.ID, "g-")[:4] }

func (p *Plain) askFor(q *question) {
	if q.approval() {
		p.ask(fmt.Sprintf("Type \"approve %s\", or \"deny\" and a reason: ", q.code()))
		return
	}
	p.ask("Your answer: ")
}

// answer handles a line of input. It returns the zero Gate if the line decided nothing.
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
