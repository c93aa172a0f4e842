package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/event"
	"github.com/plait-run/plait/internal/store"
)

// Bounds of what is taken of an attempt's events as evidence.
const (
	maxDeeds      = 500
	maxDeedOutput = 1 << 20  // bytes of one
	maxDeedBytes  = 32 << 20 // bytes of all
	maxDeedText   = 8 << 10  // bytes of a command line
	maxDeedFiles  = 100      // files of one change
)

// A gatherer collects from the events of an attempt what becomes evidence: the
// commands and file changes that ended. Events come from one goroutine at a time.
type gatherer struct {
	deeds  []deed
	bytes  int
	missed int // deeds beyond what is kept
}

// A deed is a command or a file change that ended.
type deed struct {
	kind   string // an event's
	phase  string
	text   string
	exit   *int
	output string
	files  []agent.File
	notes  []string // what of it is not kept
}

// recall returns what was seen of the attempts at a step that were cut off in the session
// that goes on: the agent remembers it, and may cite it.
func (e *Engine) recall(ctx context.Context, c *cursor, p *prepared) (*gatherer, error) {
	g := &gatherer{}
	cut := map[string]bool{}
	for _, a := range c.tries {
		cut[a.ID] = p.session != "" && a.Session == p.session && a.Status == store.AttemptInterrupted
	}
	if len(cut) == 0 {
		return g, nil
	}
	events, err := e.cfg.Store.Events(context.WithoutCancel(ctx), 0, store.EventFilter{Task: c.row.Task, Thread: c.row.ID, Types: event.Types(event.AgentItems{})})
	if err != nil {
		return nil, fmt.Errorf("read what was seen of attempt %s: %w", p.row.ID, err)
	}
	for _, ev := range events {
		told, ok := event.Read(ev).(event.AgentItems)
		if !cut[ev.Attempt] || !ok {
			continue
		}
		for _, data := range told.Items {
			var item agent.Event
			if json.Unmarshal(data, &item) == nil {
				g.see(item)
			}
		}
	}
	return g, nil
}

// hear returns emit, and sees every event before it.
func (g *gatherer) hear(emit func(agent.Event) error) func(agent.Event) error {
	return func(ev agent.Event) error {
		g.see(ev)
		return emit(ev)
	}
}

// see takes in an event.
func (g *gatherer) see(ev agent.Event) {
	d := deed{kind: ev.Kind, phase: ev.Phase, exit: ev.Exit}
	switch {
	case ev.Kind == agent.EventCommand && (ev.Phase == "completed" || ev.Phase == "failed" || ev.Phase == "declined"):
	case ev.Kind == agent.EventFile && ev.Phase == "completed" && len(ev.Files) > 0:
	default:
		return
	}
	if len(g.deeds) == maxDeeds {
		g.missed++
		return
	}
	if d.text = ev.Text; len(d.text) > maxDeedText {
		d.text = strings.Clone(d.text[:maxDeedText])
		d.notes = append(d.notes, "the command line goes on")
	}
	g.bytes += len(d.text)
	if strings.HasPrefix(ev.Output, "…") { // so agents mark what they cut
		d.notes = append(d.notes, "the agent told only the end of its output; the transcript of the step has the rest")
	}
	d.output = g.keep(&d, "its output", ev.Output, maxDeedOutput)
	for i, f := range ev.Files {
		if i == maxDeedFiles {
			d.notes = append(d.notes, fmt.Sprintf("%d further files are not listed", len(ev.Files)-i))
			break
		}
		f.Path = g.keep(&d, "a path", f.Path, maxDeedText)
		f.Diff = g.keep(&d, "the diff of a file", f.Diff, maxDeedOutput)
		d.files = append(d.files, f)
	}
	g.deeds = append(g.deeds, d)
}

// keep returns the end of s that there is room for, and notes what is lost.
func (g *gatherer) keep(d *deed, what, s string, most int) string {
	room := max(0, min(most, maxDeedBytes-g.bytes))
	if over := len(s) - room; over > 0 {
		if s = strings.Clone(s[over:]); room == 0 {
			d.notes = append(d.notes, what+" is not kept: there was too much")
		} else {
			d.notes = append(d.notes, fmt.Sprintf("%s is cut: %d bytes before it are not kept", what, over))
		}
	}
	g.bytes += len(s)
	return s
}
