package evidence

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
)

// Bounds on the evidence taken from an attempt's events.
const (
	maxActivities     = 500
	maxActivityOutput = 1 << 20  // bytes of one
	maxActivityBytes  = 32 << 20 // bytes of all
	maxActivityText   = 8 << 10  // bytes of a command line
	maxActivityFiles  = 100      // files of one change
)

// Activities are the events of attempts at a step that become evidence: commands, file changes and tool calls that
// ended. The zero value has none. Events come from one goroutine at a time.
type Activities struct {
	turn       Turn           // of the attempt that works now
	attempt    string         // its id
	begun      map[string]int // tool calls that began, by id, with their lines in its transcript
	activities []activity
	bytes      int
	told       int // bytes that ended commands and tools told the agent
	missed     int // activities not kept
}

// An activity is a command, a file change or a tool call that ended.
type activity struct {
	turn    Turn
	attempt string
	kind    string // an event's
	phase   string
	text    string
	exit    *int
	output  string
	args    string // of a tool
	lines   [2]int // of a tool call, in the transcript of its attempt
	files   []agent.File
	notes   []string // what was not kept
}

// Before returns the activities of failed attempts at a step, those in the session that continues: the agent remembers
// them, and may cite them. tries are all attempts at the step, at a visit counted from 1.
func (c *Collector) Before(ctx context.Context, task string, visit int, tries []store.Attempt, session string) (
	*Activities, error) {
	g := &Activities{}
	known, logged, turns := map[string]bool{}, map[string]bool{}, map[string]Turn{}
	for i, a := range tries {
		turns[a.ID] = TurnOf(visit, i+1)
		logged[a.ID] = !a.Transcript.IsZero()
		if session != "" && a.Session == session && a.Failure != nil {
			known[a.ID] = true
		}
	}
	if len(known) == 0 {
		return g, nil
	}
	of := store.EventFilter{Task: task, Thread: tries[0].Thread, Types: event.Types(event.AgentItems{})}
	err := event.Each(ctx, c.cfg.Store, of, new(int64), func(ev store.Event) error {
		told, ok := event.Read(ev).(event.AgentItems)
		if !known[ev.Attempt] || !ok {
			return nil
		}
		g.Begin(ev.Attempt, turns[ev.Attempt])
		for _, data := range told.Items {
			var item agent.Event
			if json.Unmarshal(data, &item) != nil || item.Kind == agent.EventTool && !logged[ev.Attempt] {
				continue // a tool call is proved by lines of the transcript
			}
			g.record(item)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read what was seen of thread %s: %w", tries[0].Thread, err)
	}
	return g, nil
}

// Begin sets the attempt whose events follow.
func (g *Activities) Begin(attempt string, turn Turn) {
	if attempt != g.attempt {
		g.begun = nil // a later attempt may reuse ids of calls
	}
	g.attempt, g.turn = attempt, turn
}

// Told returns how many bytes ended commands and tools have told the agent.
func (g *Activities) Told() int { return g.told }

// Recording returns an emit that records every event before it calls emit.
func (g *Activities) Recording(emit func(agent.Event) error) func(agent.Event) error {
	return func(ev agent.Event) error {
		g.record(ev)
		return emit(ev)
	}
}

// record records an event.
func (g *Activities) record(ev agent.Event) {
	d := activity{turn: g.turn, attempt: g.attempt, kind: ev.Kind, phase: ev.Phase, exit: ev.Exit}
	ended := ev.Phase == "completed" || ev.Phase == "failed" || ev.Phase == "declined"
	if ended {
		g.told += len(ev.Output)
	}
	switch {
	case ev.Kind == agent.EventCommand && ended:
	case ev.Kind == agent.EventFile && ev.Phase == "completed" && len(ev.Files) > 0:
	case ev.Kind == agent.EventTool && ended:
		if d.lines = g.linesOf(ev); d.lines[0] == 0 {
			return // the transcript has no line for it
		}
		ev.Output = "" // the lines of the transcript have it
	case ev.Kind == agent.EventTool && ev.Phase == "started" && ev.Line > 0 && len(g.begun) < maxActivities:
		if g.begun == nil {
			g.begun = make(map[string]int)
		}
		g.begun[ev.ID] = ev.Line
		return
	default:
		return
	}
	if len(g.activities) == maxActivities {
		g.missed++
		return
	}
	if d.text = ev.Text; len(d.text) > maxActivityText {
		d.text = strings.Clone(d.text[:maxActivityText])
		d.notes = append(d.notes, "the command line goes on")
	}
	if ev.Asked != "" {
		d.notes = append(d.notes, "a person approved it in the place of: "+oneLine(ev.Asked))
	}
	if d.args = string(ev.Detail); len(d.args) > maxActivityText {
		d.args = strings.Clone(d.args[:maxActivityText])
	}
	g.bytes += len(d.text) + len(d.args)
	if strings.HasPrefix(ev.Output, "…") { // agents mark cut output this way
		d.notes = append(d.notes, "the agent reported only the tail of its output; the transcript of the step has the rest")
	}
	d.output = g.keep(&d, "its output", ev.Output, maxActivityOutput)
	for i, f := range ev.Files {
		if i == maxActivityFiles {
			d.notes = append(d.notes, fmt.Sprintf("%d further files are not listed", len(ev.Files)-i))
			break
		}
		f.Path = g.keep(&d, "a path", f.Path, maxActivityText)
		f.Diff = g.keep(&d, "the diff of a file", f.Diff, maxActivityOutput)
		d.files = append(d.files, f)
	}
	g.activities = append(g.activities, d)
}

// linesOf returns the lines of a tool call that ended: from the line that reports its start to the line that
// reports its end, if they exist.
func (g *Activities) linesOf(ev agent.Event) [2]int {
	first, last := g.begun[ev.ID], ev.Line
	delete(g.begun, ev.ID)
	if first == 0 {
		first = last
	}
	return [2]int{first, max(first, last)}
}

// keep returns as much of the end of s as there is room for, and notes what is lost.
func (g *Activities) keep(d *activity, what, s string, most int) string {
	room := max(0, min(most, maxActivityBytes-g.bytes))
	if over := len(s) - room; over > 0 {
		s = strings.Clone(s[over:])
		if room == 0 {
			d.notes = append(d.notes, what+" is not kept: there was too much")
		} else {
			d.notes = append(d.notes, fmt.Sprintf("%s is cut: %d bytes before it are not kept", what, over))
		}
	}
	g.bytes += len(s)
	return s
}
