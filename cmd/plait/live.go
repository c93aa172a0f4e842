package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/plait-run/plait/internal/store"
)

// A follower shows a task's events while it is driven: NDJSON, a live line, or
// plain lines.
type follower struct {
	cancel context.CancelFunc
	done   sync.WaitGroup
}

// follow begins to show the events of row's task that are still to come.
func (a *app) follow(w *workplace, row store.Thread) *follower {
	ctx, cancel := context.WithCancel(context.Background())
	f := &follower{cancel: cancel}
	var show func(store.Event)
	var live *liveView
	tell := newNarrator()
	switch {
	case a.json:
		show = func(ev store.Event) { a.line(ev) }
	case isTerminal(a.err) && a.getenv("TERM") != "dumb":
		live = &liveView{narrator: tell, out: a.err, style: a.style(a.err), width: width(a.err)}
		show = live.event
	default:
		show = func(ev store.Event) { tell.line(a.err, ev) }
	}
	var after int64
	if events, err := w.store.Events(ctx, 0, store.EventFilter{Task: row.Task}); err == nil {
		for _, ev := range events {
			tell.hear(ev)
			after = ev.Pos
		}
	}
	f.done.Add(1)
	go func() {
		defer f.done.Done()
		if live != nil {
			defer live.clear()
		}
		streamEvents(ctx, w.store, store.EventFilter{Task: row.Task}, after, live, show)
	}()
	return f
}

// stop shows what is left and ends.
func (f *follower) stop() {
	f.cancel()
	f.done.Wait()
}

// streamEvents hands on events after pos until ctx ends, and then those that
// are there already.
func streamEvents(ctx context.Context, s store.Store, filter store.EventFilter, pos int64, live *liveView, show func(store.Event)) error {
	for seen := pos; ; {
		events, err := s.Events(context.WithoutCancel(ctx), pos, filter)
		if err != nil {
			return err
		}
		for _, ev := range events {
			show(ev)
			pos = ev.Pos
		}
		if ctx.Err() != nil {
			return nil
		}
		wait, cancel := ctx, context.CancelFunc(func() {})
		if live != nil {
			live.draw()
			wait, cancel = context.WithTimeout(ctx, time.Second) // for the clock
		}
		if last, err := s.Wait(wait, max(seen, pos)); err == nil {
			seen = last // beyond others' events, so as not to wake for them again
		}
		cancel()
	}
}

// A liveView keeps what is finished above a line for each agent at work, which
// says what it does now.
type liveView struct {
	*narrator
	out   io.Writer
	style style
	width int

	working []*doing // in the order of their beginnings
	tokens  int64    // of the steps that are done
	drawn   int      // lines
}

// A doing is an agent at work.
type doing struct {
	attempt, name, last string
	since               time.Time
	tokens              int64
}

func (l *liveView) event(ev store.Event) {
	l.hear(ev)
	p := fields(ev)
	at := slices.IndexFunc(l.working, func(d *doing) bool { return d.attempt == ev.Attempt })
	switch ev.Type {
	case "attempt.started":
		role, _ := p["role"].(string)
		l.working = append(l.working, &doing{attempt: ev.Attempt, name: l.name(ev, role), last: "started", since: time.UnixMilli(ev.TS)})
	case "agent.item":
		if at < 0 {
			return
		}
		_, list := items(ev)
		for _, it := range list {
			if text := itemLine(it); text != "" {
				l.working[at].last = text
			}
			if it.Usage != nil {
				l.working[at].tokens = it.Usage.InputTokens + it.Usage.OutputTokens
			}
		}
	case "gate.blocked":
		l.above(l.describe(ev))
		if at >= 0 {
			l.working[at].last = "waits for an answer"
		}
	case "attempt.completed":
		if u, ok := p["usage"].(map[string]any); ok {
			in, _ := u["inputTokens"].(float64)
			out, _ := u["outputTokens"].(float64)
			l.tokens += int64(in + out)
		}
		took := ""
		if at >= 0 {
			took = time.UnixMilli(ev.TS).Sub(l.working[at].since).Round(10 * time.Millisecond).String()
		}
		l.above(l.describe(ev) + " " + l.style.dim(took))
	default:
		if text := l.describe(ev); text != "" && ev.Type != "task.created" {
			l.above(text)
		}
	}
	switch ev.Type {
	case "attempt.completed", "attempt.failed", "attempt.interrupted":
		if at >= 0 {
			l.working = slices.Delete(l.working, at, at+1)
		}
	}
}

// above prints a line that stays.
func (l *liveView) above(text string) {
	l.clear()
	fmt.Fprintln(l.out, strings.TrimRight(text, " "))
}

// maxLive is how many agents have a line of their own.
const maxLive = 12

// draw shows the lines that move: who, the last thing done, tokens, time.
func (l *liveView) draw() {
	l.clear()
	for i, d := range l.working {
		if i == maxLive {
			fmt.Fprintf(l.out, "%s\n", l.style.dim(fmt.Sprintf("… and %d more", len(l.working)-maxLive)))
			l.drawn++
			break
		}
		text := fmt.Sprintf("%-12s %s", d.name, d.last)
		tail := time.Since(d.since).Round(time.Second).String()
		tokens := d.tokens
		if len(l.working) == 1 {
			tokens += l.tokens
		}
		if tokens > 0 {
			tail = fmt.Sprintf("%d tokens  %s", tokens, tail)
		}
		text = shorten(text, max(l.width-len(tail)-3, 10))
		fmt.Fprintf(l.out, "%s  %s\n", text, l.style.dim(tail))
		l.drawn++
	}
}

// clear takes the lines that move away again.
func (l *liveView) clear() {
	if l.drawn > 0 {
		fmt.Fprint(l.out, strings.Repeat("\x1b[A", l.drawn)+"\r\x1b[J")
		l.drawn = 0
	}
}

func width(out io.Writer) int {
	if f, ok := out.(*os.File); ok {
		if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 20 {
			return w
		}
	}
	return 80
}
