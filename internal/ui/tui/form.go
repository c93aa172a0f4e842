package tui

import (
	"strings"

	"charm.land/bubbles/v2/textinput"
	tea "charm.land/bubbletea/v2"

	"github.com/plait-run/plait/internal/app/control"
)

// A form starts a task: its prompt, its flow, and whether to use a scripted model.
type form struct {
	flows     []control.KnownFlow
	flow      int
	scenarios []string // each with a tab and its description
	offline   int      // number of the chosen scenario, from 1; 0: none
	prompt    textinput.Model
	note      string
	sent      bool

	width, height int
}

// newForm returns an empty form.
func newForm(flows []control.KnownFlow, scenarios []string) form {
	f := form{flows: flows, scenarios: scenarios}
	if len(flows) == 0 {
		f.flows = []control.KnownFlow{{Name: "solo"}}
	}
	for i, known := range f.flows {
		if known.Name == "solo" {
			f.flow = i
		}
	}
	return f
}

// again returns a copy of the form to fill in.
func (f form) again() *form {
	f.prompt = newLine("what to do")
	f.prompt.Focus()
	return &f
}

func (f *form) resize(width, height int) {
	f.width, f.height = width, height
	f.prompt.SetWidth(max(width-3, 8))
}

// key handles a key. back reports whether to leave the form.
func (f *form) key(k tea.KeyPressMsg) (todo []order, back bool) {
	if f.sent {
		return nil, k.String() == "esc"
	}
	f.note = ""
	switch k.String() {
	case "esc":
		return nil, true
	case "down":
		f.flow = (f.flow + 1) % len(f.flows)
	case "up":
		f.flow = (f.flow + len(f.flows) - 1) % len(f.flows)
	case "tab":
		f.offline = (f.offline + 1) % (len(f.scenarios) + 1)
	case "shift+tab":
		f.offline = (f.offline + len(f.scenarios)) % (len(f.scenarios) + 1)
	case "enter":
		prompt := strings.TrimSpace(f.prompt.Value())
		if prompt == "" {
			f.note = "Say what to do."
			return nil, false
		}
		f.sent = true
		return []order{begin{f.flows[f.flow].Name, prompt, f.scenario()}}, false
	default:
		f.prompt, _ = f.prompt.Update(k)
	}
	return nil, false
}

// scenario returns the chosen scripted model, "" for none.
func (f *form) scenario() string {
	if f.offline == 0 {
		return ""
	}
	name, _, _ := strings.Cut(f.scenarios[f.offline-1], "\t")
	return name
}

// lines renders the form.
func (f *form) lines() []string {
	out := []string{bold.Render("NEW TASK"), "", f.prompt.View(), "", dim.Render("flow")}
	var rows []string
	for i, known := range f.flows {
		row := "  " + pad(line(known.Name, 24), 24) + " "
		room := max(f.width-len(known.Source)-len([]rune(row))-1, 8)
		row += pad(line(known.Description, room), room) + " " + dim.Render(known.Source)
		if i == f.flow {
			row = selected(row, f.width, true)
		}
		rows = append(rows, fit(row, f.width))
	}
	out = append(out, window(rows, f.flow, max(f.height-10, 3))...)
	model := "no: agents use their own models"
	if f.offline > 0 {
		_, about, _ := strings.Cut(f.scenarios[f.offline-1], "\t")
		model = "scripted model, no account: " + bold.Render(f.scenario()) + "  " + about
	}
	out = append(out, "", fit(dim.Render("offline  ")+model, f.width), "")
	if f.note != "" {
		out = append(out, asks.Render(fit(f.note, f.width)))
	}
	keys := "Enter starts it · ↑↓ flow · Tab offline · Esc back"
	if f.sent {
		keys = "starting …"
	}
	return append(out, dim.Render(fit(keys, f.width)))
}
