package tui

import (
	"fmt"
	"strings"
	"time"

	"charm.land/bubbles/v2/textinput"
	tea "charm.land/bubbletea/v2"

	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/text"
	"github.com/plait-run/plait/internal/view"
	"github.com/plait-run/plait/internal/view/taskdir"
)

// A gateCard is an open question or approval, with its diff.
type gateCard struct {
	gate store.Gate
	diff string
	task string // short name
	// title is the title of the task.
	title   string
	program taskdir.Program // how users invoke it
}

// A question is a pane for one question or approval. It shows what was read when it was opened, and
// an answer counts only for the digest that was read.
type question struct {
	gateCard
	now    time.Time
	typed  textinput.Model
	reason bool   // the reason for a denial is being typed
	ready  bool   // it has been visible for lookTime: an earlier key approves nothing
	note   string // why a key did nothing
	gone   string // why it can no longer be answered
	sent   bool   // the answer is being sent

	width, height int
	top, seen     int // first visible line, and how many lines were visible so far
}

func newQuestion(a gateCard, now time.Time) *question {
	q := &question{gateCard: a, now: now, typed: newLine("your answer")}
	if a.gate.Kind == store.GateInput {
		q.typed.Focus()
	}
	return q
}

// newLine returns an input line for an answer.
func newLine(hint string) textinput.Model {
	t := textinput.New()
	t.Prompt, t.Placeholder, t.CharLimit = "› ", hint, 1<<16
	st := t.Styles()
	st.Cursor.Blink = false
	t.SetStyles(st)
	return t
}

// approval reports whether the question is an approval.
func (q *question) approval() bool { return q.gate.Kind == store.GateApproval }

// resize sets the size of the pane and records what is visible.
func (q *question) resize(width, height int) {
	if width != q.width {
		q.seen = 0
	}
	q.width, q.height = width, height
	q.typed.SetWidth(max(width-3, 8))
	room := max(height-len(q.foot()), 1)
	q.top = max(min(q.top, len(q.body())-room), 0)
	q.seen = max(q.seen, q.top+room)
}

// whole reports whether all of the question has been on the screen.
func (q *question) whole() bool { return q.seen >= len(q.body()) }

// body returns everything that must be seen before an answer.
func (q *question) body() []string {
	var out []string
	for _, l := range wrapText(view.About(q.gate), q.width) {
		out = append(out, bold.Render(l))
	}
	kind := "asks"
	if q.approval() {
		kind = "asks for approval"
	}
	by := fmt.Sprintf("%s %s · task %s %s · %s", view.Asker(q.gate), kind, q.task, q.title,
		text.Ago(q.gate.OpenedAt, q.now))
	if q.gate.ExpiresAt != 0 {
		by += ", expires " + text.In(q.gate.ExpiresAt, q.now)
	}
	out = append(out, dim.Render(line(by, q.width)))
	add := func(label, s string) {
		for i, l := range wrapText(s, q.width-10) {
			if i > 0 {
				label = ""
			}
			out = append(out, dim.Render(pad(label, 10))+l)
		}
	}
	if !q.approval() {
		for i, o := range q.gate.Options {
			add(fmt.Sprintf("  %d", i+1), o)
		}
	}
	if len(q.gate.Action) > 0 {
		act, all, err := view.Action(q.gate)
		if !all || err != nil {
			add("exactly", string(q.gate.Action))
		}
		if err == nil {
			add("command", act.Command)
			add("in", act.Cwd)
			add("tool", act.Tool)
			if act.Type != gate.FlowNode { // a FlowNode's only repeat the question and its place in the flow
				add("with", string(act.Params))
			}
			out = append(out, patch(act.Diff, q.width)...)
		}
		if d, err := gate.Digest(q.gate.Thread, q.gate.Action); q.approval() && (err != nil || d != q.gate.Digest) {
			add("WARNING", "the digest of this approval does not match its action")
		}
	}
	out = append(out, patch(q.diff, q.width)...)
	if gate.Editable(q.gate) {
		add("change", q.program.Says("plait approve ")+q.gate.ID+" --edit lets you change the input")
	}
	return out
}

// patch returns a diff as lines, with additions and deletions in color.
func patch(diff string, n int) []string {
	var out []string
	for _, l := range wrapText(diff, n) {
		switch {
		case strings.HasPrefix(l, "+"):
			l = good.Render(l)
		case strings.HasPrefix(l, "-"):
			l = bad.Render(l)
		case strings.HasPrefix(l, "@@"), strings.HasPrefix(l, "diff "):
			l = dim.Render(l)
		}
		out = append(out, l)
	}
	return out
}

// foot renders the input line and the keys.
func (q *question) foot() []string {
	out := []string{""}
	if q.note != "" {
		out = append(out, asks.Render(fit(q.note, q.width)))
	}
	keys := ""
	switch {
	case q.gone != "":
		out = append(out, asks.Render(fit(q.gone, q.width)))
		keys = "Esc back"
	case q.sent:
		keys = "sending …"
	case q.reason:
		out = append(out, q.typed.View())
		keys = "Enter denies, the reason is optional · Esc back"
	case !q.approval():
		out = append(out, q.typed.View())
		keys = "Enter sends · Esc back"
	case !q.whole():
		keys = "↓ shows the rest: see all of it first · d deny · Esc back"
	case !q.ready:
		keys = "d deny · Esc back"
	default:
		keys = "a approve · d deny · Esc back"
	}
	return append(out, dim.Render(fit(keys, q.width)))
}

// lines renders the pane.
func (q *question) lines() []string {
	body, foot := q.body(), q.foot()
	room := max(q.height-len(foot), 1)
	end := min(q.top+room, len(body))
	return append(body[min(q.top, end):end:end], foot...)
}

// typing reports whether keys are text.
func (q *question) typing() bool { return q.gone == "" && !q.sent && (q.reason || !q.approval()) }

// key handles a key. back reports whether to leave the pane.
func (q *question) key(k tea.KeyPressMsg) (todo []order, back bool) {
	q.note = ""
	switch name := k.String(); {
	case name == "esc" && q.reason:
		q.reason = false
		q.typed.Reset()
		return nil, false
	case name == "esc" || name == "q" && !q.typing():
		return nil, true
	case name == "up" || name == "down" || name == "pgup" || name == "pgdown":
		step := map[string]int{"up": -1, "down": 1, "pgup": 1 - q.height, "pgdown": q.height - 1}[name]
		q.top = max(q.top+step, 0)
		return nil, false
	case q.gone != "" || q.sent:
		return nil, false
	case q.typing() && name == "enter":
		return q.send(), false
	case q.typing():
		q.typed, _ = q.typed.Update(k)
	case name == "d":
		q.reason = true
		q.typed.Placeholder = "reason (optional)"
		q.typed.Focus()
	case name == "a":
		return q.approve(), false
	}
	return nil, false
}

// approve approves exactly what is shown, once all of it has been visible and lookTime has passed.
func (q *question) approve() []order {
	switch {
	case !q.whole():
		q.note = "Nothing was approved: ↓ shows the rest, see all of it first."
		return nil
	case !q.ready:
		q.note = "Nothing was approved: look at it first."
		return nil
	}
	q.sent = true
	return []order{answer{q.gate.ID, q.gate.Task, gate.Answer{Approve: true, Digest: q.gate.Digest}}}
}

// send sends the text: an answer, or the reason for a denial.
func (q *question) send() []order {
	said := q.typed.Value()
	if q.reason {
		q.sent = true
		return []order{answer{q.gate.ID, q.gate.Task, gate.Answer{Reject: true, Text: said, Digest: q.gate.Digest}}}
	}
	if strings.TrimSpace(said) == "" {
		q.note = "Nothing was sent: the answer is empty."
		return nil
	}
	q.sent = true
	return []order{answer{q.gate.ID, q.gate.Task, gate.Answer{Text: choice(said, q.gate.Options), Digest: q.gate.Digest}}}
}

// choice returns the option whose number was typed, otherwise the text itself.
func choice(said string, options []string) string {
	said = strings.TrimSpace(said)
	if len(said) == 1 && said[0] >= '1' && int(said[0]-'1') < len(options) {
		for _, o := range options {
			if o == said {
				return said
			}
		}
		return options[said[0]-'1']
	}
	return said
}

// check compares what is shown with the current state.
func (q *question) check(open []store.Gate) {
	for _, g := range open {
		if g.ID != q.gate.ID {
			continue
		}
		q.gone = "" // what said otherwise was read before it was asked
		if g.Digest != q.gate.Digest {
			q.gone = "It asks for something else now: go back and look at it again. Nothing was sent."
		}
		return
	}
	if !q.sent && q.gone == "" {
		q.gone = "It needs no answer any more: answered elsewhere, or withdrawn."
	}
}
