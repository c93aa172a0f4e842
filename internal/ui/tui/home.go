package tui

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/text"
	"github.com/plait-run/plait/internal/view"
)

// A home is the list of what needs a person, and of all tasks.
type home struct {
	tasks   []view.TaskRow
	gates   []store.Gate
	driving map[string]bool
	loaded  bool
	cursor  string // id of a gate or task, "" for none
	find    find
}

// listed returns the questions and tasks that have what is looked for.
func (h *home) listed() (gates []store.Gate, tasks []view.TaskRow) {
	for _, g := range h.gates {
		if t := h.row(g.Task); h.find.has(view.About(g), g.Node, t.Short, t.Title) {
			gates = append(gates, g)
		}
	}
	for _, t := range h.tasks {
		if h.find.has(t.Short, t.Title, t.Flow, string(t.Display.State), t.Display.Reason) {
			tasks = append(tasks, t)
		}
	}
	return gates, tasks
}

// ids returns the rows that can be selected, in order.
func (h *home) ids() []string {
	var out []string
	gates, tasks := h.listed()
	for _, g := range gates {
		out = append(out, g.ID)
	}
	for _, t := range tasks {
		out = append(out, t.ID)
	}
	return out
}

// gate returns a gate in the list.
func (h *home) gate(id string) (store.Gate, bool) {
	i := slices.IndexFunc(h.gates, func(g store.Gate) bool { return g.ID == id })
	if i < 0 {
		return store.Gate{}, false
	}
	return h.gates[i], true
}

// row returns a task in the list, or the zero row.
func (h *home) row(id string) view.TaskRow {
	for _, t := range h.tasks {
		if t.ID == id {
			return t
		}
	}
	return view.TaskRow{}
}

// under returns the selected task, or the task of the selected question.
func (h *home) under() string {
	if g, ok := h.gate(h.cursor); ok {
		return g.Task
	}
	return h.row(h.cursor).ID
}

// take updates the list. The selection stays on its row, and goes from a question that is gone to its task. If the row
// is gone, the selection moves to the row now in its place, but never to an approval, which the person has not asked to
// see.
func (h *home) take(o overview) {
	was, task := slices.Index(h.ids(), h.cursor), h.under()
	h.tasks, h.gates, h.driving, h.loaded = o.tasks, o.gates, o.driving, true
	if ids := h.ids(); !slices.Contains(ids, h.cursor) && slices.Contains(ids, task) {
		h.cursor = task
	}
	h.place(was)
}

// settle moves the selection to a row that is listed.
func (h *home) settle() { h.place(0) }

// place selects a row unless one is selected: the one that was in this place, or after it.
func (h *home) place(was int) {
	ids := h.ids()
	if slices.Contains(ids, h.cursor) {
		return
	}
	h.cursor = ""
	was = max(was, 0)
	for i := min(was, len(ids)-1); i >= 0 && i < len(ids); i++ {
		if g, ok := h.gate(ids[i]); !ok || g.Kind != store.GateApproval {
			h.cursor = ids[i]
			return
		}
	}
}

// move moves the selection by the given number of rows.
func (h *home) move(by int) {
	ids := h.ids()
	if len(ids) == 0 {
		return
	}
	at := slices.Index(ids, h.cursor)
	if at < 0 && by < 0 {
		at = len(ids)
	}
	h.cursor = ids[min(max(at+by, 0), len(ids)-1)]
}

// lines renders the list.
func (h *home) lines(now time.Time, width, height int, focus bool) []string {
	if !h.loaded {
		return []string{dim.Render("reading the record …")}
	}
	var out []string
	cursor := 0
	add := func(id, l string) {
		if id == h.cursor {
			cursor = len(out)
			l = selected(l, width, focus)
		}
		out = append(out, l)
	}
	gates, tasks := h.listed()
	needs := fmt.Sprintf("NEEDS YOU (%d)", len(h.gates))
	if len(h.gates) == 0 {
		out = append(out, bold.Render("NEEDS YOU"), dim.Render("  nothing"))
	} else {
		out = append(out, bold.Render(needs))
	}
	for _, g := range gates {
		add(g.ID, h.gateLine(g, now, width))
	}
	out = append(out, "", bold.Render("TASKS"))
	if len(h.tasks) == 0 {
		out = append(out, dim.Render(fit("  none yet: n starts one", width)))
	}
	if len(h.tasks) > 0 && len(tasks) == 0 {
		out = append(out, dim.Render("  none with this text"))
	}
	for _, t := range tasks {
		add(t.ID, taskLine(t, h.driving[t.ID], now, width))
	}
	return window(out, cursor, height)
}

// gateLine renders a question on one line: the question first, then who asks in which task.
func (h *home) gateLine(g store.Gate, now time.Time, width int) string {
	sign := asks.Render("? ")
	if g.Kind == store.GateApproval {
		sign = asks.Render("! ")
	}
	row := h.row(g.Task)
	tail := fmt.Sprintf("%s · %s  %4s", text.OneLine(g.Node, 20), row.Short, age(now.Sub(time.UnixMilli(g.OpenedAt))))
	if width >= 140 {
		tail = text.OneLine(row.Title, 50) + " · " + tail
	}
	room := max(width-len([]rune(tail))-6, 16)
	return fit("  "+sign+pad(line(view.About(g), room), room)+"  "+dim.Render(tail), width)
}

// taskLine renders a task on one line: name, state, title, reason, age, cost.
func taskLine(t view.TaskRow, here bool, now time.Time, width int) string {
	spent := cost(t.Usage.Tokens(), t.Usage.CostMicroUSD)
	tail := fmt.Sprintf("%8s %4s", spent, age(now.Sub(time.UnixMilli(int64(t.UpdatedAt)))))
	state := stateStyle(t.Display.State).Render(pad(string(t.Display.State), 9))
	head := "  " + pad(t.Short, 6) + " " + mark(t.Display.State) + " " + state + " "
	room := width - 21 - len(tail) - 1
	title, why := text.OneLine(t.Title, 200), t.Display.Reason
	if here {
		why = strings.TrimSuffix("runs here · "+why, " · ")
	}
	if why != "" && room >= 40 {
		part := max(room*3/5, room-len([]rune(why))-2)
		title = pad(title, part) + "  " + dim.Render(line(why, room-part-2))
	}
	return fit(head+pad(title, room)+" "+dim.Render(tail), width)
}

// selected marks the selected line, also with a character.
func selected(l string, width int, focus bool) string {
	l = "▸" + strings.TrimPrefix(l, " ")
	if !focus {
		return l
	}
	return marked.Render(pad(plain(l), width))
}

// window returns at most n of the lines, including the one at cursor.
func window(lines []string, cursor, n int) []string {
	if len(lines) <= n {
		return lines
	}
	from := min(max(cursor-n/2, 0), len(lines)-n)
	out := slices.Clone(lines[from : from+n])
	if rest := len(lines) - from - n; rest > 0 {
		out[n-1] = dim.Render(fmt.Sprintf("  + %d more", rest+1))
	}
	if from > 0 && n > 2 {
		out[0] = dim.Render(fmt.Sprintf("  + %d more above", from+1))
	}
	return out
}
