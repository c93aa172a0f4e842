package tui

import (
	"fmt"
	"strings"

	"github.com/plait-run/plait/internal/sys/text"
)

// The tabs of a step pane.
const (
	tabOutput = iota
	tabPrompt
	tabFields
	tabChanges
	tabs
)

var tabNames = [tabs]string{"Output", "Prompt", "Fields", "Changes"}

// A stepPane shows one step of a task.
type stepPane struct {
	of   readStep // the requested step
	step *step    // nil until it is read
	gone string   // why it cannot be shown
	tab  int
	top  int
	// forks requests the fork prompt once the step is read.
	forks bool
	find  find

	width, height int
}

func (p *stepPane) resize(width, height int) {
	p.width, p.height = width, height
	p.top = max(min(p.top, len(p.body())-p.room()), 0)
}

func (p *stepPane) room() int { return max(p.height-3, 1) }

// body returns the text of the tab.
func (p *stepPane) body() []string {
	if p.step == nil {
		return nil
	}
	var out []string
	switch p.tab {
	case tabOutput:
		out = wrapText(p.step.output, p.width)
	case tabPrompt:
		out = wrapText(p.step.prompt, p.width)
	case tabFields:
		out = wrapText(p.step.fields, p.width)
	case tabChanges:
		if p.step.diff == "" {
			return wrapText(p.step.noDiff, p.width)
		}
		return patch(p.step.diff, p.width)
	}
	if len(out) == 0 {
		return []string{dim.Render("nothing")}
	}
	return out
}

// lines renders the pane.
func (p *stepPane) lines() []string {
	switch {
	case p.gone != "":
		return []string{dim.Render(fit(p.gone, p.width))}
	case p.step == nil:
		return []string{dim.Render("reading …")}
	}
	s := p.step
	head := fmt.Sprintf("%s  step %d of %d", bold.Render(text.OneLine(s.role, 40)), s.n, s.of)
	for _, part := range []string{s.status, s.agent, cost(s.tokens, s.micro)} {
		if part != "" {
			head += dim.Render(" · ") + text.OneLine(part, 40)
		}
	}
	if !s.ended.IsZero() && !s.began.IsZero() {
		head += dim.Render(" · ") + elapsed(s.ended.Sub(s.began).Milliseconds())
	}
	var names []string
	for i, name := range tabNames {
		if i == p.tab {
			name = "[" + name + "]"
		} else {
			name = " " + name + " "
		}
		names = append(names, name)
	}
	body := p.body()
	end := min(p.top+p.room(), len(body))
	where := ""
	if len(body) > p.room() {
		where = fmt.Sprintf("  %d–%d of %d", p.top+1, end, len(body))
	}
	out := []string{fit(head, p.width), fit(strings.Join(names, " ")+dim.Render(where), p.width), ""}
	for _, l := range body[min(p.top, end):end] {
		if p.find.text != "" && p.find.has(plain(l)) {
			l = marked.Render(plain(l))
		}
		out = append(out, l)
	}
	return out
}

// key handles a key.
func (p *stepPane) key(name string) []order {
	switch name {
	case "right", "tab":
		p.tab, p.top = (p.tab+1)%tabs, 0
	case "left", "shift+tab":
		p.tab, p.top = (p.tab+tabs-1)%tabs, 0
	case "o", "p", "f", "d":
		p.tab, p.top = strings.Index("opfd", name), 0
	case "up", "k":
		p.top--
	case "down", "j":
		p.top++
	case "pgup":
		p.top -= p.room()
	case "pgdown", "space":
		p.top += p.room()
	case "n":
		p.next(1, 1)
	case "N":
		p.next(-1, -1)
	case "home":
		p.top = 0
	case "end":
		p.top = len(p.body())
	case "[", "]":
		if p.step == nil {
			return nil
		}
		n := p.step.n + 1
		if name == "[" {
			n = p.step.n - 1
		}
		if n >= 1 && n <= p.step.of {
			p.of = readStep{thread: p.of.thread, n: n}
			return []order{p.of}
		}
	}
	return nil
}

// next scrolls to the next line with what is looked for. It begins at the given number of lines below the first visible
// one, and goes down if by is 1, up if it is -1.
func (p *stepPane) next(from, by int) {
	if p.find.text == "" {
		return
	}
	body := p.body()
	for at := p.top + from; at >= 0 && at < len(body); at += by {
		if p.find.has(plain(body[at])) {
			p.top = at
			return
		}
	}
}

// take shows a step that was read, if it is still the requested one.
func (p *stepPane) take(r stepRead) {
	if r.thread != p.of.thread || p.of.n != 0 && r.n != p.of.n {
		return
	}
	if r.err != nil {
		p.gone = text.OneLine(r.err.Error(), 200)
		return
	}
	p.step, p.gone = &r.step, ""
	p.of.n = r.n
}
