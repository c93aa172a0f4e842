package tui

import (
	"slices"
	"strings"

	"charm.land/bubbles/v2/textinput"
	tea "charm.land/bubbletea/v2"
)

// A find is the text that a person looks for in a pane, ignoring case.
type find struct {
	text   string
	typing bool
	line   textinput.Model
}

// begin lets the person type, starting with what was typed before.
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

// has reports whether one of the texts has what is looked for.
func (f *find) has(texts ...string) bool {
	want := strings.ToLower(f.text)
	return slices.ContainsFunc(texts, func(s string) bool { return strings.Contains(strings.ToLower(s), want) })
}
