// Package verifytest has what verification must say of a record, whichever store keeps it: of any history that is
// written as an engine writes, that all is well; of one that was forged, what was forged, or that only those can tell
// who have seen what was there before.
package verifytest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/testing/housetest"
)

const flowFile = `version: 1
name: work
roles: {worker: {description: works}}
graph:
  $START: {new: {role: worker, prompt: "{{ prompt }}"}}
  worker:
    again: {role: worker, prompt: "{{ _body }}"}
    done: {role: $END, prompt: "{{ _body }}"}
`

// steps is how many steps a task takes before it ends.
const steps = 4

// A Writer writes a history as an engine would, a batch at a time. It keeps nothing of what it wrote: what can come
// next follows from what the store has, so that others may write too, and another may continue after it was killed.
type Writer struct {
	s      store.Store
	name   string
	pick   func(n int) int
	bundle thread.Bundle
}

// NewWriter returns a writer of tasks of its own, whose ids begin with name. It decides by pick, which returns a number
// from 0 to less than n. Writers at the same time must have different names, as drivers have leases.
func NewWriter(s store.Store, name string, bundle thread.Bundle, pick func(n int) int) *Writer {
	return &Writer{s, name, pick, bundle}
}

// Bundle returns the flow of the tasks that writers begin.
func Bundle(t housetest.T) thread.Bundle {
	t.Helper()
	return housetest.Bundle(t, flowFile)
}

// Write commits one batch. Another writer may have changed the registry first; then nothing is written.
func (w *Writer) Write(ctx context.Context) error {
	b, err := w.next(ctx, fmt.Sprint(w.name, w.pick(3)))
	if err == nil {
		err = w.s.Commit(ctx, b)
	}
	if errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}

func (w *Writer) now() int64 { return w.s.Now().UnixMilli() }

// next returns a batch about a task, or about the registry.
func (w *Writer) next(ctx context.Context, task string) (store.Batch, error) {
	row, err := w.s.Thread(ctx, task)
	if errors.Is(err, store.ErrNotFound) {
		return w.begin(task)
	}
	if err != nil {
		return store.Batch{}, err
	}
	switch w.pick(12) {
	case 0:
		return w.remove(ctx, row)
	case 1:
		return w.redact(ctx, row)
	case 2:
		return w.register(ctx)
	case 3, 4:
		return w.gate(ctx, row)
	case 5, 6:
		return w.request(ctx, row)
	}
	return w.work(ctx, row)
}

func (w *Writer) begin(id string) (store.Batch, error) {
	objects, row, err := thread.Begin(thread.NewTask{Row: store.Thread{ID: id, CreatedAt: w.now()}, Bundle: w.bundle,
		Prompt: "work"})
	return store.Batch{Objects: objects, Threads: []store.ThreadChange{{Row: row}},
		Events: []store.Event{event.New(row, row.CreatedAt, event.TaskCreated{Flow: row.Flow, Bundle: row.Bundle,
			Start: row.Start})}}, err
}

// work starts an attempt, ends it, or ends the task.
func (w *Writer) work(ctx context.Context, row store.Thread) (store.Batch, error) {
	tip, err := thread.NewReader(w.s).Tip(ctx, row.Head)
	if err != nil || row.Ended() {
		return w.say(row), err
	}
	if row.Steps == steps {
		ch, err := thread.End(row, tip, thread.CodeDone, "done", w.now())
		return store.Batch{Objects: ch.Objects, Threads: []store.ThreadChange{{Row: ch.Row, From: row.State()}},
			Events: []store.Event{event.New(row, w.now(), event.TaskEnded{State: event.TaskState(ch.Row.Status)})}}, err
	}
	attempts, err := w.s.Attempts(ctx, store.AttemptFilter{Thread: row.ID})
	if err != nil {
		return store.Batch{}, err
	}
	if n := len(attempts); n > 0 && attempts[n-1].Status == store.AttemptRunning {
		return w.end(row, tip, attempts[n-1])
	}
	was := row.State()
	row.Status = store.Running
	prompt, err := thread.NewContent(fmt.Sprint("step ", row.Steps), nil)
	n := len(attempts) + 1
	a := store.Attempt{ID: thread.AttemptID(row.ID, n), Thread: row.ID, From: row.Head, Role: "worker", N: n,
		Prompt: prompt.Hash, Status: store.AttemptRunning, StartedAt: w.now()}
	return store.Batch{Objects: []store.Object{prompt}, Threads: []store.ThreadChange{{Row: row, From: was}},
		Attempts: []store.AttemptChange{{Row: a}},
		Events:   []store.Event{event.OfAttempt(row, a, a.StartedAt, event.AttemptStarted{Role: a.Role})}}, err
}

// end ends an attempt: with a step, or without one.
func (w *Writer) end(row store.Thread, tip thread.Tip, a store.Attempt) (store.Batch, error) {
	a.EndedAt, a.Usage = w.now(), store.Usage{InputTokens: 10, OutputTokens: 2, CostMicroUSD: 100}
	if w.pick(3) == 0 {
		a.Status, a.Failure = store.AttemptFailed, &store.Failure{Kind: store.FailureInfra, Message: "gone"}
		return store.Batch{Attempts: []store.AttemptChange{{Row: a, From: store.AttemptRunning}},
			Events: []store.Event{event.OfAttempt(row, a, a.EndedAt, event.AttemptFailed{Role: a.Role,
				Kind: a.Failure.Kind})}}, nil
	}
	a.Status = store.AttemptDone
	status := "again"
	if row.Steps == steps-1 {
		status = "done"
	}
	ch, err := thread.Append(row, tip, thread.Draft{Role: a.Role, Meta: json.RawMessage(`{"$status":"` + status + `"}`),
		Text: fmt.Sprint("done ", row.Steps), At: a.EndedAt, Detail: &thread.Detail{Agent: "test", Attempt: a.ID,
			Attempts: []thread.EarlierAttempt{}, Context: []thread.ContextUse{}, Prompt: a.Prompt, Usage: a.Usage}})
	return store.Batch{Objects: ch.Objects, Threads: []store.ThreadChange{{Row: ch.Row, From: row.State()}},
		Attempts: []store.AttemptChange{{Row: a, From: store.AttemptRunning}},
		Events: []store.Event{event.OfAttempt(row, a, a.EndedAt, event.AttemptCompleted{Role: a.Role, Step: ch.Step.Hash,
			N: ch.Row.Steps, Status: status, Usage: a.Usage})}}, err
}

// gate opens a gate of a thread, or answers the one that is open.
func (w *Writer) gate(ctx context.Context, row store.Thread) (store.Batch, error) {
	gates, err := w.s.Gates(ctx, store.GateFilter{Thread: row.ID})
	if err != nil {
		return store.Batch{}, err
	}
	change := store.GateChange{Row: store.Gate{ID: fmt.Sprint("g-", row.ID, "-", len(gates)), Kind: store.GateApproval,
		State: store.GateOpen, Source: store.SourceAgent, Task: row.Task, Thread: row.ID, From: row.Head,
		Question: "May I?", OpenedAt: w.now()}}
	said := event.GateBlocked
	for _, g := range gates {
		if g.State == store.GateOpen {
			change = store.GateChange{Row: g, From: g.State}
			g := &change.Row
			g.State, g.By, g.Via, g.Text, g.AnsweredAt = store.GateRejected, "ann", store.ViaCLI, "no", w.now()
			said = event.Change(g.State)
		}
	}
	g := change.Row
	return store.Batch{Gates: []store.GateChange{change}, Events: []store.Event{event.New(row, w.now(),
		event.GateChanged{Change: said, Gate: g.ID, Kind: g.Kind, State: g.State, By: g.By, Via: g.Via})}}, nil
}

// request asks something of a task, or takes what was asked.
func (w *Writer) request(ctx context.Context, row store.Thread) (store.Batch, error) {
	all, err := w.s.Requests(ctx, store.RequestFilter{Task: row.Task})
	if err != nil {
		return store.Batch{}, err
	}
	for _, r := range all {
		if r.TakenAt == 0 {
			r.TakenAt = w.now()
			return store.Batch{Requests: []store.RequestChange{{Row: r, Take: true}}, Events: []store.Event{event.New(row,
				w.now(), event.RequestTaken{Request: r.ID, Kind: r.Kind})}}, nil
		}
	}
	r := store.Request{ID: fmt.Sprint("r-", row.ID, "-", len(all)), Task: row.Task, Kind: store.RequestInput,
		Text: "hurry", By: "ann", At: w.now()}
	return store.Batch{Requests: []store.RequestChange{{Row: r}}, Events: []store.Event{event.New(row, r.At,
		event.RequestMade{Request: r.ID, Kind: r.Kind, By: r.By})}}, nil
}

// register registers a flow, changes it, or takes it away.
func (w *Writer) register(ctx context.Context) (store.Batch, error) {
	bundle, err := thread.NewNode(dag.TypeFlow, w.bundle)
	if err != nil {
		return store.Batch{}, err
	}
	f, err := w.s.Flow(ctx, "work")
	was, told := f.Hash, event.Payload(event.FlowRegistered{Name: "work", Hash: bundle.Hash})
	remove := err == nil && w.pick(2) == 0
	switch {
	case remove:
		told = event.FlowRemoved{Name: f.Name}
	case err == nil:
		f.Timestamp++
	case errors.Is(err, store.ErrNotFound):
		f, err = store.Flow{Name: "work", Hash: bundle.Hash, Timestamp: w.now()}, nil
	}
	return store.Batch{Objects: []store.Object{bundle},
		Flows:  []store.FlowChange{{Row: f, From: was, Delete: remove}},
		Events: []store.Event{event.New(store.Thread{}, w.now(), told)}}, err
}

func (w *Writer) remove(ctx context.Context, row store.Thread) (store.Batch, error) {
	events, err := w.s.Events(ctx, 0, store.EventFilter{Task: row.Task})
	if err != nil || len(events) == 0 {
		return store.Batch{}, err
	}
	return store.Batch{Remove: []string{row.Task}, Events: []store.Event{event.New(store.Thread{ID: row.ID}, w.now(),
		event.ThreadRemoved{By: "ann", Count: len(events), First: events[0].Pos, Last: events[len(events)-1].Pos})}}, nil
}

// redact takes the payload out of an event.
func (w *Writer) redact(ctx context.Context, row store.Thread) (store.Batch, error) {
	events, err := w.s.Events(ctx, 0, store.EventFilter{Task: row.Task, Types: event.Types(event.NotesRefused{})})
	if err != nil || len(events) == 0 {
		return w.say(row), err
	}
	e := events[w.pick(len(events))]
	e.Payload = json.RawMessage(`{"message":"***"}`)
	return store.Batch{Redact: store.Redaction{Events: []store.Event{e}}, Events: []store.Event{event.New(row, w.now(),
		event.TaskRedacted{By: "ann", Events: 1})}}, nil
}

// say files an event that is about no row.
func (w *Writer) say(row store.Thread) store.Batch {
	return store.Batch{Events: []store.Event{event.New(row, w.now(), event.NotesRefused{Message: "a secret"})}}
}
