package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
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
	live := (*liveLine)(nil)
	switch {
	case a.json:
		show = func(ev store.Event) { a.line(ev) }
	case isTerminal(a.err) && a.getenv("TERM") != "dumb":
		live = &liveLine{out: a.err, style: a.style(a.err), width: width(a.err)}
		show = live.event
	default:
		show = func(ev store.Event) { plainLine(a.err, ev) }
	}
	var after int64
	if events, err := w.store.Events(ctx, 0, store.EventFilter{Task: row.Task}); err == nil && len(events) > 0 {
		after = events[len(events)-1].Pos
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
func streamEvents(ctx context.Context, s store.Store, filter store.EventFilter, pos int64, live *liveLine, show func(store.Event)) error {
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

// plainLine prints an event as one line, or nothing when it says little.
func plainLine(out io.Writer, ev store.Event) {
	text := describe(ev)
	if text == "" {
		return
	}
	at := time.UnixMilli(ev.TS).Format("15:04:05")
	for line := range strings.SplitSeq(text, "\n") {
		fmt.Fprintf(out, "%s  %s\n", at, line)
	}
}

// fields reads an event's payload.
func fields(ev store.Event) map[string]any {
	var m map[string]any
	json.Unmarshal(ev.Payload, &m) // no payload, no fields
	return m
}

// describe says an event in a few words.
func describe(ev store.Event) string {
	p := fields(ev)
	str := func(key string) string { s, _ := p[key].(string); return oneLine(s, 160) }
	switch ev.Type {
	case "task.created":
		return "task " + ev.Task + " created from flow " + str("flow")
	case "thread.forked":
		return "forked from " + str("from") + " at step " + fmt.Sprint(p["n"])
	case "thread.resumed":
		return "resumed (was " + str("from") + ")"
	case "thread.blocked":
		return "blocked (" + str("kind") + "): " + str("message")
	case "thread.ended":
		return str("status") + ": " + str("summary")
	case "attempt.started":
		if n, _ := p["try"].(float64); n > 1 {
			return fmt.Sprintf("%-12s started again (attempt %d, %s)", str("role"), int(n), str("agent"))
		}
		return fmt.Sprintf("%-12s started (%s)", str("role"), str("agent"))
	case "attempt.completed":
		return fmt.Sprintf("%-12s → %s  (step %v, %s)", str("role"), str("status"), p["n"], clipHash(str("step")))
	case "attempt.failed", "attempt.interrupted":
		return fmt.Sprintf("%-12s failed (%s): %s", str("role"), str("kind"), str("message"))
	case "artifact.written":
		return fmt.Sprintf("%-12s left %s", ev.Instance, oneLine(fmt.Sprint(p["names"]), 160))
	case "gate.blocked":
		return fmt.Sprintf("%-12s asks: %s  (plait gate show %s)", ev.Instance, str("question"), str("gate"))
	case "gate.approved", "gate.rejected", "gate.answered", "gate.expired", "gate.withdrawn":
		by := str("by")
		if by != "" {
			by = " by " + by
		}
		return fmt.Sprintf("%-12s gate %s %s%s", ev.Instance, str("gate"), strings.TrimPrefix(ev.Type, "gate."), by)
	case "limit.reached":
		return "limit reached: " + str("message")
	case "agent.item":
		return itemLines(ev)
	}
	return ""
}

func clipHash(h string) string {
	if len(h) > 12 {
		return h[:12]
	}
	return h
}

// A liveLine keeps finished steps above one line that says what happens now.
type liveLine struct {
	out   io.Writer
	style style
	width int

	role, last string
	since      time.Time
	tokens     int64 // of the steps that are done
	working    int64 // of the attempt that runs
	drawn      bool
}

func (l *liveLine) event(ev store.Event) {
	p := fields(ev)
	switch ev.Type {
	case "attempt.started":
		l.role, _ = p["role"].(string)
		l.since, l.last, l.working = time.UnixMilli(ev.TS), "started", 0
	case "agent.item":
		_, list := items(ev)
		for _, it := range list {
			if text := itemLine(it); text != "" {
				l.last = text
			}
			if it.Usage != nil {
				l.working = it.Usage.InputTokens + it.Usage.OutputTokens
			}
		}
	case "gate.blocked":
		l.above(describe(ev))
		l.last = "waits for an answer"
	case "attempt.completed":
		if u, ok := p["usage"].(map[string]any); ok {
			in, _ := u["inputTokens"].(float64)
			out, _ := u["outputTokens"].(float64)
			l.tokens += int64(in + out)
		}
		took := ""
		if !l.since.IsZero() {
			took = time.UnixMilli(ev.TS).Sub(l.since).Round(10 * time.Millisecond).String()
		}
		l.above(fmt.Sprintf("%s %s  %s", describe(ev), l.style.dim(took), ""))
		l.role = ""
	default:
		if text := describe(ev); text != "" && ev.Type != "task.created" {
			l.above(text)
		}
	}
}

// above prints a line that stays.
func (l *liveLine) above(text string) {
	l.clear()
	fmt.Fprintln(l.out, strings.TrimRight(text, " "))
}

// draw shows the line that moves: role, last event, tokens, time.
func (l *liveLine) draw() {
	if l.role == "" {
		l.clear()
		return
	}
	text := fmt.Sprintf("%-12s %s", l.role, l.last)
	tail := time.Since(l.since).Round(time.Second).String()
	if n := l.tokens + l.working; n > 0 {
		tail = fmt.Sprintf("%d tokens  %s", n, tail)
	}
	room := max(l.width-len(tail)-3, 10)
	if r := []rune(text); len(r) > room {
		text = string(r[:room-1]) + "…"
	}
	fmt.Fprintf(l.out, "\r\x1b[K%s  %s", text, l.style.dim(tail))
	l.drawn = true
}

func (l *liveLine) clear() {
	if l.drawn {
		fmt.Fprint(l.out, "\r\x1b[K")
		l.drawn = false
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
