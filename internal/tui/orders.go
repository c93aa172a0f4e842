package tui

import (
	"time"

	"github.com/plait-run/plait/internal/control"
	"github.com/plait-run/plait/internal/dag"
	"github.com/plait-run/plait/internal/gate"
	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/view"
)

// An order is something that a model wants done: a read or a deed. A model never does it itself.
type order interface{ order() }

type (
	// readAll reads what needs a person, and the tasks. It is answered with an overview.
	readAll struct{}
	// readTask reads how a task stands: taskRead.
	readTask struct{ id string }
	// readGate reads a question whole: gateRead.
	readGate struct{ id string }
	// readStep reads step n of a thread, its newest in a role where n is 0: stepRead.
	readStep struct {
		thread, role string
		n            int
	}
	// settle tells after a moment that a question has been on the screen: settled.
	settle struct {
		gate   string
		digest dag.Hash
	}
	// answer answers a gate, for what was on the screen: answered.
	answer struct {
		gate, task string
		with       gate.Answer
	}
	// begin begins a task: begun.
	begin struct{ flow, prompt, offline string }
	// retry tries a task again, which may make a fork of it: begun.
	retry struct{ task string }
	// fork begins a task at step n of a thread, with more input or "": begun.
	fork struct {
		thread string
		n      int
		prompt string
	}
	// goOn lets a task go on here, or tells whoever drives it what is said: driven.
	goOn struct{ task, say string }
	// drive lets a task go on here as it was asked to: driven.
	drive struct {
		task string
		how  control.Resume
	}
	// stop stops what is done here with a task, which can be resumed.
	stop struct{ task string }
	// detach hands a task to a process of its own.
	detach struct{ task string }
	// cancel ends a task.
	cancel struct{ task string }
	// keep prints lines above what moves.
	keep struct{ lines []string }
	// quit ends the screen.
	quit struct{}
)

func (readAll) order()  {}
func (readTask) order() {}
func (readGate) order() {}
func (readStep) order() {}
func (settle) order()   {}
func (answer) order()   {}
func (begin) order()    {}
func (retry) order()    {}
func (fork) order()     {}
func (goOn) order()     {}
func (drive) order()    {}
func (stop) order()     {}
func (detach) order()   {}
func (cancel) order()   {}
func (keep) order()     {}
func (quit) order()     {}

// What a model is told.
type (
	// news says that something happened; lines are what of it is to stay on the screen.
	news struct{ lines []string }
	// tick moves the clock.
	tick time.Time
	// overview is what needs a person, and the tasks, newest first.
	overview struct {
		tasks   []view.TaskRow
		gates   []store.Gate
		driving map[string]bool // here
		err     error
	}
	taskRead struct {
		id      string
		task    view.Task
		doing   map[string]string // what each instance did last
		asked   []asked
		turns   []turn // the newest steps of its root thread
		result  string // the text that they ended with
		driven  bool   // by some process
		driving bool   // by this one
		err     error
	}
	gateRead struct {
		asked
		err error
	}
	stepRead struct {
		step
		err error
	}
	settled  settle
	answered struct {
		gate store.Gate
		err  error
	}
	// driven says that this process has done what it could with a task.
	driven struct {
		row   store.Thread
		lines []string // what stays of its end
		err   error
	}
	// begun says which task was begun, or is tried again, and how it is to be driven.
	begun struct {
		row  store.Thread
		how  control.Resume
		said string // what was done, "" where it was only begun
		err  error
	}
	// did says what came of another deed.
	did struct {
		what string
		err  error
	}
)

// A turn is a step of a root thread, as a conversation shows it.
type turn struct {
	n      int
	role   string
	person bool
	text   string
}

// A step is one step of a thread with all that a pane shows of it.
type step struct {
	thread, role, agent, status string
	n, of                       int
	began, ended                time.Time
	tokens, micro               int64
	output, prompt, fields      string
	diff                        string // of the files
	noDiff                      string // why there is none
}
