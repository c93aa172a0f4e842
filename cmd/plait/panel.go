package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/plait-run/plait/internal/dag"
	"github.com/plait-run/plait/internal/event"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/thread"
	"github.com/plait-run/plait/internal/view"
)

// A liveView keeps what is finished above a few lines that move: how the task stands,
// what waits for a person, and a line for each agent at work. It hears events and
// draws; only drawing writes.
type liveView struct {
	*narrator
	task  string
	out   io.Writer
	style style
	size  func() (cols, rows int)
	now   func() time.Time
	began time.Time
	most  int // agents at work at once; 0: not known
	row   func(thread string) (store.Thread, bool)
	plan  func(step dag.Hash) (*flow.Plan, bool)

	state   string        // of the controller, "" when no model plans
	waiting string        // the state before it was blocked
	plans   int           // of the root thread
	actions []*actionLine // of the newest plan
	working []*agentLine  // in the order of their beginnings
	gates   []gateLine
	tokens  int64 // of the attempts that have ended

	staying []string // lines that are to be printed above
	drawn   []string // the lines that move, as they stand
}

// An actionLine is an action of a plan.
type actionLine struct {
	id, thread string       // its newest thread
	status     store.Status // of that thread
	after      []string
}

// An agentLine is an agent at work.
type agentLine struct {
	attempt, name, agent, last string
	since                      time.Time
	tokens                     int64
}

// A gateLine is an open gate.
type gateLine struct{ id, who, question, command string }

// event takes in an event, and says it above.
func (l *liveView) event(ev store.Event) {
	l.hear(ev)
	at := slices.IndexFunc(l.working, func(d *agentLine) bool { return d.attempt == ev.Attempt })
	text := l.describe(ev)
	switch event.Read(ev).(type) {
	case event.TaskCreated, event.AttemptStarted:
		text = "" // its own line tells
	case event.AgentItems:
		text = "" // only the newest is shown
	case event.AttemptCompleted:
		if at >= 0 {
			text += " " + l.style.dim(lasted(time.UnixMilli(ev.TS).Sub(l.working[at].since)))
		}
	case event.NotesRead:
		text = l.style.dim(text)
	}
	if strings.TrimSpace(text) != "" {
		l.staying = append(l.staying, strings.TrimRight(text, " "))
	}
	l.past(ev)
}

// past takes in an event that was told already.
func (l *liveView) past(ev store.Event) {
	at := slices.IndexFunc(l.working, func(d *agentLine) bool { return d.attempt == ev.Attempt })
	over := false
	switch p := event.Read(ev).(type) {
	case event.TaskCreated:
		l.began = time.UnixMilli(ev.TS)
	case event.ControllerChanged:
		if ev.Thread == l.task {
			if l.state = oneLine(p.State, 40); l.state != event.Blocked {
				l.waiting = l.state
			}
		}
	case event.ThreadForked:
		l.dispatched(ev, p)
	case event.ThreadStarted:
		l.begun(ev, p)
	case event.ThreadResumed:
		if ev.Thread == l.task {
			l.began = time.UnixMilli(ev.TS)
			if l.state == event.Blocked {
				l.state = l.waiting
			}
		}
		l.became(ev.Thread, store.Running)
	case event.ThreadBlocked:
		l.became(ev.Thread, store.Blocked)
	case event.ThreadEnded:
		l.became(ev.Thread, store.Status(oneLine(string(p.Status), 40)))
	case event.AttemptStarted:
		l.working = append(l.working, &agentLine{
			attempt: ev.Attempt, name: l.name(ev, p.Role), agent: oneLine(p.Agent, 40), last: "started",
			since: time.UnixMilli(ev.TS),
		})
	case event.AgentItems:
		if at >= 0 {
			l.working[at].hear(ev)
		}
	case event.GateChanged:
		l.asked(ev, p, at)
	case event.AttemptCompleted:
		l.tokens += p.Usage.Tokens()
		over = true
	case event.AttemptFailed:
		over = true
	case event.AgentEnded:
		over = p.State == store.Cancelled
	}
	if over && at >= 0 {
		l.working = slices.Delete(l.working, at, at+1)
	}
}

// asked takes note of a gate that was opened or answered, by the agent at that place in
// l.working, if any.
func (l *liveView) asked(ev store.Event, p event.GateChanged, at int) {
	last := "goes on"
	switch p.Change {
	case event.GateUsed:
		return
	case event.GateBlocked:
		l.gates = append(l.gates, l.asks(ev, p))
		last = "waits for an answer"
	default:
		l.gates = slices.DeleteFunc(l.gates, func(g gateLine) bool { return g.id == p.Gate })
	}
	if at >= 0 {
		l.working[at].last = last
	}
}

// dispatched takes note of the actions of a plan of the root thread.
func (l *liveView) dispatched(ev store.Event, p event.ThreadForked) {
	if ev.Thread != l.task || p.Join != thread.RoleJoin || len(p.Paths) != len(p.Threads) {
		return
	}
	l.plans++
	l.actions = nil
	after := map[string][]string{}
	if l.plan != nil {
		if plan, ok := l.plan(p.Head); ok {
			after = plan.After()
		}
	}
	for i, id := range p.Paths {
		l.actions = append(l.actions, &actionLine{id, p.Threads[i], store.Pending, after[id]})
	}
}

// begun takes note of a thread that has started: that of an action, perhaps a new one.
func (l *liveView) begun(ev store.Event, p event.ThreadStarted) {
	if p.Parent == nil || p.Parent.Thread != l.task || len(l.actions) == 0 {
		return
	}
	if !l.became(ev.Thread, store.Running) && p.Kind != store.KindCall && l.row != nil {
		if t, ok := l.row(ev.Thread); ok && t.Path != nil && t.Path.Join == thread.RoleJoin {
			for _, d := range l.actions {
				if d.id == t.Path.ID {
					d.thread, d.status = t.ID, store.Running
				}
			}
		}
	}
}

// became notes the status of the action that a thread carries out.
func (l *liveView) became(thread string, status store.Status) bool {
	for _, d := range l.actions {
		if d.thread == thread {
			d.status = status
			return true
		}
	}
	return false
}

func (l *liveView) asks(ev store.Event, p event.GateChanged) gateLine {
	g := gateLine{id: p.Gate, who: l.name(ev, p.Node), question: oneLine(p.Question, 300)}
	if g.who == "" {
		g.who = oneLine(ev.Instance, 60)
	}
	g.command = commandLine(view.AnswersOf(store.Gate{ID: g.id, Kind: p.Kind})[0])
	return g
}

func (d *agentLine) hear(ev store.Event) {
	_, list := items(ev)
	for _, it := range list {
		if text := itemLine(it); text != "" {
			d.last = text
		}
		if it.Usage != nil {
			d.tokens = it.Usage.InputTokens + it.Usage.OutputTokens
		}
	}
}

// draw brings what is shown up to date, in one write.
func (l *liveView) draw() {
	cols, rows := l.size()
	lines := l.frame(cols, rows)
	if len(l.staying) == 0 && slices.Equal(lines, l.drawn) {
		return
	}
	l.show(cols, lines)
}

// clear takes the lines that move away, and prints what is to stay.
func (l *liveView) clear() {
	cols, _ := l.size()
	l.show(cols, nil)
}

func (l *liveView) show(cols int, lines []string) {
	var b strings.Builder
	if up := covered(l.drawn, cols); up > 0 {
		fmt.Fprintf(&b, "\x1b[%dA\r", up)
	}
	if len(l.staying) > 0 || covered(l.drawn, cols) != len(l.drawn) {
		b.WriteString("\x1b[J")
	}
	for _, line := range l.staying {
		b.WriteString(line + "\n")
	}
	for _, line := range lines {
		b.WriteString("\x1b[K" + line + "\n")
	}
	if len(lines) < len(l.drawn) {
		b.WriteString("\x1b[J")
	}
	l.staying, l.drawn = nil, lines
	if b.Len() > 0 {
		io.WriteString(l.out, b.String())
	}
}
