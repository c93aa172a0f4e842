package tui

import (
	"context"
	"slices"
	"strings"
	"time"

	"charm.land/bubbles/v2/textinput"
	tea "charm.land/bubbletea/v2"

	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/store"
)

// A Run describes how to show one task below the scrollback.
type Run struct {
	Task   string // "": the first line typed starts one with Flow
	Flow   string
	Watch  bool           // another process drives it: leaving stops nothing
	Silent bool           // questions cannot be answered here: it ends when a person is needed
	After  int64          // position of the last event printed
	Resume control.Resume // how to drive it, if it is driven here
}

// An End is how a live view ended.
type End struct {
	Row       store.Thread // as last driven here
	Err       error        // of driving it
	Left      bool         // the person left before it ended
	Detached  bool         // it continues in another process
	DetachErr error        // why it does not, though the person wanted it: it was stopped
}

// live shows one task below the scrollback: its tree, and the question being answered. It is
// pure: messages in, orders and lines out.
type live struct {
	base
	run      Run
	task     *taskRead       // nil until it is read
	talk     textinput.Model // input line of a conversation
	talks    bool
	saying   string   // text that was sent and can still be refused
	told     int      // number of conversation steps printed
	declined []string // questions that the person left unanswered: they do not reopen by themselves
	working  bool     // this process drives it
	stuck    bool     // it does not continue without an answer
	stale    bool     // the read in progress began before stuck or run.Watch was set
	end      End
}

func newLive(r Run, detaches bool, now time.Time) *live {
	l := &live{base: newBase(detaches, now), run: r, talks: r.Flow == flow.ChatFlow,
		working: !r.Watch && r.Task != "", talk: newLine("say something, Ctrl-D ends")}
	if l.talks {
		l.talk.Focus()
	}
	return l
}

// begin returns the first orders.
func (l *live) begin() []order {
	if !l.working {
		return nil
	}
	return []order{drive{l.run.Task, l.run.Resume}}
}

func (l *live) update(msg any) []order {
	l.observe(msg)
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

// room returns how many rows a question may use: some of the tree stays visible.
func (l *live) room() int { return max(l.height-6, 3) }

// lowest is the height of the lowest terminal that can show a question, in rows.
const lowest = 8

func (l *live) take(msg any) []order {
	switch m := msg.(type) {
	case tick:
		if l.run.Watch {
			return l.look() // a process that dies sends no news
		}
	case news:
		return append(l.keep(m.lines), l.look()...)
	case taskRead:
		return l.takeTask(m)
	case answered:
		return l.answered(m)
	case begun:
		if m.err != nil {
			l.refused(m.err)
			return nil
		}
		l.run.Task, l.working, l.saying, l.end.Row = m.row.ID, true, "", m.row
		return append([]order{continueTask{m.row.ID, ""}}, l.look()...)
	case driven:
		return l.driven(m)
	case elsewhere:
		l.note, l.working = "Another process works on it.", false
		l.run.Watch, l.stale = !l.talks, l.reading[l.run.Task]
		return l.look()
	case detached:
		l.end.Detached, l.end.DetachErr = m.err == nil, m.err
	case did: // what was said was passed on or refused, or the task was stopped: it is not driven here
		l.note, l.working = m.what, false
		if m.err != nil {
			l.refused(m.err)
		}
		l.saying = ""
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

// refused says why what was said was not accepted, and puts it back into the input line.
func (l *live) refused(err error) {
	l.fail(err)
	l.working = false
	if l.saying != "" {
		l.talk.SetValue(strings.TrimSpace(l.saying + " " + l.talk.Value()))
		l.talk.CursorEnd()
		l.saying = ""
	}
}

// keep prints lines above the live view, wrapped between words.
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
	return l.want(l.run.Task, readTask{l.run.Task})
}

func (l *live) takeTask(m taskRead) []order {
	todo := l.read(l.run.Task, readTask{l.run.Task})
	if m.err != nil {
		l.fail(m.err)
		return todo
	}
	l.task = &m
	if l.q != nil {
		l.q.check(gatesOf(m.asked))
		if l.q.gone != "" && !l.q.typing() && l.q.typed.Value() == "" {
			l.q = nil
		}
	}
	todo = append(todo, l.turns(m)...)
	if !l.stale && (l.run.Watch && (m.ended() || !m.driven) || l.stuck && len(m.asked) == 0) {
		return append(todo, quit{})
	}
	l.stale = false
	return append(todo, l.offer()...)
}

// turns prints the new answers of a conversation.
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

// offer opens the oldest question that needs text, if nothing else has the focus. An approval
// never opens by itself.
func (l *live) offer() []order {
	if l.q != nil || l.leaving || l.talks || l.task == nil {
		return nil
	}
	for _, a := range l.task.asked {
		if a.gate.Kind == store.GateInput && !slices.Contains(l.declined, a.gate.ID) {
			return l.show(a)
		}
	}
	return nil
}

// next opens the question that was asked after the open one.
func (l *live) next() []order {
	if l.task == nil || len(l.task.asked) == 0 {
		return nil
	}
	at := 0
	if l.q != nil {
		at = 1 + slices.IndexFunc(l.task.asked, func(a gateCard) bool { return a.gate.ID == l.q.gate.ID })
	}
	to := l.task.asked[at%len(l.task.asked)]
	if l.q != nil && l.q.gate.ID == to.gate.ID {
		return nil
	}
	return l.show(to)
}

func (l *live) answered(m answered) []order {
	if m.err != nil {
		return l.look()
	}
	l.q = nil
	todo := l.look()
	if !l.working && !l.run.Watch {
		l.working, l.stuck = true, false
		todo = append(todo, continueTask{l.run.Task, ""})
	}
	return todo
}

// driven handles the end of driving: the task needs a person, or has ended.
func (l *live) driven(m driven) []order {
	l.working, l.saying = false, ""
	l.end.Row, l.end.Err = m.row, m.err
	todo := l.keep(m.lines)
	waits := m.row.Status == store.Blocked && m.err == nil && !l.run.Silent
	if l.talks && l.leaving { // there is nothing left to stop
		l.end.Left, waits = true, false
	}
	if !waits {
		return append(todo, quit{})
	}
	if !l.talks { // the task continues once its questions are answered here
		l.stuck, l.stale = true, l.reading[l.run.Task]
	}
	return append(todo, l.look()...)
}

func (l *live) key(k tea.KeyPressMsg) []order {
	name := k.String()
	switch {
	case l.leaving:
		todo := l.leave(name, []order{stop{l.run.Task}}, []order{detach{l.run.Task}})
		l.end.Left = l.end.Left || todo != nil
		return todo
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
		return l.inputKey(k)
	case name == "enter" && l.task != nil && len(l.task.asked) > 0:
		return l.next()
	}
	return nil
}

// inputKey handles a key of the input line of a conversation.
func (l *live) inputKey(k tea.KeyPressMsg) []order {
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
	l.note, l.working, l.saying = "", true, said
	l.talk.Reset()
	todo := []order{keep{turnLines(turn{person: true, text: said}, l.width)}}
	if l.run.Task == "" {
		return append(todo, begin{flow: l.run.Flow, prompt: said})
	}
	return append(todo, continueTask{l.run.Task, said})
}

// quit leaves, but asks first if that would stop the task.
func (l *live) quit() []order {
	if l.working {
		l.leaving = true
		return nil
	}
	l.end.Left = true
	return []order{quit{}}
}

// Live shows a task until it has ended or waits for something that cannot be answered here, or until
// the person leaves.
func Live(ctx context.Context, cfg Config, r Run) (End, error) {
	d := newDesk(cfg, r.Task)
	d.pos = r.After
	l := newLive(r, cfg.Detach != nil, time.Now())
	err := run(ctx, cfg, d, l, false)
	return l.end, err
}
