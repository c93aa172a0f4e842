package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/plait-run/plait/internal/dag"
	"github.com/plait-run/plait/internal/event"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/thread"
	"github.com/plait-run/plait/internal/view"
)

// A narrator says events in a few words. It remembers which thread is which path
// or call, so that roles of the same name are told apart.
type narrator struct {
	labels map[string]string          // by thread: "api", "api/develop"; none for the root
	parts  map[string]int             // by thread: how many paths or agents it has started
	merged func(join dag.Hash) string // what became of the files of paths; nil: nobody knows
	named  func(text string) string   // text with the names of threads for their ids; nil: as it is
	// ends says that how the task itself stands is told by somebody else, at its end.
	ends bool
}

func newNarrator() *narrator {
	return &narrator{labels: map[string]string{}, parts: map[string]int{}}
}

// hear takes note of the threads that an event tells of.
func (n *narrator) hear(ev store.Event) {
	under := func(parent, own string) string {
		if above := n.labels[parent]; above != "" {
			return above + "/" + own
		}
		return own
	}
	switch p := event.Read(ev).(type) {
	case event.ThreadForked:
		n.parts[ev.Thread] = len(p.Threads)
		for i, id := range p.Threads {
			if i < len(p.Paths) {
				n.labels[id] = under(ev.Thread, oneLine(p.Paths[i], 40))
			}
		}
	case event.ThreadStarted:
		if p.Parent != nil && p.Kind == store.KindCall {
			n.labels[ev.Thread] = under(p.Parent.Thread, oneLine(p.Flow, 40))
		}
	}
}

// name is who an event of a role is about.
func (n *narrator) name(ev store.Event, role string) string {
	role = oneLine(role, 40)
	switch label := n.labels[ev.Thread]; {
	case label == "":
		return role
	case label == role || strings.HasSuffix(label, "/"+role): // an action
		return label
	default:
		return label + "/" + role
	}
}

// line prints an event as one line or more, or nothing when it says little.
func (n *narrator) line(out io.Writer, ev store.Event) {
	n.hear(ev)
	text := n.describe(ev)
	if text == "" {
		return
	}
	if n.named != nil {
		text = n.named(text)
	}
	at := time.UnixMilli(ev.TS).Format("15:04:05")
	for line := range strings.SplitSeq(text, "\n") {
		fmt.Fprintf(out, "%s  %s\n", at, line)
	}
}

// column is a name at the beginning of a line.
func column(name string) string { return fmt.Sprintf("%-14s", name) }

// describe says an event in a few words.
func (n *narrator) describe(ev store.Event) string {
	// part begins a line about a path or a called thread.
	part := func(format string, args ...any) string {
		text := fmt.Sprintf(format, args...)
		if label := n.labels[ev.Thread]; label != "" {
			return column(label) + " " + text
		}
		return text
	}
	switch p := event.Read(ev).(type) {
	case event.TaskCreated:
		return "task " + ev.Task + " started: flow " + said(p.Flow)
	case event.ThreadForked:
		return part("%s", forked(p))
	case event.ThreadJoined:
		return part("%s", n.joined(ev, p)) + n.files(ev, p.Step)
	case event.ThreadResumed:
		return part("resumed (was %s)", said(p.From))
	case event.ThreadCompacted:
		return part("summarised %s (step %d)", count(p.Steps, "step"), p.N)
	case event.ThreadBlocked, event.ThreadEnded:
		if n.ends && n.labels[ev.Thread] == "" {
			return ""
		}
		if text := standing(p); text != "" {
			return part("%s", text)
		}
	case event.ArtifactWritten:
		return column(ev.Instance) + " wrote " + said(strings.Join(p.Names, " "))
	case event.GateChanged:
		return n.gate(ev, p)
	case event.NotesRead:
		if p.Gate != "" {
			return "human-notes.md answers " + p.Gate + ": " + said(p.Text)
		}
		return "human-notes.md: " + said(p.Text)
	case event.NotesRefused:
		return "human-notes.md was not read: " + said(p.Message)
	case event.LimitReached:
		return part("limit reached: %s", said(p.Message))
	case event.AgentItems:
		return itemLines(ev, n.name(ev, p.Role))
	}
	return n.describeAttempt(ev)
}

// forked says what was started beside the thread, or what it is a fork of.
func forked(p event.ThreadForked) string {
	list := said(strings.Join(p.Paths, ", "))
	switch {
	case p.Fork == "":
		return fmt.Sprintf("forked from %s at step %d", p.From, p.N)
	case p.Join == thread.RoleJoin:
		return fmt.Sprintf("%s started %s: %s", said(p.Fork), count(len(p.Paths), "agent"), list)
	}
	return fmt.Sprintf("%s: %s started (%s)", said(p.Fork), count(len(p.Paths), "path"), list)
}

// joined says what paths or agents came to.
func (n *narrator) joined(ev store.Event, p event.ThreadJoined) string {
	parts := n.parts[ev.Thread]
	if p.Join == thread.RoleJoin {
		switch {
		case p.Outcome != flow.Joined:
			return fmt.Sprintf("%s finished: %s", count(parts, "agent"), said(p.Outcome))
		case parts == 1:
			return "the agent finished"
		}
		return fmt.Sprintf("all %d agents finished", parts)
	}
	text := said(p.Join) + ": " + count(parts, "path") + " " + said(p.Outcome)
	if p.DecidedBy != "" {
		text += ", decided by " + said(p.DecidedBy)
	}
	return text
}

// standing says how a path or a sub-flow stands that is blocked or has ended. One that waits for others
// says nothing: they do.
func standing(payload any) string {
	state, why := view.DisplayState(""), event.Text("")
	switch p := payload.(type) {
	case event.ThreadBlocked:
		if p.Kind == store.ReasonChild {
			return ""
		}
		state, why = view.NewDisplay(store.Blocked, &view.Reason{Kind: p.Kind}, nil).State, p.Message
	case event.ThreadEnded:
		state = view.NewDisplay(p.Status, nil, nil).State
		if string(p.Summary) != string(p.Status) {
			why = p.Summary
		}
	}
	if why == "" {
		return string(state)
	}
	return string(state) + ": " + said(why)
}

// gate says what became of a question or an approval.
func (n *narrator) gate(ev store.Event, p event.GateChanged) string {
	who := column(cmp.Or(ev.Instance, n.name(ev, p.Node)))
	g := store.Gate{ID: p.Gate, Kind: p.Kind}
	switch p.Change {
	case event.GateUsed:
		return ""
	case event.GateBlocked:
		return fmt.Sprintf("%s needs you: %s  (%s)", who, questionLine(string(p.Question), 160),
			commandLine(view.AnswersOf(g)[0]))
	}
	return fmt.Sprintf("%s %s %s%s", who, kindWord(p.Kind), p.Change, by(said(p.By)))
}

// questionLine is a question on one line: agents begin some with a mark of a list.
func questionLine(text string, most int) string {
	return view.OneLine(view.Question(text), most)
}

// describeAttempt says an event of an attempt in a few words.
func (n *narrator) describeAttempt(ev store.Event) string {
	about := func(role string) string { return column(n.name(ev, role)) }
	switch p := event.Read(ev).(type) {
	case event.AttemptStarted:
		if p.Try > 1 {
			return fmt.Sprintf("%s started again (attempt %d, %s)", about(p.Role), p.Try, said(p.Agent))
		}
		return fmt.Sprintf("%s started (%s)", about(p.Role), said(p.Agent))
	case event.AttemptCompleted:
		return fmt.Sprintf("%s → %s (step %d)", about(p.Role), said(p.Status), p.N)
	case event.AttemptFailed:
		return fmt.Sprintf("%s failed (%s): %s", about(p.Role), said(p.Kind), said(p.Message))
	case event.AgentEnded:
		if p.Child != "" {
			return fmt.Sprintf("%s → %s (step %d)", about(p.Role), said(p.Status), p.N)
		}
	}
	return ""
}

// said is one line of what an event says.
func said[S ~string](text S) string { return oneLine(string(text), 160) }

// files says what became, at a join, of the files that its paths changed.
func (n *narrator) files(ev store.Event, step dag.Hash) string {
	if n.merged == nil {
		return ""
	}
	text := ""
	for line := range strings.Lines(n.merged(step)) {
		text += "\n" + column(n.labels[ev.Thread]) + "   " + oneLine(strings.TrimPrefix(line, "- "), 200)
	}
	return text
}

func by(who string) string {
	if who == "" {
		return ""
	}
	return " by " + who
}
