package tui

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"charm.land/bubbles/v2/textinput"
	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/text"
	"github.com/plait-run/plait/internal/view"
)

// plain returns a line without colors.
func plain(s string) string { return ansi.Strip(s) }

// A taskPane shows one task: its questions, its tree, and its result.
type taskPane struct {
	id      string
	read    *taskRead // nil until it is read
	cursor  string    // see keys
	talk    textinput.Model
	talking bool
	saying  string // sent, but not yet known to be accepted
	top     int    // number of lines scrolled to read below the tree
	most    int    // maximum of top
	find    find
}

// resize sets the size of the pane.
func (p *taskPane) resize(now time.Time, width, height int) {
	p.talk.SetWidth(max(width-3, 8))
	p.most = max(len(p.lines(now, width, math.MaxInt32, false))-height, 0)
	p.top = min(p.top, p.most)
}

func newTaskPane(id string) *taskPane {
	return &taskPane{id: id, talk: newLine("say something to the task")}
}

// branches returns the current tree.
func (p *taskPane) branches() []branch {
	if p.read == nil {
		return nil
	}
	all := tree(p.read.task, p.read.doing)
	return slices.DeleteFunc(all, func(b branch) bool { return !p.find.has(b.name, b.agent, b.doing, string(b.state)) })
}

// keys identifies the rows that can be selected: questions by id, agents by thread and role.
func (p *taskPane) keys() []string {
	if p.read == nil {
		return nil
	}
	var out []string
	for _, a := range p.read.asked {
		out = append(out, a.gate.ID)
	}
	for _, b := range p.branches() {
		out = append(out, b.key())
	}
	return out
}

func (b branch) key() string { return b.thread + " " + b.role + " " + b.name }

// take updates the pane. If the selected row is gone, the first agent is selected.
func (p *taskPane) take(r taskRead) {
	p.read = &r
	p.settle()
}

// settle selects an agent unless a row is selected.
func (p *taskPane) settle() {
	if !slices.Contains(p.keys(), p.cursor) {
		p.cursor = ""
		if all := p.branches(); len(all) > 0 {
			p.cursor = all[0].key()
		}
	}
}

func (p *taskPane) move(by int) {
	keys := p.keys()
	if len(keys) == 0 {
		return
	}
	at := max(slices.Index(keys, p.cursor), 0) + by
	if at >= len(keys) {
		p.top = min(p.top+at-len(keys)+1, p.most) // there is more to read below the tree
	} else if p.top > 0 && by < 0 {
		p.top = max(p.top+by, 0)
		return
	}
	p.cursor = keys[min(max(at, 0), len(keys)-1)]
}

// on returns the selected question or, if none is selected, the selected agent.
func (p *taskPane) on() (gate string, b branch) {
	if p.read == nil {
		return "", branch{}
	}
	for _, a := range p.read.asked {
		if a.gate.ID == p.cursor {
			return a.gate.ID, branch{}
		}
	}
	for _, b := range p.branches() {
		if b.key() == p.cursor {
			return "", b
		}
	}
	return "", branch{}
}

// talks reports whether the task is a conversation.
func (p *taskPane) talks() bool { return p.read != nil && p.read.task.Flow == flow.ChatFlow }

// ended reports whether the task has ended permanently.
func (r *taskRead) ended() bool {
	switch r.task.Display.State {
	case view.DisplayDone, view.DisplayCancelled:
		return true
	}
	return r.task.Status == store.Failed
}

// head renders the title and state of the task in two lines.
func (r *taskRead) head(now time.Time, width int) []string {
	t := r.task
	parts := []string{stateStyle(t.Display.State).Bold(true).Render(string(t.Display.State))}
	if c := t.Controller; c != nil && c.Total > 0 {
		parts = append(parts, fmt.Sprintf("%d/%d actions done", c.Done, c.Total))
	}
	took := r.record.Times(now)
	parts = append(parts, elapsed(took.Elapsed)+" elapsed", elapsed(took.Work)+" work")
	if c := cost(t.Usage.InputTokens+t.Usage.OutputTokens, t.Usage.CostMicroUSD); c != "" {
		parts = append(parts, c)
	}
	if r.driven && !r.driving {
		parts = append(parts, "runs in another process")
	}
	if t.Display.Reason != "" {
		parts = append(parts, text.OneLine(t.Display.Reason, 200))
	}
	return []string{
		fit(bold.Render(t.Short)+"  "+text.OneLine(t.Title, 200)+dim.Render("  "+t.Flow), width),
		fit(strings.Join(parts, dim.Render(" · ")), width),
	}
}

// availableKeys lists the keys that apply to the task in its current state.
func (p *taskPane) availableKeys() string {
	keys := "↑↓ Enter open · d changes · F fork · t talk"
	switch r := p.read; {
	case r == nil:
	case r.driving:
		keys += " · s stop · c cancel"
	case r.task.Status == store.Failed || r.task.Status == store.Cancelled:
		keys += " · r retry"
	case r.driven:
		keys += " · c cancel"
	case !r.ended():
		keys += " · r resume · c cancel"
	}
	return keys + " · ? keys · Esc back"
}

// lines renders the pane.
func (p *taskPane) lines(now time.Time, width, height int, focus bool) []string {
	if p.read == nil {
		return []string{dim.Render("reading …")}
	}
	head := append(p.read.head(now, width), "")
	var out []string
	cursor := 0
	add := func(key, l string) {
		if focus && key == p.cursor {
			cursor = len(out)
			l = selected(l, width, !p.talking)
		}
		out = append(out, l)
	}
	for _, a := range p.read.asked {
		add(a.gate.ID, askLine(a, width))
	}
	branches := p.branches()
	for i, l := range treeLines(branches, p.read.record.Times(now), width-1) {
		add(branches[i].key(), " "+l)
	}
	if width >= stepsFrom && len(p.read.steps) > 0 && !p.talks() {
		out = append(out, stepLines(p.read.steps, width)...)
	}
	out = append(out, p.said(width)...)
	foot := 0
	if p.talking {
		foot = 2
	}
	room := max(height-len(head)-foot, 1)
	if top := min(p.top, max(len(out)-room, 0)); top > 0 { // there is more to read below the tree
		out = out[top : top+room]
	}
	out = append(head, window(out, cursor, room)...)
	if p.talking {
		out = append(out, "", p.talk.View())
	}
	return out
}

// said renders the result, or the newest part of a conversation.
func (p *taskPane) said(width int) []string {
	if p.talks() {
		out := []string{""}
		for _, t := range p.read.turns {
			out = append(out, turnLines(t, width)...)
		}
		return out
	}
	if p.read.ended() && strings.TrimSpace(p.read.result) != "" {
		return append([]string{"", bold.Render("RESULT")}, wrapText(p.read.result, width)...)
	}
	return nil
}

// turnLines renders a turn of a conversation.
func turnLines(t turn, width int) []string {
	var out []string
	for i, l := range wrapText(t.text, width-2) {
		lead := "  "
		if t.person && i == 0 {
			lead = "› "
		}
		if t.person {
			l = bold.Render(l)
		}
		out = append(out, lead+l)
	}
	return append(out, "")
}

// askLine renders a question of the task on one line.
func askLine(a gateCard, width int) string {
	sign := "? "
	if a.gate.Kind == store.GateApproval {
		sign = "! "
	}
	tail := "  " + text.OneLine(a.gate.Node, 24)
	room := max(width-len([]rune(tail))-4, 16)
	return fit("  "+asks.Render(sign+pad(line(view.About(a.gate), room), room))+dim.Render(tail), width)
}

// refused puts text that was not accepted back into the input line.
func (p *taskPane) refused() {
	if p.saying != "" && !p.talking {
		p.talk.SetValue(p.saying)
		p.talk.CursorEnd()
		p.talking = true
	}
	p.saying = ""
}

// inputKey handles a key of the input line.
func (p *taskPane) inputKey(k tea.KeyPressMsg) []order {
	switch k.String() {
	case "esc":
		p.talking = false
	case "enter":
		said := strings.TrimSpace(p.talk.Value())
		p.talk.Reset()
		p.talking, p.saying = false, said
		if said != "" {
			return []order{continueTask{p.id, said}}
		}
	default:
		p.talk, _ = p.talk.Update(k)
	}
	return nil
}
