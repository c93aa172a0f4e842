package tui

import (
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/text"
	"github.com/plait-run/plait/internal/view"
)

// key passes a key to the pane on top.
func (s *screen) key(k tea.KeyPressMsg) []order {
	name := k.String()
	if s.leaving {
		var detaching []order
		for id := range s.home.driving {
			detaching = append(detaching, detach{id})
		}
		return s.leave(name, nil, detaching)
	}
	if name == "ctrl+c" {
		return s.quit()
	}
	s.note = ""
	if s.helping {
		s.helping = false
		if s.q != nil { // it was not on the screen
			s.q.ready = false
			return []order{settle{s.q.gate.ID, s.q.gate.Digest}}
		}
		return nil
	}
	if name == "?" && !s.typing() {
		s.helping = true
		return nil
	}
	switch {
	case s.confirm != nil:
		todo, over := s.confirm.key(k)
		if over {
			s.confirm = nil
		}
		return todo
	case s.form != nil:
		todo, back := s.form.key(k)
		if back {
			s.form = nil
		}
		return todo
	case s.q != nil:
		todo, back := s.q.key(k)
		if back {
			s.q = nil
		}
		return todo
	case s.find().typing:
		s.find().key(k)
		return s.found()
	case name == "/" && !s.typing():
		s.find().begin()
		return nil
	case name == "esc" && s.find().text != "" && !s.typing():
		*s.find() = find{}
		return s.found()
	case s.step != nil:
		if name == "esc" || name == "q" {
			s.step = nil
			return nil
		}
		if at := s.step.step; name == "F" && at != nil {
			s.confirm = askFork(at.thread, at.n, at.role)
			return nil
		}
		return s.step.key(name)
	case s.task != nil && s.task.talking:
		return s.task.inputKey(k)
	case s.task != nil:
		return s.taskKey(name)
	}
	return s.homeKey(name)
}

// find returns what is looked for in the active pane.
func (s *screen) find() *find {
	switch {
	case s.step != nil:
		return &s.step.find
	case s.task != nil:
		return &s.task.find
	}
	return &s.home.find
}

// found moves the cursor to what was found.
func (s *screen) found() []order {
	switch {
	case s.step != nil:
		s.step.next(0, 1)
	case s.task != nil:
		s.task.settle()
	default:
		s.home.settle()
		return s.preview()
	}
	return nil
}

// typing reports whether keys are text.
func (s *screen) typing() bool {
	switch {
	case s.confirm != nil, s.form != nil:
		return true
	case s.q != nil:
		return s.q.typing()
	case s.find().typing:
		return true
	}
	return s.step == nil && s.task != nil && s.task.talking
}

func (s *screen) homeKey(name string) []order {
	switch name {
	case "up", "k":
		s.home.move(-1)
	case "down", "j":
		s.home.move(1)
	case "pgup":
		s.home.move(3 - s.height)
	case "pgdown":
		s.home.move(s.height - 3)
	case "enter", "right":
		if g, ok := s.home.gate(s.home.cursor); ok {
			return s.ask(g.ID)
		}
		return s.openTask(s.home.under())
	case "t":
		return s.openTask(s.home.under())
	case "n":
		s.form = s.blank.again()
	case "q":
		return s.quit()
	}
	return s.preview()
}

// openTask opens the pane of a task.
func (s *screen) openTask(id string) []order {
	if id == "" {
		return nil
	}
	s.task = newTaskPane(id)
	if s.beside != nil && s.beside.id == id {
		s.task = s.beside
	}
	s.beside = nil
	return s.want(id, readTask{id})
}

func (s *screen) taskKey(name string) []order {
	p := s.task
	switch name {
	case "esc", "left", "q":
		s.task = nil
		return s.preview()
	case "up", "k":
		p.move(-1)
	case "down", "j":
		p.move(1)
	case "pgup":
		p.move(3 - s.height)
	case "pgdown", "space":
		p.move(s.height - 3)
	case "enter", "right":
		return s.openAt(tabOutput, false)
	case "d":
		return s.openAt(tabChanges, false)
	case "p":
		return s.openAt(tabPrompt, false)
	case "t":
		if p.read != nil {
			p.talking = true
			p.talk.Focus()
		}
	case "r":
		return s.tryAgain()
	case "c":
		s.cancel()
	case "F":
		return s.openAt(tabOutput, true)
	case "s":
		if p.read != nil && p.read.driving {
			return []order{stop{p.id}}
		}
		s.note = "It does not run in this terminal."
	case "n":
		s.form = s.blank.again()
	}
	return nil
}

// tryAgain resumes the task, or retries it if it failed or was cancelled.
func (s *screen) tryAgain() []order {
	switch r := s.task.read; {
	case r == nil:
	case r.driven && !r.ended(): // a task that has ended is about to be released
		s.note = "It is running already."
	case r.task.Status == store.Failed || r.task.Status == store.Cancelled:
		return []order{retry{s.task.id}}
	case r.ended():
		s.note = "It is done: fork one of its steps with F, or add a message with t."
	default:
		return []order{continueTask{s.task.id, ""}}
	}
	return nil
}

// cancel asks whether to cancel the task.
func (s *screen) cancel() {
	switch r := s.task.read; {
	case r == nil:
	case r.ended():
		s.note = "It has ended already."
	default:
		s.confirm = &confirm{text: "Cancel " + r.task.Short + "? Its agents are stopped.", yes: "y cancels it",
			do: func(string) []order { return []order{cancel{r.task.ID}} }}
	}
}

// openAt opens the selected question, or the newest step of the selected agent, to fork it if forks
// is set.
func (s *screen) openAt(tab int, forks bool) []order {
	id, b := s.task.on()
	switch {
	case id != "":
		return s.ask(id)
	case b.thread == "":
		s.note = "Nothing to open: this agent has no step yet."
		return nil
	}
	s.step = &stepPane{of: readStep{thread: b.thread, role: b.role}, tab: tab, forks: forks}
	return []order{s.step.of}
}

// quit ends the screen, but asks first if that would stop a task.
func (s *screen) quit() []order {
	if len(s.home.driving) == 0 {
		return []order{quit{}}
	}
	s.leaving = true
	return nil
}

// leaveQuestion asks what to do with n tasks that run in this terminal.
func leaveQuestion(n int, detaches bool) string {
	keys := "s stop (resume later)"
	if detaches {
		keys += " · d detach"
	}
	verb := "run"
	if n == 1 {
		verb = "runs"
	}
	return fmt.Sprintf("%s %s here. %s · k keep watching", text.Count(n, "task"), verb, keys)
}

// lines renders the screen.
func (s *screen) lines() []string {
	body := max(s.height-3, 1)
	var main []string
	if s.width < wideAt {
		main = s.top(s.width, body)
	} else {
		main = s.pair(body)
	}
	main = main[:min(len(main), body)]
	for len(main) < body {
		main = append(main, "")
	}
	return append(append([]string{s.head(), ""}, main...), s.foot())
}

// head renders the title line: the current place, and what needs attention.
func (s *screen) head() string {
	running := 0
	for _, t := range s.home.tasks {
		if t.Display.State == view.DisplayRunning {
			running++
		}
	}
	left := bold.Render("plait") + "  " + dim.Render(text.OneLine(s.workspace, 200))
	right := ""
	if n := len(s.home.gates); n > 0 {
		right = asks.Render(text.Count(n, "question")) + " · "
	}
	right += fmt.Sprintf("%d running", running)
	room := s.width - len([]rune(plain(right))) - 1
	return fit(pad(left, room)+" "+right, s.width)
}

// foot renders the result of the last action or, if there is none, the keys.
func (s *screen) foot() string {
	switch {
	case s.confirm != nil:
		return fit(s.confirm.line(), s.width)
	case s.leaving:
		return asks.Render(fit(leaveQuestion(len(s.home.driving), s.detaches), s.width))
	case s.note != "":
		return asks.Render(fit(s.note, s.width))
	}
	if s.q == nil && s.form == nil {
		switch f := s.find(); {
		case f.typing:
			return fit(f.line.View(), s.width)
		case f.text != "":
			return asks.Render(fit("/"+text.OneLine(f.text, 80)+"  Esc ends it", s.width))
		}
	}
	keys := "↑↓ move · Enter open · n new task · / find · ? keys · q quit"
	switch {
	case s.form != nil || s.q != nil:
		return ""
	case s.step != nil:
		keys = "o output · p prompt · f fields · d changes · F fork · [ ] step · ? keys · Esc back"
	case s.task != nil && s.task.talking:
		keys = "Enter sends it to the task · Esc back"
	case s.task != nil:
		keys = s.task.availableKeys()
	}
	return dim.Render(fit(keys, s.width))
}

// top renders the active pane.
func (s *screen) top(width, height int) []string {
	switch {
	case s.helping:
		return s.help().lines(width)
	case s.form != nil:
		return s.form.lines()
	case s.q != nil:
		return s.q.lines()
	case s.step != nil:
		return s.step.lines()
	case s.task != nil:
		return s.task.lines(s.now, width, height, true)
	}
	return s.home.lines(s.now, width, height, true)
}

// pair renders the active pane next to the one that it was opened from.
func (s *screen) pair(height int) []string {
	width, _ := s.pane()
	var left, right []string
	switch {
	case s.task == nil && s.q == nil && s.form == nil && !s.helping:
		left = s.home.lines(s.now, s.left(), height, true)
		if s.beside != nil && s.beside.id == s.home.under() {
			right = s.beside.lines(s.now, width, height, false)
		}
	case s.task != nil && (s.q != nil || s.step != nil || s.form != nil || s.helping):
		left, right = s.task.lines(s.now, s.left(), height, true), s.top(width, height)
	default:
		left, right = s.home.lines(s.now, s.left(), height, false), s.top(width, height)
	}
	out := make([]string, height)
	bar := dim.Render(" │ ")
	for i := range out {
		l, r := "", ""
		if i < len(left) {
			l = left[i]
		}
		if i < len(right) {
			r = right[i]
		}
		out[i] = strings.TrimRight(pad(l, s.left())+bar+fit(r, width), " ")
	}
	return out
}
