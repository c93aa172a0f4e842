package tui

import (
	"context"
	"slices"
	"strings"
	"time"

	"charm.land/bubbles/v2/textinput"
	tea "charm.land/bubbletea/v2"

	"github.com/plait-run/plait/internal/control"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/view"
)

// A Run says how one task is shown below what has scrolled by.
type Run struct {
	Task   string // "": the first line that is typed begins it, by the flow called Flow
	Flow   string
	Watch  bool           // another process drives it: leaving stops nothing
	Silent bool           // nobody can answer here: it ends where a person is needed
	After  int64          // the position of the last event that was told
	Resume control.Resume // how it goes on, where it is driven here
}

// An End is how a live view ended.
type End struct {
	Row      store.Thread // as it was last driven here
	Err      error        // of driving it
	Left     bool         // the person left before its end
	Detached bool         // it goes on in a process of its own
}

// live is one task below what has scrolled by: its tree, and the question that is being answered. It
// is pure: messages in, orders and lines out.
type live struct {
	run           Run
	detaches      bool
	width, height int
	now           time.Time

	read     *taskRead
	q        *question
	talk     textinput.Model // of a conversation
	talks    bool
	told     int      // steps of a conversation that were printed
	declined []string // questions that the person went back from: none opens again by itself
	working  bool     // this process drives it
	leaving  bool
	reading  bool
	again    bool
	stuck    bool // nothing goes on until something is answered
	stale    bool // what is being read was so before that
	note     string
	end      End
}

func newLive(r Run, detaches bool, now time.Time) *live {
	l := &live{run: r, detaches: detaches, now: now, width: 80, height: 24, talks: r.Flow == flow.ChatFlow,
		working: !r.Watch && r.Task != "", talk: newLine("say something, Ctrl-D ends")}
	if l.talks {
		l.talk.Focus()
	}
	return l
}

// begin is what is to be done first.
func (l *live) begin() []order {
	if !l.working {
		return nil
	}
	return []order{drive{l.run.Task, l.run.Resume}}
}

func (l *live) update(msg any) []order {
	todo := l.take(msg)
	l.talk.SetWidth(max(l.width-3, 8))
	if l.q != nil {
		l.q.resize(l.width, l.room())
		if l.height < lowest {
			l.q.seen = 0
		}
	}
	return todo
}

// room is how many rows a question may take: some of the tree stays above it.
func (l *live) room() int { return max(l.height-6, 3) }

// lowest is how many rows a terminal must have for a question to be seen.
const lowest = 8

func (l *live) take(msg any) []order {
	switch m := msg.(type) {
	case tea.WindowSizeMsg:
		l.width, l.height = m.Width, m.Height
	case tick:
		l.now = time.Time(m)
		if l.run.Watch {
			return l.look() // a process that dies tells nobody
		}
	case news:
		return append(l.keep(m.lines), l.look()...)
	case taskRead:
		return l.takeTask(m)
	case settled:
		if l.q != nil && l.q.gate.ID == m.gate && l.q.gate.Digest == m.digest {
			l.q.ready = true
		}
	case answered:
		return l.answered(m)
	case begun:
		if m.err != nil {
			l.note = view.OneLine(m.err.Error(), 300)
			return nil
		}
		l.run.Task, l.working, l.end.Row = m.row.ID, true, m.row
		return append([]order{goOn{m.row.ID, ""}}, l.look()...)
	case driven:
		return l.driven(m)
	case did:
		if l.note = m.what; m.err != nil {
			l.note = view.OneLine(m.err.Error(), 300)
		}
		return l.look()
	case tea.PasteMsg:
		switch {
		case l.leaving:
		case l.q != nil && l.q.typing():
			l.q.typed, _ = l.q.typed.Update(m)
		case l.q == nil && l.talks:
			l.talk, _ = l.talk.Update(m)
		}
	case tea.KeyPressMsg:
		return l.key(m)
	}
	return nil
}

// keep lets lines stay above, none broken within a word.
func (l *live) keep(lines []string) []order {
	if len(lines) == 0 || l.talks {
		return nil
	}
	return []order{keep{wrap(lines, l.width)}}
}

func (l *live) look() []order {
	if l.run.Task == "" {
		return nil
	}
	if l.reading {
		l.again = true
		return nil
	}
	l.reading = true
	return []order{readTask{l.run.Task}}
}

func (l *live) takeTask(m taskRead) []order {
	l.reading = false
	var todo []order
	if l.again {
		l.again = false
		todo = l.look()
	}
	if m.err != nil {
		l.note = view.OneLine(m.err.Error(), 300)
		return todo
	}
	l.read = &m
	if l.q != nil {
		l.q.check(gatesOf(m.asked))
		if l.q.gone != "" && !l.q.typing() && l.q.typed.Value() == "" {
			l.q = nil
		}
	}
	todo = append(todo, l.turns(m)...)
	if l.run.Watch && (m.ended() || !m.driven) || l.stuck && !l.stale && len(m.asked) == 0 {
		return append(todo, quit{})
	}
	l.stale = false
	return append(todo, l.offer()...)
}

// turns prints what was answered in a conversation.
func (l *live) turns(m taskRead) []order {
	if !l.talks {
		return nil
	}
	var lines []string
	for _, t := range m.turns {
		if t.n > l.told && !t.person {
			lines = append(lines, turnLines(t, l.width)...)
		}
		l.told = max(l.told, t.n)
	}
	if len(lines) == 0 {
		return nil
	}
	return []order{keep{lines}}
}

// offer opens the oldest question that wants words, where nothing else has the keys. An approval
// waits for the person to come to it.
func (l *live) offer() []order {
	if l.q != nil || l.leaving || l.talks || l.read == nil {
		return nil
	}
	for _, a := range l.read.asked {
		if a.gate.Kind == store.GateInput && !slices.Contains(l.declined, a.gate.ID) {
			return l.open(a)
		}
	}
	return nil
}

func (l *live) open(a asked) []order {
	l.q = newQuestion(a, l.now)
	return []order{settle{a.gate.ID, a.gate.Digest}}
}

// next opens the question after the one that is open, in the order in which they were asked.
func (l *live) next() []order {
	if l.read == nil || len(l.read.asked) == 0 {
		return nil
	}
	at := 0
	if l.q != nil {
		at = 1 + slices.IndexFunc(l.read.asked, func(a asked) bool { return a.gate.ID == l.q.gate.ID })
	}
	return l.open(l.read.asked[at%len(l.read.asked)])
}

func (l *live) answered(m answered) []order {
	if m.err != nil {
		if l.q != nil {
			l.q.sent, l.q.gone = false, view.OneLine(m.err.Error(), 200)
		}
		return l.look()
	}
	l.q = nil
	todo := l.look()
	if !l.working && !l.run.Watch {
		l.working, l.stuck = true, false
		todo = append(todo, goOn{l.run.Task, ""})
	}
	return todo
}

// driven takes in that nothing goes on here without a person, or at all.
func (l *live) driven(m driven) []order {
	l.working = false
	l.end.Row, l.end.Err = m.row, m.err
	todo := l.keep(m.lines)
	waits := m.row.Status == store.Blocked && m.err == nil && !l.run.Silent
	if l.talks && l.leaving { // what it was to wait for is over
		l.end.Left, waits = true, false
	}
	if !waits {
		return append(todo, quit{})
	}
	if !l.talks { // what is asked is answered here, and it goes on
		l.stuck, l.stale = true, l.reading
	}
	return append(todo, l.look()...)
}

func (l *live) key(k tea.KeyPressMsg) []order {
	name := k.String()
	switch {
	case l.leaving:
		return l.leave(name)
	case name == "ctrl+c":
		return l.quit()
	case name == "ctrl+d" && l.talks && l.q == nil && l.talk.Value() == "":
		return l.quit()
	case name == "tab":
		return l.next()
	case l.q != nil:
		todo, back := l.q.key(k)
		if back {
			l.declined = append(l.declined, l.q.gate.ID)
			l.q = nil
		}
		return todo
	case l.talks:
		return l.say(k)
	case name == "enter" && l.read != nil && len(l.read.asked) > 0:
		return l.next()
	}
	return nil
}

// say takes in a key of what is said in a conversation.
func (l *live) say(k tea.KeyPressMsg) []order {
	if k.String() != "enter" {
		l.talk, _ = l.talk.Update(k)
		return nil
	}
	said := strings.TrimSpace(l.talk.Value())
	if said == "" {
		return nil
	}
	if l.working {
		l.note = "Wait for the answer first, then say it."
		return nil
	}
	l.note, l.working = "", true
	l.talk.Reset()
	todo := []order{keep{turnLines(turn{person: true, text: said}, l.width)}}
	if l.run.Task == "" {
		return append(todo, begin{flow: l.run.Flow, prompt: said})
	}
	return append(todo, goOn{l.run.Task, said})
}

// quit leaves, but asks first where something would stop with it.
func (l *live) quit() []order {
	if l.working {
		l.leaving = true
		return nil
	}
	l.end.Left = true
	return []order{quit{}}
}

func (l *live) leave(name string) []order {
	switch name {
	case "s", "ctrl+c":
		l.end.Left = true
		return []order{stop{l.run.Task}, quit{}}
	case "d":
		if l.detaches {
			l.end.Left, l.end.Detached = true, true
			return []order{detach{l.run.Task}, quit{}}
		}
	case "esc", "k":
		l.leaving = false
	}
	return nil
}

// Live shows a task until it has ended, waits for what cannot be answered here, or is left.
func Live(ctx context.Context, cfg Config, r Run) (End, error) {
	d := newDesk(cfg, r.Task)
	d.pos = r.After
	l := newLive(r, cfg.Detach != nil, time.Now())
	err := run(ctx, cfg, d, l, false)
	return l.end, err
}
