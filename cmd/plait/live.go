package main

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/plait-run/plait/internal/dag"
	"github.com/plait-run/plait/internal/flow"
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
	tell := w.narrator()
	tell.ends = true
	switch {
	case a.json && a.jq == nil:
		show = func(ev store.Event) { a.line(ev) }
	case isTerminal(a.err) && a.getenv("TERM") != "dumb":
		live = a.liveView(w, row, tell)
		show = live.event
	default:
		show = func(ev store.Event) { tell.line(a.err, ev) }
	}
	var after int64
	if events, err := w.store.Events(ctx, 0, store.EventFilter{Task: row.Task}); err == nil {
		for _, ev := range events {
			tell.hear(ev)
			if live != nil {
				live.past(ev)
			}
			after = ev.Pos
		}
	}
	if live != nil {
		live.began = time.Now()
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
func streamEvents(ctx context.Context, s store.Store, filter store.EventFilter, pos int64, live *liveView,
	show func(store.Event)) error {
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

// liveView returns the live view of a task on standard error.
func (a *app) liveView(w *workplace, row store.Thread, tell *narrator) *liveView {
	return &liveView{
		narrator: tell, task: row.Task, out: a.err, style: a.style(a.err), now: time.Now, began: time.Now(),
		most: w.mostAgents(row),
		size: func() (cols, rows int) { return screen(a.err) },
		row: func(id string) (store.Thread, bool) {
			t, err := w.store.Thread(context.Background(), id)
			return t, err == nil
		},
		plan: w.planAt,
	}
}

// narrator returns one that can look up what events do not say.
func (w *workplace) narrator() *narrator {
	n := newNarrator()
	n.merged = func(step dag.Hash) string {
		s, err := w.control.Reader().State(context.Background(), step)
		if err != nil {
			return "" // what cannot be read is not told; verify tells why
		}
		d, err := w.control.Reader().Detail(context.Background(), s.Detail)
		if err != nil || d == nil || d.Merge == nil {
			return ""
		}
		text := d.Merge.String()
		for _, line := range w.diffStat(context.Background(), d.Merge.From, d.Merge.To) {
			text += "  " + line + "\n"
		}
		return text
	}
	names := w.view().Names()
	n.named = func(text string) string { return names.In(context.Background(), text) }
	return n
}

// planAt reads the plan that a step made.
func (w *workplace) planAt(step dag.Hash) (*flow.Plan, bool) {
	s, err := w.control.Reader().State(context.Background(), step)
	if err != nil {
		return nil, false
	}
	var meta map[string]any
	if json.Unmarshal(s.Meta, &meta) != nil {
		return nil, false
	}
	p, err := new(flow.Definition).ReadPlan(meta, 0)
	return p, err == nil
}

// mostAgents is how many agents of a task may be at work at once, 0 when that is not
// known.
func (w *workplace) mostAgents(row store.Thread) int {
	bundle, err := w.control.Reader().Bundle(context.Background(), row.Bundle)
	if err != nil {
		return 0
	}
	var def, options struct {
		Limits struct {
			MaxConcurrent int `json:"maxConcurrent"`
		} `json:"limits"`
	}
	if json.Unmarshal(bundle.Flows[row.Flow], &def) != nil ||
		len(row.Options) > 0 && json.Unmarshal(row.Options, &options) != nil {
		return 0
	}
	l := flow.Limits{MaxConcurrent: def.Limits.MaxConcurrent}.Cap(w.settings.Limits)
	return cmp.Or(options.Limits.MaxConcurrent, l.MaxConcurrent)
}

// screen returns the columns and rows of a terminal; of anything else, those that most
// have.
func screen(out io.Writer) (cols, rows int) {
	if f, ok := out.(*os.File); ok {
		if w, h, err := term.GetSize(int(f.Fd())); err == nil && w > 0 && h > 0 {
			return w, h
		}
	}
	return 80, 24
}

func width(out io.Writer) int {
	if f, ok := out.(*os.File); ok {
		if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 20 {
			return w
		}
	}
	return 80
}
