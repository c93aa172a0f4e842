package tui

import (
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/plait-run/plait/internal/sys/text"
)

// A base is what the screen and the live view have in common: a size, the open question, reads in progress, and how to
// leave.
type base struct {
	detaches      bool // a task can be handed to a background process
	width, height int
	now           time.Time

	q       *question
	typed   map[string]string // what was typed, by gate
	leaving bool
	note    string // result of the last action

	// Reads in progress, so that nothing is read twice concurrently, and those to repeat because
	// there was news in the meantime.
	reading map[string]bool
	again   map[string]bool
}

func newBase(detaches bool, now time.Time) base {
	return base{detaches: detaches, width: 80, height: 24, now: now, typed: map[string]string{},
		reading: map[string]bool{}, again: map[string]bool{}}
}

// observe handles what messages mean for both.
func (b *base) observe(msg any) {
	switch m := msg.(type) {
	case tea.WindowSizeMsg:
		b.width, b.height = m.Width, m.Height
	case tick:
		b.now = time.Time(m)
	case settled:
		if b.q != nil && b.q.gate.ID == m.gate && b.q.gate.Digest == m.digest {
			b.q.ready = true
		}
	case answered:
		if m.err != nil && b.q != nil {
			b.q.sent, b.q.gone = false, text.OneLine(m.err.Error(), 200)
		}
	}
}

// fail notes why something was not done.
func (b *base) fail(err error) { b.note = text.OneLine(err.Error(), 300) }

// show opens a question, with what was typed there when another was opened.
func (b *base) show(a gateCard) []order {
	if b.q != nil {
		b.typed[b.q.gate.ID] = b.q.typed.Value()
	}
	b.q = newQuestion(a, b.now)
	b.q.typed.SetValue(b.typed[a.gate.ID])
	return []order{settle{a.gate.ID, a.gate.Digest}}
}

// want orders a read unless it is in progress.
func (b *base) want(what string, o order) []order {
	if b.reading[what] {
		b.again[what] = true
		return nil
	}
	b.reading[what] = true
	return []order{o}
}

// read records the end of a read, and repeats it if there was news in the meantime.
func (b *base) read(what string, o order) []order {
	delete(b.reading, what)
	if !b.again[what] {
		return nil
	}
	delete(b.again, what)
	return b.want(what, o)
}

// leave handles the answer to leaveQuestion: it stops or detaches what runs here, and quits.
func (b *base) leave(name string, stops, detaches []order) []order {
	switch name {
	case "s", "ctrl+c":
		return append(stops, quit{})
	case "d":
		if b.detaches {
			return append(detaches, quit{})
		}
	case "esc", "k":
		b.leaving = false
	}
	return nil
}
