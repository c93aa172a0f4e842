package tui

import (
	"strings"

	"charm.land/bubbles/v2/textinput"
	tea "charm.land/bubbletea/v2"
)

// A find narrows a pane to what contains a text, ignoring case.
type find struct {
	text   string
	typing bool
	line   textinput.Model
}

// begin lets the person type, from what was typed before.
func (f *find) begin() {
	f.line = newLine("text to look for")
	f.line.Prompt = "/"
	f.line.SetValue(f.text)
	f.line.CursorEnd()
	f.line.Focus()
	f.typing = true
}

// key handles a key while the person types.
func (f *find) key(k tea.KeyPressMsg) {
	switch k.String() {
	case "esc":
		*f = find{}
	case "enter":
		f.typing = false
	default:
		f.update(k)
	}
}

// update passes a message to the line.
func (f *find) update(msg tea.Msg) {
	f.line, _ = f.line.Update(msg)
	f.text = f.line.Value()
}

// has reports whether any of texts has what is looked for.
func (f *find) has(texts ...string) bool {
	want := strings.ToLower(f.text)
	for _, s := range texts {
		if strings.Contains(strings.ToLower(s), want) {
			return true
		}
	}
	return want == ""
}
