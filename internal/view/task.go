package view

import (
	"context"
	"errors"
	"strings"

	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/task"
)

// A TaskRow is a task in a list.
type TaskRow struct {
	ID    string `json:"id"`
	State string `json:"state"` // see task.State
	// Controller is how far a model's plan has come, null when no model plans.
	Controller *task.Controller `json:"controller"`
	Title      string           `json:"title"`
	Flow       string           `json:"flow"`
	Status     store.Status     `json:"status"` // of its root thread, interrupted where that is so
	Head       string           `json:"head"`   // "" for none
	Steps      int              `json:"steps"`
	Agents     int              `json:"agents"` // at work
	Gates      int              `json:"gates"`  // that wait for a person
	Usage      store.Usage      `json:"usage"`
	Workspace  string           `json:"workspace"`
	CreatedAt  task.Time        `json:"createdAt"`
	UpdatedAt  task.Time        `json:"updatedAt"`
	// Waits are the commands that answer what waits for a person, or go on.
	Waits []string `json:"waits"`
}

func newTaskRow(v task.View) TaskRow {
	l := TaskRow{
		ID: v.ID, State: v.State, Title: v.Title, Flow: v.Flow, Status: v.Status, Head: v.Head, Steps: v.Steps, Gates: len(v.OpenGates()),
		Usage: store.Usage(v.Usage), Workspace: v.Workspace, CreatedAt: v.CreatedAt, UpdatedAt: v.UpdatedAt,
		Controller: v.Controller, Waits: []string{},
	}
	for _, g := range v.OpenGates() {
		l.Waits = append(l.Waits, g.AnswerWith)
	}
	if v.GoOn != "" {
		l.Waits = append(l.Waits, v.GoOn)
	}
	for _, m := range v.Roster {
		if m.State == store.Running || m.State == store.Blocked && v.Status == store.Running {
			l.Agents++
		}
	}
	return l
}

// A TaskFilter says which tasks are listed.
type TaskFilter struct {
	All      bool           // of every workspace
	State    string         // only in this state, "" for any
	Statuses []store.Status // only those whose root thread is stored with one of these, nil for any
	Flow     string         // only those whose root thread is of this flow, "" for any
	Title    string         // only those whose title has this, in any case; "" for any
	After    string         // only those that stand after this id in the list
	Limit    int            // at most so many, 0 for all
}

// statuses are those that the root threads of tasks in a state can have.
func (f TaskFilter) statuses() []store.Status {
	switch f.State {
	case task.Completed:
		return []store.Status{store.Completed}
	case task.Failed:
		return []store.Status{store.Failed}
	case task.Canceled:
		return []store.Status{store.Cancelled}
	case task.Created:
		return []store.Status{store.Pending}
	case task.Working:
		return []store.Status{store.Running}
	case task.InputRequired:
		return []store.Status{store.Pending, store.Running, store.Blocked}
	}
	return f.Statuses
}

// Tasks lists tasks, newest first. No more is read than is needed to fill the limit.
func (b *Book) Tasks(ctx context.Context, f TaskFilter) ([]TaskRow, error) {
	by := store.ThreadFilter{Kind: store.KindRoot, Newest: true, Workspace: b.Workspace, Statuses: f.statuses(), After: f.After, Limit: f.Limit}
	if f.All {
		by.Workspace = ""
	}
	title := strings.ToLower(f.Title)
	out := []TaskRow{}
	for {
		rows, err := b.Store.Threads(ctx, by)
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			by.After = row.ID
			if f.Flow != "" && row.Flow != f.Flow {
				continue
			}
			if title != "" { // it costs far less than the whole task
				about, err := b.Board.Title(ctx, row)
				if err != nil {
					return nil, err
				}
				if !strings.Contains(strings.ToLower(about), title) {
					continue
				}
			}
			v, err := b.lookAt(ctx, row)
			if errors.Is(err, store.ErrNotFound) {
				continue // removed meanwhile
			}
			if err != nil {
				return nil, err
			}
			if f.State == "" || v.State == f.State {
				out = append(out, newTaskRow(v))
			}
			if f.Limit > 0 && len(out) == f.Limit {
				return out, nil
			}
		}
		if f.Limit == 0 || len(rows) < by.Limit {
			return out, nil
		}
	}
}

// A Task is a task whole, with the place of its files.
type Task struct {
	task.View
	Dir     string   `json:"dir"`     // absolute
	Reports []string `json:"reports"` // by their path in dir
}

// Task reads the task whose root thread is row.
func (b *Book) Task(ctx context.Context, row store.Thread) (*Task, error) {
	dir := task.At(row.Workspace, row.ID)
	v := &Task{Dir: dir.Path()}
	var err error
	if v.View, err = b.lookAt(ctx, row); err != nil {
		return nil, err
	}
	if v.Reports, err = dir.Reports(); err != nil {
		return nil, err
	}
	return v, nil
}

// lookAt reads a task as people see it. Only of one that has not ended it matters who
// drives it.
func (b *Book) lookAt(ctx context.Context, row store.Thread) (task.View, error) {
	return b.Board.Look(ctx, row.ID, !row.Ended() && b.Driven(ctx, row.ID))
}
