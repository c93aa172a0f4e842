// Package tui is Plait in a terminal: what needs a person, what is happening and what happened, live,
// and every question answered with a key where it is seen.
//
// In goes the record and what can be done with it (a Config); out come three faces of it: Screen, one
// screen for the day; Live, the tree of one task under what has scrolled by; and Plain, lines and
// nothing else, for terminals and people that want no more. Laws:
//
//   - Models are pure: a message in, orders and lines out. A desk does what they order.
//   - Focus never comes to an approval by itself, and nothing that is typed or pasted as text approves.
//   - A key counts for the digest that was on the screen, once it has been there whole and for a moment.
//   - What agents said is text: nothing in it is obeyed by a terminal.
//   - What is driven here stops with the screen, and can be resumed. The terminal is left as it was.
package tui

import (
	"context"
	"io"
	"strings"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/plait-run/plait/internal/control"
	"github.com/plait-run/plait/internal/engine"
	"github.com/plait-run/plait/internal/gate"
	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/view"
)

// Config says what is shown and what can be done.
type Config struct {
	Store     store.Store
	Views     *view.Reader
	Book      *gate.Service
	Control   *control.Controller
	Workspace string              // whose tasks are shown
	All       bool                // those of every workspace
	Person    string              // who answers, for the record
	Flows     []control.KnownFlow // that a task can be begun with
	Scenarios []string            // of models that are scripted, with which it can be begun offline
	// Drive lets a task go on until it has ended or needs a person, in the workspace that it belongs to.
	Drive func(ctx context.Context, row store.Thread, how control.Resume) (store.Thread, error)
	// Begin makes a task, offline with a scenario. It is not driven yet.
	Begin func(ctx context.Context, flow, prompt, offline string) (store.Thread, error)
	// Detach lets a task go on in a process of its own; nil: that cannot be.
	Detach func(ctx context.Context, task string) error
	// Say is what stays on the screen of an event, "" for nothing; nil: of none.
	Say func(store.Event) string
	// Program is what people type.
	Program view.Program

	In  io.Reader // a terminal; nil: nobody answers
	Out io.Writer
}

// A model is what a program shows.
type model interface {
	begin() []order
	update(msg any) []order
	lines() []string
}

// A program runs a model on a terminal. It is the one part that knows Bubble Tea's loop.
type program struct {
	model  model
	desk   *desk
	full   bool // the whole screen, else below what has scrolled by
	ending *bool
	queue  *queue
}

func (p program) Init() tea.Cmd {
	return tea.Batch(clock(), func() tea.Msg { return tick(time.Now()) }, p.carryOut(p.model.begin()))
}

// clock tells the time once a second.
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

// carryOut lets orders be carried out, each when it can be; those that must keep their order one after
// the other.
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

// A queue is of orders that are carried out one after the other.
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

// run carries out what comes until ctx ends.
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

// run runs a model until it ends, and stops what is driven here with it. ctx ends it early.
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
	d.under.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

func newDesk(cfg Config, task string) *desk {
	return &desk{cfg: cfg, task: task, jobs: map[string]context.CancelCauseFunc{}}
}

// Screen shows everything of a workspace until the person leaves. With task, it stands on that one.
func Screen(ctx context.Context, cfg Config, task string) error {
	s := newScreen(cfg.Workspace, newForm(cfg.Flows, cfg.Scenarios), cfg.Detach != nil, time.Now())
	if task != "" {
		s.task = newTaskPane(task)
	}
	return run(ctx, cfg, newDesk(cfg, ""), s, true)
}

// wrap breaks lines between words, so that a terminal breaks none within.
func wrap(lines []string, n int) []string {
	var out []string
	for _, l := range lines {
		out = append(out, strings.Split(ansi.Wrap(l, max(n, 8), ""), "\n")...)
	}
	return out
}
