package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/plait-run/plait/internal/dag"
	"github.com/plait-run/plait/internal/event"
	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/thread"
)

// A narrator says events in a few words. It remembers which thread is which path
// or call, so that roles of the same name are told apart.
type narrator struct {
	labels map[string]string          // by thread: "api", "api/develop"; none for the root
	proofs map[string][]string        // by attempt: what evidence it added
	merged func(join dag.Hash) string // what became of the files of paths; nil: nobody knows
}

func newNarrator() *narrator {
	return &narrator{labels: map[string]string{}, proofs: map[string][]string{}}
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
	case event.EvidenceAdded:
		n.proofs[ev.Attempt] = append(n.proofs[ev.Attempt], oneLine(p.ID, 100))
	case event.ThreadForked:
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
	at := time.UnixMilli(ev.TS).Format("15:04:05")
	for line := range strings.SplitSeq(text, "\n") {
		fmt.Fprintf(out, "%s  %s\n", at, line)
	}
}

// describe says an event in a few words.
func (n *narrator) describe(ev store.Event) string {
	// part begins a line about a path or a called thread.
	part := func(format string, args ...any) string {
		text := fmt.Sprintf(format, args...)
		if label := n.labels[ev.Thread]; label != "" {
			return fmt.Sprintf("%-12s %s", label, text)
		}
		return text
	}
	switch p := event.Read(ev).(type) {
	case event.TaskCreated:
		return "task " + ev.Task + " created from flow " + said(p.Flow)
	case event.ThreadForked:
		into := said(strings.Join(p.Paths, " "))
		switch {
		case p.Fork == "":
			return fmt.Sprintf("forked from %s at step %d", p.From, p.N)
		case p.Join == thread.RoleJoin:
			return part("%s sets %s to work", said(p.Fork), into)
		}
		return part("fork %s into %s", said(p.Fork), into)
	case event.ControllerChanged:
		if p.State != event.Init {
			return fmt.Sprintf("%-12s %s", cmp.Or(n.labels[ev.Thread], "controller"), said(p.State))
		}
	case event.ThreadJoined:
		what := "join " + said(p.Join) + " →"
		if p.Join == thread.RoleJoin {
			what = "the actions have ended:"
		}
		return part("%s %s%s  (step %d, %s)", what, said(p.Outcome), by(said(p.DecidedBy)), p.N, p.Step.Short()) +
			n.files(ev, p.Step)
	case event.ThreadResumed:
		return part("resumed (was %s)", said(p.From))
	case event.ThreadCompacted:
		return part("%d steps summarised  (step %d, %s)", p.Steps, p.N, p.Step.Short())
	case event.ThreadBlocked:
		return part("blocked (%s): %s", said(p.Kind), said(p.Message))
	case event.ThreadEnded:
		if p.Summary != "" && string(p.Summary) != string(p.Status) {
			return part("%s: %s", said(p.Status), said(p.Summary))
		}
		return part("%s", said(p.Status))
	case event.ArtifactWritten:
		return fmt.Sprintf("%-12s left %s", ev.Instance, said(strings.Join(p.Names, " ")))
	case event.GateChanged:
		who := cmp.Or(ev.Instance, n.name(ev, p.Node))
		switch p.Change {
		case event.GateBlocked:
			return fmt.Sprintf("%-12s asks: %s  (plait gate show %s)", who, said(p.Question), p.Gate)
		case event.GateUsed:
			return ""
		}
		return fmt.Sprintf("%-12s gate %s %s%s", who, p.Gate, p.Change, by(said(p.By)))
	case event.NotesRead:
		if p.Gate != "" {
			return "notes answer gate " + p.Gate + ": " + said(p.Text)
		}
		return "notes read: " + said(p.Text)
	case event.NotesRefused:
		return "notes are not read: " + said(p.Message)
	case event.LimitReached:
		return part("limit reached: %s", said(p.Message))
	case event.AgentItems:
		return itemLines(ev, n.name(ev, p.Role))
	}
	return n.describeAttempt(ev)
}

// describeAttempt says an event of an attempt in a few words.
func (n *narrator) describeAttempt(ev store.Event) string {
	about := func(role string) string { return fmt.Sprintf("%-12s", n.name(ev, role)) }
	switch p := event.Read(ev).(type) {
	case event.AttemptStarted:
		if p.Try > 1 {
			return fmt.Sprintf("%s started again (attempt %d, %s)", about(p.Role), p.Try, said(p.Agent))
		}
		return fmt.Sprintf("%s started (%s)", about(p.Role), said(p.Agent))
	case event.AttemptCompleted:
		return fmt.Sprintf("%s → %s  (step %d, %s)", about(p.Role), said(p.Status), p.N, p.Step.Short())
	case event.AttemptFailed:
		return fmt.Sprintf("%s failed (%s): %s", about(p.Role), said(p.Kind), said(p.Message))
	case event.AgentEnded:
		if ids := n.proofs[ev.Attempt]; len(ids) > 0 {
			return fmt.Sprintf("%s   + %s", about(p.Role), counted(ids))
		}
		if p.Child != "" {
			return fmt.Sprintf("%s → %s  (step %d, %s)", about(p.Role), said(p.Status), p.N, p.Step.Short())
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
		text += fmt.Sprintf("\n%-12s   %s", n.labels[ev.Thread], oneLine(strings.TrimPrefix(line, "- "), 200))
	}
	return text
}

// counted says what evidence was added.
func counted(ids []string) string {
	switch n := len(ids); n {
	case 1:
		return "evidence:" + ids[0]
	case 2:
		return "evidence:" + ids[0] + ", evidence:" + ids[1]
	default:
		return fmt.Sprintf("%d entries of evidence, evidence:%s to %s", n, ids[0], ids[n-1])
	}
}

func by(who string) string {
	if who == "" {
		return ""
	}
	return " by " + who
}
