package tui

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/text"
)

// A screen is the full screen: the home list, a task on top of it, and on top of that a question, a
// step or a form. It is pure: messages in, orders and lines out.
type screen struct {
	base
	workspace string
	blank     form // an empty form

	home    home
	task    *taskPane
	beside  *taskPane // next to the list on a wide screen
	step    *stepPane
	form    *form
	confirm *confirm
	helping bool  // help is shown
	failed  error // of what was done while leaving
}

// wideAt is the width from which two panes are shown side by side.
const wideAt = 120

func newScreen(workspace string, blank form, detaches bool, now time.Time) *screen {
	return &screen{base: newBase(detaches, now), workspace: workspace, blank: blank}
}

// begin returns the first orders.
func (s *screen) begin() []order { return nil }

// update handles a message, and returns orders.
func (s *screen) update(msg any) []order {
	s.observe(msg)
	todo := s.take(msg)
	s.layout()
	return todo
}

func (s *screen) take(msg any) []order {
	switch m := msg.(type) {
	case news:
		return s.look()
	case overview:
		if m.err != nil {
			s.note = "the record cannot be read: " + text.OneLine(m.err.Error(), 200)
		} else {
			s.home.take(m)
			if s.leaving && len(m.driving) == 0 {
				return []order{quit{}} // there is nothing left to stop
			}
			if s.q != nil {
				s.q.check(m.gates)
			}
		}
		return append(s.read("", readAll{}), s.preview()...)
	case taskRead:
		return s.takeTask(m)
	case gateRead:
		return s.open(m)
	case stepRead:
		if s.step != nil {
			s.step.take(m)
			if at := s.step.step; s.step.forks && at != nil {
				s.step.forks, s.confirm = false, askFork(at.thread, at.n, at.role)
			}
		}
	case answered:
		return s.answered(m)
	case begun:
		return s.begun(m)
	case driven:
		if m.err != nil && !harmless(m.err) {
			s.note = "task " + m.row.Short + " stopped: " + text.OneLine(m.err.Error(), 200)
		}
		s.settle(errors.Is(m.err, control.ErrUsage))
		return s.look()
	case detached:
		if m.err != nil {
			name := cmp.Or(s.home.row(m.task).Short, m.task)
			s.failed = errors.Join(s.failed, fmt.Errorf("task %s was stopped: %w", name, m.err))
		}
	case did:
		s.note = m.what
		if m.err != nil {
			s.fail(m.err)
		}
		s.settle(m.err != nil)
		return s.look()
	case tea.PasteMsg:
		return s.paste(m)
	case tea.KeyPressMsg:
		return s.key(m)
	}
	return nil
}

// settle ends the wait for what was said to the task that is shown.
func (s *screen) settle(refused bool) {
	switch {
	case s.task == nil:
	case refused:
		s.task.refused()
	default:
		s.task.saying = ""
	}
}

// look rereads what is shown.
func (s *screen) look() []order {
	todo := s.want("", readAll{})
	if id := s.shown(); id != "" {
		todo = append(todo, s.want(id, readTask{id})...)
	}
	return todo
}

// shown returns the visible task, including one next to the list.
func (s *screen) shown() string {
	if s.task != nil {
		return s.task.id
	}
	if s.width >= wideAt {
		return s.home.under()
	}
	return ""
}

// preview reads the task next to the list if it is a different one now.
func (s *screen) preview() []order {
	id := s.shown()
	if id == "" || s.task != nil && s.task.read != nil || s.beside != nil && s.beside.id == id {
		return nil
	}
	return s.want(id, readTask{id})
}

func (s *screen) takeTask(m taskRead) []order {
	todo := s.read(m.id, readTask{m.id})
	if m.err != nil {
		s.fail(m.err)
		return todo
	}
	switch {
	case s.task != nil && s.task.id == m.id:
		s.task.take(m)
		if s.q != nil && s.q.gate.Task == m.id {
			s.q.check(gatesOf(m.asked))
		}
	case s.task == nil && s.home.under() == m.id:
		s.beside = newTaskPane(m.id)
		s.beside.take(m)
	}
	return todo
}

func gatesOf(all []gateCard) []store.Gate {
	var out []store.Gate
	for _, a := range all {
		out = append(out, a.gate)
	}
	return out
}

// open shows a question that a person asked to see.
func (s *screen) open(m gateRead) []order {
	if m.err != nil {
		s.fail(m.err)
		return nil
	}
	if s.q == nil || s.q.gate.ID != m.gate.ID {
		return nil // another one was opened in the meantime, or none
	}
	todo := s.show(m.gateCard)
	if m.gate.State != store.GateOpen {
		s.q.gone = "It needs no answer any more: it is " + string(m.gate.State) + "."
		return nil
	}
	return todo
}

// ask opens the pane of a question and reads the question.
func (s *screen) ask(id string) []order {
	s.q = &question{gateCard: gateCard{gate: store.Gate{ID: id}}, now: s.now, gone: "reading …"}
	return []order{readGate{id}}
}

func (s *screen) answered(m answered) []order {
	if m.err != nil {
		if s.q == nil {
			s.fail(m.err)
		}
		return s.look()
	}
	if s.q != nil && s.q.gate.ID == m.gate.ID {
		s.q = nil
	}
	s.note = decided[m.gate.State] + " " + m.gate.ID
	// If no process drives the task, this one does.
	return append([]order{continueTask{m.gate.Task, ""}}, s.look()...)
}

// decided describes an answer by the state of its gate.
var decided = map[store.GateState]string{store.GateAnswered: "answered", store.GateApproved: "approved",
	store.GateRejected: "denied"}

func (s *screen) begun(m begun) []order {
	switch {
	case m.err != nil && s.form != nil:
		s.form.sent, s.form.note = false, text.OneLine(m.err.Error(), 300)
		return nil
	case m.err != nil:
		s.fail(m.err)
		return nil
	}
	s.form, s.step, s.note = nil, nil, cmp.Or(m.said, "started "+m.row.Short)
	s.task = newTaskPane(m.row.ID)
	s.home.cursor = m.row.ID
	m.how.Wait = true
	return append([]order{drive{m.row.ID, m.how}}, s.look()...)
}

// paste inserts text into an input line. Elsewhere it is ignored: keys cannot be pasted.
func (s *screen) paste(m tea.PasteMsg) []order {
	switch {
	case s.leaving:
	case s.confirm != nil:
		if s.confirm.asks {
			s.confirm.more, _ = s.confirm.more.Update(m)
		}
	case s.form != nil:
		s.form.prompt, _ = s.form.prompt.Update(m)
	case s.q == nil && s.find().typing:
		s.find().update(m)
		return s.found()
	case s.q != nil && s.q.typing():
		s.q.typed, _ = s.q.typed.Update(m)
	case s.q == nil && s.step == nil && s.task != nil && s.task.talking:
		s.task.talk, _ = s.task.talk.Update(m)
	}
	return nil
}

// layout sets the sizes of the panes.
func (s *screen) layout() {
	width, height := s.pane()
	if s.q != nil {
		s.q.resize(width, height)
	}
	if s.step != nil {
		s.step.resize(width, height)
	}
	if s.task != nil {
		s.task.resize(s.now, width, height)
	}
	if s.form != nil {
		s.form.resize(width, height)
	}
	if s.confirm != nil {
		s.confirm.more.SetWidth(max(s.width-len([]rune(s.confirm.text))-4, 8))
	}
}

// pane returns the size of the active pane.
func (s *screen) pane() (width, height int) {
	width, height = s.width, max(s.height-3, 1)
	if s.width >= wideAt {
		width = s.width - s.left() - 3
	}
	return width, height
}

// left returns the width of the left pane when there are two.
func (s *screen) left() int { return s.width * 9 / 20 }
