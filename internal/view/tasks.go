package view

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/thread"
)

// A TaskRow is a task in a list.
type TaskRow struct {
	ID      string  `json:"id"`
	Short   string  `json:"short"` // what people call it
	State   string  `json:"state"` // see State
	Display Display `json:"display"`
	// Controller is how far a model's plan has come, null when no model plans.
	Controller *Controller  `json:"controller"`
	Title      string       `json:"title"`
	Flow       string       `json:"flow"`
	Status     store.Status `json:"status"` // of its root thread, interrupted where that is so
	Head       string       `json:"head"`   // "" for none
	Steps      int          `json:"steps"`
	Agents     int          `json:"agents"` // at work
	Gates      int          `json:"gates"`  // that wait for a person
	Usage      store.Usage  `json:"usage"`
	Workspace  string       `json:"workspace"`
	CreatedAt  Time         `json:"createdAt"`
	UpdatedAt  Time         `json:"updatedAt"`
	// Waits are Options as command lines. Whoever prints the list fills them in.
	Waits   []string `json:"waits"`
	Options []Option `json:"-"` // what lets it go on: the first answer of each gate that waits for a person, else a resume
}

func newTaskRow(v Task) TaskRow {
	l := TaskRow{
		ID: v.ID, Short: v.Short, State: v.State, Display: v.Display, Title: v.Title, Flow: v.Flow, Status: v.Status, Head: v.Head, Steps: v.Steps,
		Gates: len(v.OpenGates()),
		Usage: store.Usage(v.Usage), Workspace: v.Workspace, CreatedAt: v.CreatedAt, UpdatedAt: v.UpdatedAt,
		Controller: v.Controller, Waits: []string{},
	}
	for _, g := range v.OpenGates() {
		l.Options = append(l.Options, g.Answers[0])
	}
	if v.Next != nil {
		l.Options = append(l.Options, *v.Next)
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
	Stands   string         // only those in this displayed state, one of [Standings] or a state; "" for any
	Statuses []store.Status // only those whose root thread is stored with one of these, nil for any
	Flow     string         // only those whose root thread is of this flow, "" for any
	Title    string         // only those whose title has this, in any case; "" for any
	After    string         // only those after this id in the list
	Since    int64          // only those begun at this time or later, Unix ms; 0 for any
	Limit    int            // at most so many, 0 for all
}

// statuses are those that the root threads of tasks in a state can have.
func (f TaskFilter) statuses() []store.Status {
	switch f.State {
	case Completed:
		return []store.Status{store.Completed}
	case Failed:
		return []store.Status{store.Failed}
	case Canceled:
		return []store.Status{store.Cancelled}
	case Created:
		return []store.Status{store.Pending}
	case Working:
		return []store.Status{store.Running}
	case InputRequired:
		return []store.Status{store.Pending, store.Running, store.Blocked}
	}
	return f.Statuses
}

// standingAs is f with Stands read: as how a task is displayed, else as its state, else as its status.
func (f TaskFilter) standingAs() TaskFilter {
	word := standing(f.Stands)
	f.Stands = word
	switch {
	case slices.Contains([]string{Created, Working, InputRequired, Canceled}, word):
		f.State, f.Stands = word, ""
	case word != "":
		f.Statuses = storedAs(word)
	}
	return f
}

// has reports whether a task stands as is asked for.
func (f TaskFilter) has(v Task) bool {
	if f.State != "" && v.State != f.State {
		return false
	}
	if displayWords[f.Stands] != nil {
		return isDisplayed(f.Stands, v.Display)
	}
	return f.Stands == "" || string(v.Status) == f.Stands
}

// Tasks lists tasks, newest first. No more is read than is needed to fill the limit.
func (b *Reader) Tasks(ctx context.Context, f TaskFilter) ([]TaskRow, error) {
	f = f.standingAs()
	by := store.ThreadFilter{Kind: store.KindRoot, Newest: true, Workspace: b.Workspace, Statuses: f.statuses(),
		After: f.After, Limit: f.Limit}
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
			if f.Since > 0 && row.ID < thread.FirstID(f.Since) {
				return out, nil // what comes then is older still
			}
			if f.Flow != "" && row.Flow != f.Flow {
				continue
			}
			if title != "" { // it costs far less than the whole task
				about, err := b.Title(ctx, row)
				if err != nil {
					return nil, err
				}
				if !strings.Contains(strings.ToLower(about), title) {
					continue
				}
			}
			v, err := b.Task(ctx, row)
			if errors.Is(err, store.ErrNotFound) {
				continue // removed meanwhile
			}
			if err != nil {
				return nil, err
			}
			if f.has(v) {
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

// Task reads the task whose root thread is row. Only of one that has not ended it
// matters who drives it.
func (b *Reader) Task(ctx context.Context, row store.Thread) (Task, error) {
	r, err := b.TaskRecord(ctx, row.ID, !row.Ended() && b.Driven(ctx, row.ID))
	if err != nil {
		return Task{}, fmt.Errorf("look at task %s: %w", row.ID, err)
	}
	return r.Task(), nil
}
