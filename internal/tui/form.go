package tui

import (
	"strings"

	"charm.land/bubbles/v2/textinput"
	tea "charm.land/bubbletea/v2"
)

// A form begins a task: what is to be done, and by which flow.
type form struct {
	flows  []string
	flow   int
	prompt textinput.Model
	note   string
	sent   bool
}

func newForm(flows []string) *form {
	f := &form{flows: flows, prompt: newLine("what is to be done")}
	f.prompt.Focus()
	for i, name := range flows {
		if name == "solo" {
			f.flow = i
		}
	}
	return f
}

// key takes in a key. back says that the form is to be left.
func (f *form) key(k tea.KeyPressMsg) (todo []order, back bool) {
	if f.sent {
		return nil, k.String() == "esc"
	}
	f.note = ""
	switch k.String() {
	case "esc":
		return nil, true
	case "tab", "down":
		f.flow = (f.flow + 1) % len(f.flows)
	case "shift+tab", "up":
		f.flow = (f.flow + len(f.flows) - 1) % len(f.flows)
	case "enter":
		prompt := strings.TrimSpace(f.prompt.Value())
		if prompt == "" {
			f.note = "Say what is to be done."
			return nil, false
		}
		f.sent = true
		return []order{begin{f.flows[f.flow], prompt}}, false
	default:
		f.prompt, _ = f.prompt.Update(k)
	}
	return nil, false
}

// lines draws the form.
func (f *form) lines(width int) []string {
	var names []string
	for i, name := range f.flows {
		if i == f.flow {
			name = marked.Render("[" + name + "]")
		} else {
			name = " " + name + " "
		}
		names = append(names, name)
	}
	out := append([]string{bold.Render("NEW TASK"), ""}, wrapped(names, width)...)
	out = append(out, "", f.prompt.View(), "")
	if f.note != "" {
		out = append(out, asks.Render(fit(f.note, width)))
	}
	keys := "Enter starts it · Tab another flow · Esc back"
	if f.sent {
		keys = "starting …"
	}
	return append(out, dim.Render(fit(keys, width)))
}

// wrapped are words on as many lines as they take.
func wrapped(words []string, width int) []string {
	var out []string
	line := ""
	for _, w := range words {
		if line != "" && len(plain(line))+1+len(plain(w)) > width {
			out = append(out, line)
			line = ""
		}
		line += w
	}
	return append(out, line)
}
