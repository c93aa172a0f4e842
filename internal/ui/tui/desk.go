package tui

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/engine"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/view"
)

// A desk carries out the orders of models: it reads the record and acts for the person at the
// keyboard.
type desk struct {
	cfg  Config
	ctx  context.Context // for its work; ends with the screen
	task string          // the only task to follow, or ""
	send func(tea.Msg)

	mu      sync.Mutex
	jobs    map[string]context.CancelCauseFunc // tasks driven here
	running sync.WaitGroup                     // jobs

	reading sync.Mutex // held while reading events
	pos     int64      // of the last event read
}

// maxTasks limits a list of tasks.
const maxTasks = 200

// do carries out an order, and returns the resulting message.
func (d *desk) do(o order) tea.Msg {
	switch o := o.(type) {
	case readAll:
		return d.overview()
	case readTask:
		r := taskRead{id: o.id}
		r.err = d.read(&r)
		return r
	case readGate:
		g, err := d.cfg.Views.Gate(d.ctx, o.id)
		if err != nil {
			return gateRead{err: err}
		}
		a, err := d.newGateCard(g)
		return gateRead{a, err}
	case readStep:
		s, err := d.step(o)
		return stepRead{s, err}
	case settle:
		time.Sleep(lookTime)
		return settled(o)
	case answer:
		o.with.By, o.with.Via = d.cfg.Person, store.ViaCLI
		g, err := d.cfg.Book.Answer(d.ctx, o.gate, o.with)
		return answered{g, err}
	case begin:
		row, err := d.cfg.Begin(d.ctx, o.flow, o.prompt, o.offline)
		b := begun{row: row, err: d.cfg.Program.Named(err)}
		if bundle, e := d.cfg.Control.Reader().Bundle(d.ctx, row.Bundle); err == nil && e == nil {
			b.said, _ = d.cfg.Control.InTurn(d.ctx, *bundle, cmp.Or(row.Tree, row.Workspace))
		}
		return b
	case retry:
		again, err := d.cfg.Control.Retry(d.ctx, control.Retry{Thread: o.task})
		return begun{again.Row, again.Resume, again.Note, d.cfg.Program.Named(err)}
	case fork:
		row, err := d.cfg.Control.Fork(d.ctx, control.Fork{Thread: o.thread, At: strconv.Itoa(o.n), Prompt: o.prompt})
		return begun{row: row, said: d.cfg.Program.Says(forkedAs(row)), err: d.cfg.Program.Named(err)}
	case continueTask:
		return d.continueTask(o)
	case drive:
		row, err := d.cfg.Store.Thread(d.ctx, o.task)
		if err != nil {
			return driven{row, nil, err}
		}
		return d.drive(row, o.how)
	case stop:
		d.stop(o.task)
		return did{what: "stopped: it can be resumed"}
	case detach:
		d.stop(o.task)
		return detached{o.task, d.cfg.Program.Named(d.cfg.Detach(d.ctx, o.task))}
	case cancel:
		_, err := d.cfg.Control.Cancel(d.ctx, o.task)
		return did{"cancelled", d.cfg.Program.Named(err)}
	}
	return nil
}

// forkedAs says what a fork is.
func forkedAs(row store.Thread) string {
	if row.Path != nil {
		return "forked as " + row.Short + ", which ends where the paths join; plait fork --rejoin forks the whole task"
	}
	return "forked as " + row.Short + "; the original is unchanged"
}

// lookTime is how long a question must have been on the screen before a key can approve it.
const lookTime = 400 * time.Millisecond

// overview reads what needs a person in this workspace, and its tasks.
func (d *desk) overview() overview {
	var o overview
	if o.gates, o.err = d.cfg.Views.Gates(d.ctx, view.GateFilter{All: d.cfg.All, State: store.GateOpen}); o.err != nil {
		return o
	}
	o.tasks, o.err = d.cfg.Views.Tasks(d.ctx, view.TaskFilter{All: d.cfg.All, Limit: maxTasks})
	o.driving = map[string]bool{}
	d.mu.Lock()
	defer d.mu.Unlock()
	for id := range d.jobs {
		o.driving[id] = true
	}
	return o
}

// newGateCard reads a gate and its diff.
func (d *desk) newGateCard(g store.Gate) (gateCard, error) {
	a := gateCard{gate: g, program: d.cfg.Program}
	root, err := d.cfg.Store.Thread(d.ctx, g.Task)
	if err != nil {
		return a, err
	}
	a.task = cmp.Or(root.Short, root.ID)
	if a.title, err = d.cfg.Views.Title(d.ctx, root); err != nil {
		return a, err
	}
	a.diff, err = d.cfg.Views.GateDiff(d.ctx, g)
	return a, err
}

// shownTurns is how many of the newest steps of a task are read with it.
const shownTurns = 12

// read reads the state of a task.
func (d *desk) read(r *taskRead) error {
	r.driven = d.cfg.Views.Driven(d.ctx, r.id)
	rec, err := d.cfg.Views.TaskRecord(d.ctx, r.id, r.driven)
	if err != nil {
		return err
	}
	r.record, r.task = rec, rec.Task()
	for _, g := range rec.Gates {
		if g.State == store.GateOpen {
			a, err := d.newGateCard(g)
			if err != nil {
				return err
			}
			r.asked = append(r.asked, a)
		}
	}
	if r.doing, err = d.doing(r.id); err != nil {
		return err
	}
	tl, err := d.cfg.Views.Timeline(d.ctx, rec, time.Now())
	if err != nil {
		return err
	}
	steps, came := finished(rec, r.task.Roster, tl)
	r.steps = steps
	maps.Copy(r.doing, came)
	v, err := d.cfg.Views.Thread(d.ctx, rec.Root, 0, shownTurns)
	if err != nil {
		return err
	}
	for _, s := range v.Steps {
		if s.Role != thread.RoleEnd {
			r.turns = append(r.turns, turn{s.N, s.Role, s.Role == thread.RoleInput, s.Text})
		}
	}
	if r.task.Result != nil {
		r.result = *r.task.Result
	}
	r.driving = d.job(r.id) != nil
	return nil
}

// newestItems is how many events are searched for agents' last activity.
const newestItems = 300

// doing returns what each instance of a task did last.
func (d *desk) doing(task string) (map[string]string, error) {
	events, err := d.cfg.Store.Events(d.ctx, 0, store.EventFilter{Task: task, Newest: true, Limit: newestItems,
		Types: event.Types(event.AgentItems{})})
	return view.LastActivity(events), err
}

// step reads all of a step.
func (d *desk) step(o readStep) (step, error) {
	out := step{thread: o.thread, n: o.n}
	row, err := d.cfg.Store.Thread(d.ctx, o.thread)
	if err != nil {
		return out, err
	}
	steps, err := d.cfg.Views.Steps(d.ctx, row, 1, 0)
	if err != nil {
		return out, err
	}
	out.of = row.Steps
	at := slices.IndexFunc(steps, func(s view.Step) bool { return s.N == o.n })
	if o.n == 0 {
		for i, s := range steps {
			if s.Role == o.role {
				at = i
			}
		}
	}
	if at < 0 {
		return out, errors.New("there is no step yet")
	}
	s := steps[at]
	out.n, out.role, out.output, out.of = s.N, s.Role, s.Text, steps[len(steps)-1].N
	out.tokens, out.micro = s.Usage.Tokens(), s.Usage.CostMicroUSD
	out.status = view.Outcome(s.Role, s.Meta)
	var fields bytes.Buffer
	if json.Indent(&fields, s.Meta, "", "  ") == nil {
		out.fields = fields.String()
	}
	p, err := d.cfg.Views.Prompt(d.ctx, row.Head, strconv.Itoa(s.N))
	switch {
	case err == nil:
		out.prompt = p.Text
	case !errors.Is(err, view.ErrNoPrompt):
		return out, err
	}
	out.noDiff = "no files changed"
	if s.Detail == nil {
		return out, nil
	}
	out.agent = s.Detail.Agent
	out.began, out.ended = time.UnixMilli(s.Detail.StartedAt), time.UnixMilli(s.Detail.EndedAt)
	before, after := s.Detail.Trees()
	switch {
	case before == "" || after == "":
		out.noDiff = "no changes were recorded"
	case before != after:
		if out.diff, err = d.cfg.Control.Changes(d.ctx, row, before, after); err != nil {
			out.noDiff = "the changes cannot be shown: " + err.Error()
		}
	}
	return out, nil
}

// continueTask drives a task until it has ended or needs a person, or passes the text to the process that
// already drives it.
func (d *desk) continueTask(o continueTask) tea.Msg {
	row, err := d.cfg.Store.Thread(d.ctx, o.task)
	if err != nil {
		return did{err: err}
	}
	how := control.Resume{Prompt: strings.TrimSpace(o.say), Wait: true}
	if row.Flow == flow.ChatFlow {
		how.Source = flow.ChatFlow
	}
	here := d.job(row.ID) != nil
	if here || d.cfg.Views.Driven(d.ctx, row.ID) {
		switch {
		case how.Prompt != "":
			return did{"sent to the task", d.cfg.Program.Named(d.cfg.Control.QueueInput(d.ctx, row.ID, how))}
		case here:
			return nil // driven follows
		}
		return elsewhere{}
	}
	return d.drive(row, how)
}

// drive drives a task and reports how that ended.
func (d *desk) drive(row store.Thread, how control.Resume) tea.Msg {
	ctx, end := context.WithCancelCause(d.ctx)
	defer end(nil)
	d.mu.Lock()
	if d.jobs[row.ID] != nil || d.ctx.Err() != nil {
		d.mu.Unlock()
		return nil
	}
	d.jobs[row.ID] = end
	d.running.Add(1)
	d.mu.Unlock()
	now, err := d.cfg.Drive(ctx, row, how)
	d.mu.Lock()
	delete(d.jobs, row.ID)
	d.mu.Unlock()
	d.running.Done()
	if now.ID == "" {
		now = row
	}
	if latest, e := d.cfg.Store.Thread(context.WithoutCancel(ctx), now.ID); e == nil {
		now = latest
	}
	return driven{now, d.newLines(), d.cfg.Program.Named(err)}
}

// job returns what ends the driving of a task here, nil if it is not driven here.
func (d *desk) job(task string) context.CancelCauseFunc {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.jobs[task]
}

// stop interrupts a task driven here and waits until it is no longer driven.
func (d *desk) stop(task string) {
	end := d.job(task)
	if end == nil {
		return
	}
	for end(engine.ErrInterrupted); d.job(task) != nil; {
		time.Sleep(20 * time.Millisecond)
	}
}

// newLines reads new events, and returns the lines to print for them.
func (d *desk) newLines() []string {
	if d.cfg.Say == nil || d.task == "" {
		return nil
	}
	d.reading.Lock()
	defer d.reading.Unlock()
	events, err := d.cfg.Store.Events(context.WithoutCancel(d.ctx), d.pos, store.EventFilter{Task: d.task})
	if err != nil {
		return nil // the next read returns them or the error
	}
	var lines []string
	for _, ev := range events {
		d.pos = ev.Pos
		if text := d.cfg.Say(ev); text != "" {
			lines = append(lines, strings.Split(text, "\n")...)
		}
	}
	return lines
}

// follow reports news until the screen ends.
func (d *desk) follow() {
	for pos := int64(0); ; {
		d.send(news{d.newLines()})
		last, err := d.cfg.Store.Wait(d.ctx, pos)
		if d.ctx.Err() != nil {
			return
		}
		if err == nil {
			pos = last
		}
		select { // so that a burst of events is read together
		case <-time.After(newsEvery):
		case <-d.ctx.Done():
			return
		}
	}
}

// newsEvery is the minimum time between two reads of the record.
const newsEvery = 150 * time.Millisecond

// harmless reports whether an error of driving only means that the task was stopped here, or that
// another process drives it.
func harmless(err error) bool {
	var held *store.HeldError
	return errors.Is(err, engine.ErrInterrupted) || errors.Is(err, context.Canceled) || errors.As(err, &held)
}
