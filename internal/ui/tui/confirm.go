package tui

import (
	"fmt"
	"strings"

	"charm.land/bubbles/v2/textinput"
	tea "charm.land/bubbletea/v2"

	"github.com/plait-run/plait/internal/sys/text"
)

// A confirm is a line that asks before something is done, either for a yes or for a text, which may
// be empty.
type confirm struct {
	text string
	yes  string // what y or Enter does
	asks bool   // for a text
	more textinput.Model
	do   func(more string) []order
}

// askFork asks for the text of a fork.
func askFork(thread string, n int, role string) *confirm {
	c := &confirm{text: fmt.Sprintf("Fork after step %d (%s):", n, text.OneLine(role, 20)), asks: true,
		more: newLine("more input (optional) · Enter forks · Esc cancels"),
		do:   func(more string) []order { return []order{fork{thread, n, more}} }}
	c.more.Focus()
	return c
}

// key handles a key. over reports whether the line is done.
func (c *confirm) key(k tea.KeyPressMsg) (todo []order, over bool) {
	switch name := k.String(); {
	case name == "esc":
		return nil, true
	case c.asks && name == "enter":
		return c.do(strings.TrimSpace(c.more.Value())), true
	case c.asks:
		c.more, _ = c.more.Update(k)
		return nil, false
	case name == "y":
		return c.do(""), true
	}
	return nil, true // any other key means no
}

func (c *confirm) line() string {
	if c.asks {
		return asks.Render(c.text) + " " + c.more.View()
	}
	return asks.Render(c.text + " " + c.yes + " · any other key goes back")
}
