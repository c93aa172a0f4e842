// Package tui implements Plait's terminal interface: it shows live what needs a person, what is
// happening and what happened, and questions are answered where they are shown.
//
// A Config has the record and the actions. There are three ways to show it: Screen, a full
// screen; Live, the tree of one task below the scrollback; and Plain, lines only, for screen
// readers and simple terminals. Laws:
//
//   - Models are pure: a message in, orders and lines out. A desk carries out the orders.
//   - Focus never moves to an approval by itself, and text that is typed or pasted never
//     approves, except in Plain, where it must include a code.
//   - A key approves only what is on the screen, by its digest, once all of it has been visible
//     and it has been open for lookTime.
//   - What agents said is text: a terminal interprets none of it.
//   - Tasks driven here stop with the screen and can be resumed. The terminal is
//     restored.
package tui

import (
	"cmp"
	"context"
	"io"
	"strings"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/engine"
	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/view"
	"github.com/plait-run/plait/internal/view/taskdir"
)

// Config defines what to show and how to act.
type Config struct {
	Store     store.Store
	Views     *view.Reader
	Book      *gate.Service
	Control   *control.Controller
	Workspace string              // the workspace whose tasks are shown
	All       bool                // show tasks of every workspace
	Person    string              // the name recorded with answers
	Flows     []control.KnownFlow // flows for new tasks
	Scenarios []string            // scripted models for offline tasks
	// Drive drives a task until it has ended or needs a person, in its own workspace.
	Drive func(ctx context.Context, row store.Thread, how control.Resume) (store.Thread, error)
	// Begin creates a task, offline with a scenario. It does not drive it.
	Begin func(ctx context.Context, flow, prompt, offline string) (store.Thread, error)
	// Detach drives a task in a background process; nil if that is not possible.
	Detach func(ctx context.Context, task string) error
	// Say returns what to print for an event, "" for nothing; nil prints nothing.
	Say func(store.Event) string
	// Program is how users invoke it.
	Program taskdir.Program

	In  io.Reader // a terminal; nil: questions cannot be answered
	Out io.Writer
}

// A model is what a program shows.
type model interface {
	begin() []order
	update(msg any) []order
	lines() []string
}

// A program runs a model on a terminal. It is the only part that depends on Bubble Tea's loop.
type program struct {
	model  model
	desk   *desk
	full   bool // full screen; otherwise below the scrollback
	ending *bool
	queue  *queue
}

func (p program) Init() tea.Cmd {
	return tea.Batch(clock(), func() tea.Msg { return tick(time.Now()) }, p.carryOut(p.model.begin()))
}

// clock sends the time once a second.
func clock() tea.Cmd { return tea.Tick(time.Second, func(t time.Time) tea.Msg { return tick(t) }) }

func (p program) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	if k, ok := msg.(tea.KeyPressMsg); ok && k.String() == "ctrl+z" {
		return p, tea.Suspend
	}
	if _, ok := msg.(quit); ok {
		*p.ending = true
		return p, tea.Quit
	}
	todo := p.carryOut(p.model.update(msg))
	if _, ok := msg.(tick); ok {
		todo = tea.Batch(todo, clock())
	}
	return p, todo
}

// carryOut returns a command that carries out orders, concurrently unless their order matters.
func (p program) carryOut(orders []order) tea.Cmd {
	var cmds []tea.Cmd
	for _, o := range orders {
		switch o.(type) {
		case keep, stop, detach, quit:
			p.queue.add(o)
		default:
			cmds = append(cmds, func() tea.Msg { return p.desk.do(o) })
		}
	}
	return tea.Batch(cmds...)
}

// A queue carries out orders one at a time.
type queue struct {
	mu   sync.Mutex
	list []order
	wake chan struct{}
}

func (q *queue) add(o order) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.list = append(q.list, o)
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// run carries out orders until ctx ends.
func (q *queue) run(ctx context.Context, do func(order)) {
	for {
		q.mu.Lock()
		list := q.list
		q.list = nil
		q.mu.Unlock()
		for _, o := range list {
			do(o)
		}
		select {
		case <-q.wake:
		case <-ctx.Done():
			return
		}
	}
}

func (p program) View() tea.View {
	v := tea.NewView("")
	v.AltScreen = p.full
	if !*p.ending {
		v.SetContent(strings.Join(p.model.lines(), "\n"))
	}
	return v
}

// run runs a model until it ends, then stops the tasks driven here. ctx ends it early.
func run(ctx context.Context, cfg Config, d *desk, m model, full bool) error {
	inner, stop := context.WithCancelCause(ctx)
	d.ctx = inner
	opts := []tea.ProgramOption{tea.WithContext(ctx), tea.WithoutSignalHandler(), tea.WithOutput(cfg.Out),
		tea.WithInput(cfg.In), tea.WithFPS(30)}
	q := &queue{wake: make(chan struct{}, 1)}
	p := tea.NewProgram(program{model: m, desk: d, full: full, ending: new(bool), queue: q}, opts...)
	d.send = p.Send
	var beside sync.WaitGroup
	beside.Go(d.follow)
	beside.Go(func() {
		q.run(inner, func(o order) {
			switch o := o.(type) {
			case keep:
				p.Send(tea.Println(strings.Join(o.lines, "\n"))())
			case quit:
				p.Send(o)
			default:
				p.Send(d.do(o))
			}
		})
	})
	_, err := p.Run()
	stop(engine.ErrInterrupted)
	beside.Wait()
	d.running.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

func newDesk(cfg Config, task string) *desk {
	return &desk{cfg: cfg, task: task, jobs: map[string]context.CancelCauseFunc{}}
}

// Screen shows a workspace until the person leaves. If task is not "", it is selected. It returns why tasks that were
// to continue in the background do not.
func Screen(ctx context.Context, cfg Config, task string) error {
	s := newScreen(cfg.Workspace, newForm(cfg.Flows, cfg.Scenarios), cfg.Detach != nil, time.Now())
	if task != "" {
		s.task = newTaskPane(task)
	}
	return cmp.Or(run(ctx, cfg, newDesk(cfg, ""), s, true), s.failed)
}

// wrap wraps lines between words so that a terminal does not split words.
func wrap(lines []string, n int) []string {
	var out []string
	for _, l := range lines {
		out = append(out, strings.Split(ansi.Wrap(l, max(n, 8), ""), "\n")...)
	}
	return out
}
