package tui

import (
	"time"

	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/view"
)

// An order is something for a desk to do: a read or an action. Models never do either themselves.
type order interface{ order() }

type (
	// readAll reads what needs a person, and the tasks. Its reply is overview.
	readAll struct{}
	// readTask reads the state of a task: taskRead.
	readTask struct{ id string }
	// readGate reads a whole question: gateRead.
	readGate struct{ id string }
	// readStep reads step n of a thread, its newest in a role if n is 0: stepRead.
	readStep struct {
		thread, role string
		n            int
	}
	// settle reports that a question has been on the screen for lookTime: settled.
	settle struct {
		gate   string
		digest dag.Hash
	}
	// answer answers a gate as it was on the screen: answered.
	answer struct {
		gate, task string
		with       gate.Answer
	}
	// begin starts a task: begun.
	begin struct{ flow, prompt, offline string }
	// retry retries a task, possibly as a fork: begun.
	retry struct{ task string }
	// fork starts a task from step n of a thread, with more input or "": begun.
	fork struct {
		thread string
		n      int
		prompt string
	}
	// continueTask drives a task here: driven. If it is being driven, say is passed on: did; without it, the reply is
	// elsewhere if another process drives it.
	continueTask struct{ task, say string }
	// drive drives a task here as requested: driven.
	drive struct {
		task string
		how  control.Resume
	}
	// stop interrupts a task driven here, which can be resumed.
	stop struct{ task string }
	// detach hands a task to a background process: detached.
	detach struct{ task string }
	// cancel cancels a task.
	cancel struct{ task string }
	// keep prints lines above the live view.
	keep struct{ lines []string }
	// quit ends the screen.
	quit struct{}
)

func (readAll) order()      {}
func (readTask) order()     {}
func (readGate) order()     {}
func (readStep) order()     {}
func (settle) order()       {}
func (answer) order()       {}
func (begin) order()        {}
func (retry) order()        {}
func (fork) order()         {}
func (continueTask) order() {}
func (drive) order()        {}
func (stop) order()         {}
func (detach) order()       {}
func (cancel) order()       {}
func (keep) order()         {}
func (quit) order()         {}

// Messages to models.
type (
	// news reports that something happened; lines are what to print about it.
	news struct{ lines []string }
	// tick updates the clock.
	tick time.Time
	// overview is what needs a person, and the tasks, newest first.
	overview struct {
		tasks   []view.TaskRow
		gates   []store.Gate
		driving map[string]bool // tasks driven here
		err     error
	}
	taskRead struct {
		id      string
		record  view.TaskRecord
		task    view.Task         // what record says
		doing   map[string]string // each instance's last activity, or what came of it
		steps   []doneStep        // oldest first
		asked   []gateCard
		turns   []turn // newest steps of its root thread
		result  string // its final text
		driven  bool   // by any process
		driving bool   // by this process
		err     error
	}
	gateRead struct {
		gateCard
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
	// driven reports that this process has stopped driving a task.
	driven struct {
		row   store.Thread
		lines []string // to print about its end
		err   error
	}
	// elsewhere reports that this process does not drive a task because another one does.
	elsewhere struct{}
	// detached reports whether a task that was stopped here continues in a background process.
	detached struct {
		task string
		err  error // it does not
	}
	// begun reports which task was started or is retried, and how to drive it.
	begun struct {
		row  store.Thread
		how  control.Resume
		said string // what was done, "" for a plain start
		err  error
	}
	// did reports the result of any other action.
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

// A step is one step of a thread with everything that its pane shows.
type step struct {
	thread, role, agent, status string
	n, of                       int
	began, ended                time.Time
	tokens, micro               int64
	output, prompt, fields      string
	diff                        string // of the files
	noDiff                      string // why there is no diff
}
