package view

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/sys/text"
)

// A Sentence says what happened in plain words.
type Sentence struct {
	Who    string // the agent or part it is about, "" for the task
	Text   string
	Detail bool       // one of several things that an agent did, or that happened to its files
	Asks   store.Gate // the gate that was opened, with its ID and Kind; no ID: none
}

// A Narrator turns events into sentences. It keeps track of paths and calls to distinguish roles
// of the same name.
type Narrator struct {
	Merged func(join dag.Hash) string // how the files of paths were merged; nil: not known
	Named  func(text string) string   // replaces thread ids by names; nil: text is left alone
	// All adds what matters only afterwards: evidence, plans, the state of the task.
	All bool
	// Acts has the threads of actions. Those that an event mentions are added.
	Acts map[string]bool

	labels map[string]string // by thread: "api", "api/develop"; none for the root
	parts  map[string]int    // by thread: number of paths or agents started
}

// NewNarrator returns a Narrator. labels are the names of parts by thread, nil for none.
func NewNarrator(labels map[string]string) *Narrator {
	if labels == nil {
		labels = map[string]string{}
	}
	return &Narrator{labels: labels, Acts: map[string]bool{}, parts: map[string]int{}}
}

// Observe records the threads that an event mentions.
func (n *Narrator) Observe(ev store.Event) {
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
			n.Acts[id] = p.Join == thread.RoleJoin
			if i < len(p.Paths) {
				n.labels[id] = under(ev.Thread, text.FirstLine(p.Paths[i], 40))
			}
		}
	case event.ThreadStarted:
		if p.Parent != nil && p.Kind == store.KindCall {
			n.labels[ev.Thread] = under(p.Parent.Thread, text.FirstLine(p.Flow, 40))
		}
	}
}

// Label returns the name of a thread as a part of its task, "" for the task itself.
func (n *Narrator) Label(thread string) string { return n.labels[thread] }

// Tell returns sentences that say what an event means, none if it is not worth mentioning.
func (n *Narrator) Tell(ev store.Event) []Sentence {
	n.Observe(ev)
	var out []Sentence
	switch p := event.Read(ev).(type) {
	case event.AgentItems:
		_, items := Items(ev)
		for _, it := range items {
			if text := Describe(it); text != "" {
				out = append(out, Sentence{Who: n.name(ev, p.Role), Text: text, Detail: true})
			}
		}
	case event.ThreadJoined:
		out = append([]Sentence{{Who: n.labels[ev.Thread], Text: n.joined(ev, p)}}, n.files(ev, p.Step)...)
	default:
		if s := n.sentence(ev); s.Text != "" {
			out = []Sentence{s}
		}
	}
	for i := range out {
		if n.Named != nil {
			out[i].Text = n.Named(out[i].Text)
		}
	}
	return out
}

// name returns who an event of a role is about.
func (n *Narrator) name(ev store.Event, role string) string {
	role = text.FirstLine(role, 40)
	switch label := n.labels[ev.Thread]; {
	case label == "":
		return role
	case label == role || strings.HasSuffix(label, "/"+role): // an action
		return label
	default:
		return label + "/" + role
	}
}

// sentence describes an event of a task, a thread or a gate.
func (n *Narrator) sentence(ev store.Event) Sentence {
	part := func(format string, args ...any) Sentence { // about a path or a called thread
		return Sentence{Who: n.labels[ev.Thread], Text: fmt.Sprintf(format, args...)}
	}
	role := func(name, format string, args ...any) Sentence {
		return Sentence{Who: n.name(ev, name), Text: fmt.Sprintf(format, args...)}
	}
	switch p := event.Read(ev).(type) {
	case event.TaskCreated:
		return Sentence{Text: "task " + ev.Task + " started: flow " + eventText(p.Flow)}
	case event.TaskImported:
		return Sentence{Text: "task " + ev.Task + " imported"}
	case event.TaskAdopted:
		return Sentence{Who: eventText(p.By), Text: "took over the task"}
	case event.TaskRedacted:
		if p.Reason == "" {
			return Sentence{Who: eventText(p.By), Text: "a text was redacted"}
		}
		return Sentence{Who: eventText(p.By), Text: "a text was redacted: " + eventText(string(p.Reason))}
	case event.ThreadForked:
		return part("%s", forked(p))
	case event.ThreadResumed:
		return part("resumed (was %s)", eventText(p.From))
	case event.ThreadCompacted:
		return part("summarized %s (step %d)", number(p.Steps, "step"), p.N)
	case event.ThreadDelayed:
		if p.Worker == "" {
			return part("%s", eventText(p.Message))
		}
		return part("worker %s cannot do it: %s; tried again at %s", eventText(p.Worker), eventText(p.Message), Time(p.Until))
	case event.ThreadBlocked, event.ThreadEnded:
		return part("%s", endOf(p))
	case event.ArtifactWritten:
		return Sentence{Who: ev.Instance, Text: "wrote " + eventText(strings.Join(p.Names, " "))}
	case event.GateChanged:
		return n.gate(ev, p)
	case event.NotesRead:
		if p.Gate != "" {
			return Sentence{Text: "human-notes.md answers " + p.Gate + ": " + eventText(p.Text)}
		}
		return Sentence{Text: "human-notes.md: " + eventText(p.Text)}
	case event.NotesRefused:
		return Sentence{Text: "human-notes.md was not read: " + eventText(p.Message)}
	case event.LimitReached:
		return part("limit reached: %s", eventText(p.Message))
	case event.AttemptStarted:
		if p.Try > 1 {
			return role(p.Role, "started again (attempt %d, %s)", p.Try, eventText(p.Agent))
		}
		return role(p.Role, "started (%s)", eventText(p.Agent))
	case event.AttemptCompleted:
		return role(p.Role, "→ %s (step %d)", eventText(p.Status), p.N)
	case event.AttemptFailed:
		return role(p.Role, "failed (%s): %s", eventText(p.Kind), eventText(p.Message))
	case event.AgentEnded:
		if p.Child != "" {
			return role(p.Role, "→ %s (step %d)", eventText(p.Status), p.N)
		}
	}
	if n.All {
		return n.detail(ev)
	}
	return Sentence{}
}

// detail describes an event that matters only afterwards.
func (n *Narrator) detail(ev store.Event) Sentence {
	who := n.labels[ev.Thread]
	switch p := event.Read(ev).(type) {
	case event.TaskUpdated:
		if p.Intent == store.IntentDismiss {
			return Sentence{Text: "someone dismissed it"}
		}
		if p.Intent != "" {
			return Sentence{Text: "someone asked to " + eventText(p.Intent) + " it"}
		}
		return Sentence{Text: "the task is now " + strings.ReplaceAll(eventText(p.State), "-", " ")}
	case event.TaskOptions:
		return Sentence{Who: eventText(p.By), Text: "changed the task's options"}
	case event.RequestMade:
		if p.Kind == store.RequestInput {
			return Sentence{Who: eventText(p.By), Text: "said something to it"}
		}
		return Sentence{Who: eventText(p.By), Text: "asked to " + eventText(p.Kind) + " it"}
	case event.RequestTaken:
		if p.Kind == store.RequestInput {
			return Sentence{Who: who, Text: "what was said to it was taken"}
		}
		return Sentence{Who: who, Text: "the request to " + eventText(p.Kind) + " it was taken"}
	case event.TaskEnded:
		return Sentence{Text: fmt.Sprintf("the task ended (%s, exit code %d)", eventText(p.State), p.Code)}
	case event.ControllerChanged:
		return Sentence{Who: who, Text: "the plan is now " + eventText(p.State)}
	case event.ThreadStarted:
		return Sentence{Who: who, Text: "started flow " + eventText(p.Flow)}
	case event.ThreadCalled:
		return Sentence{Who: n.name(ev, p.Role), Text: "called flow " + eventText(p.Flow)}
	case event.ThreadAttested:
		return Sentence{Text: "a proof of the task was made"}
	case event.ThreadRemoved:
		return Sentence{Text: "the task was removed"}
	case event.MergeDecided:
		if p.From == p.To {
			return Sentence{Who: who, Text: eventText(p.Join) + ": no files are merged"}
		}
		return Sentence{Who: who, Text: eventText(p.Join) + ": files will be merged"}
	case event.AttemptSuperseded:
		return Sentence{Who: n.name(ev, p.Role), Text: "was too late: the step had been made"}
	case event.FlowRegistered:
		return Sentence{Who: eventText(p.By), Text: "registered flow " + eventText(p.Name)}
	case event.FlowRemoved:
		return Sentence{Who: eventText(p.By), Text: "removed flow " + eventText(p.Name)}
	case event.KeyAdmitted:
		return Sentence{Who: eventText(p.By), Text: "vouches for the log key of " + eventText(p.Host)}
	case event.KeyRevoked:
		return Sentence{Who: eventText(p.By), Text: "revoked the log key " + eventText(p.Key)}
	case event.HistoryAccepted:
		return Sentence{Who: eventText(p.By), Text: "accepted the history: " + eventText(string(p.Reason))}
	case event.ImportBegun:
		return Sentence{Text: "the import of task " + eventText(p.Task) + " began"}
	case event.JoinDecided:
		text := eventText(p.Join) + ": decided, " + eventText(p.Outcome)
		if len(p.Cancel) > 0 {
			text += "; cancelling " + eventText(strings.Join(p.Cancel, ", "))
		}
		return Sentence{Who: who, Text: text}
	case event.AgentStarted:
		return Sentence{Who: ev.Instance, Text: "began work as " + eventText(p.Role) + " (" + eventText(p.Agent) + ")"}
	case event.AgentEnded:
		if n.Acts[ev.Thread] && flow.ActionEnds(p.Status) == flow.PathFailed {
			p.State = store.Failed // older records have completed
		}
		text := string(NewDisplay(p.State, nil, nil).State)
		why := cmp.Or(thread.Plainly(string(p.Message)), p.Status)
		return Sentence{Who: ev.Instance, Text: text + colon(eventText(why))}
	case event.EvidenceAdded:
		return Sentence{Who: ev.Instance, Text: "recorded evidence" + colon(eventText(cmp.Or(p.Title, p.ID)))}
	case event.GateChanged:
		return Sentence{Who: n.name(ev, p.Node), Text: "the answer to " + p.Gate + " was used"}
	}
	return Sentence{}
}

func colon(text string) string {
	if text == "" {
		return ""
	}
	return ": " + text
}

// forked describes the threads that were started, or what a thread was forked from.
func forked(p event.ThreadForked) string {
	list := eventText(strings.Join(p.Paths, ", "))
	switch {
	case p.Fork == "":
		return fmt.Sprintf("forked from %s at step %d", p.From, p.N)
	case p.Join == thread.RoleJoin:
		return fmt.Sprintf("%s started %s: %s", eventText(p.Fork), number(len(p.Paths), "agent"), list)
	}
	return fmt.Sprintf("%s: %s started (%s)", eventText(p.Fork), number(len(p.Paths), "path"), list)
}

// joined describes how paths or agents ended.
func (n *Narrator) joined(ev store.Event, p event.ThreadJoined) string {
	parts := n.parts[ev.Thread]
	if p.Join == thread.RoleJoin {
		switch {
		case p.Outcome != flow.Joined:
			return fmt.Sprintf("%s finished: %s", number(parts, "agent"), eventText(p.Outcome))
		case parts == 1:
			return "the agent finished"
		case parts == 0: // they were started before the first observed event
			return "the agents finished"
		}
		return fmt.Sprintf("all %d agents finished", parts)
	}
	text := eventText(p.Join) + ": " + eventText(p.Outcome) + " (" + number(parts, "path") + ")" // failed ones, too
	if p.DecidedBy != "" {
		text += ", decided by " + eventText(p.DecidedBy)
	}
	return text
}

// endOf returns the state of a path or a sub-flow that is blocked or has ended, or "" for one
// that waits for others: those are reported separately.
func endOf(payload any) string {
	state, why := DisplayState(""), event.Text("")
	switch p := payload.(type) {
	case event.ThreadBlocked:
		if p.Kind == store.ReasonChild {
			return ""
		}
		state, why = NewDisplay(store.Blocked, &Reason{Kind: p.Kind}, nil).State, p.Message
		if p.Kind == store.ReasonLimit { // a gate asks about it
			state = DisplayNeedsYou
		}
	case event.ThreadEnded:
		state = NewDisplay(p.Status, nil, nil).State
		if string(p.Summary) != string(p.Status) {
			why = p.Summary
		}
	}
	return string(state) + colon(eventText(thread.Plainly(string(why))))
}

// gate describes a question or an approval that changed.
func (n *Narrator) gate(ev store.Event, p event.GateChanged) Sentence {
	s := Sentence{Who: cmp.Or(ev.Instance, n.name(ev, p.Node))}
	switch p.Change {
	case event.GateUsed:
		if n.All {
			return n.detail(ev)
		}
		return Sentence{}
	case event.GateBlocked:
		s.Text = "needs you: " + text.OneLine(Question(string(p.Question)), 160)
		s.Asks = store.Gate{ID: p.Gate, Kind: p.Kind}
		return s
	}
	did := string(p.Change)
	if p.Change == event.Change(store.GateRejected) {
		did = "denied"
	}
	s.Text = did
	if !p.Edited.IsZero() {
		s.Text += " with another input"
	}
	if p.By == "" { // no person answered
		s.Text = KindWord(p.Kind) + " " + s.Text
		return s
	}
	s.Text += " by " + eventText(p.By)
	return s
}

// KindWord returns what users call gates of a kind.
func KindWord(kind store.GateKind) string {
	if kind == store.GateInput {
		return "question"
	}
	return string(kind)
}

// eventText returns one line of a text from an event.
func eventText[S ~string](s S) string { return text.FirstLine(string(s), 160) }

// number formats a count with its noun. A count of 0 is not known.
func number(n int, what string) string {
	if n == 0 {
		return "the " + what + "s"
	}
	return text.Count(n, what)
}

// files describes how a join merged the files of its paths.
func (n *Narrator) files(ev store.Event, step dag.Hash) []Sentence {
	if n.Merged == nil {
		return nil
	}
	var out []Sentence
	for line := range strings.Lines(n.Merged(step)) {
		line = text.FirstLine(strings.TrimPrefix(line, "- "), 200)
		out = append(out, Sentence{Who: n.labels[ev.Thread], Text: line, Detail: true})
	}
	return out
}
