package view

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/view/advice"
)

// A TaskRow is a task in a list.
type TaskRow struct {
	ID      string  `json:"id"`
	Short   string  `json:"short"` // what users type for it
	State   string  `json:"state"` // see State
	Display Display `json:"display"`
	// Dismissed says that nobody need be told any more that it has stopped.
	Dismissed bool `json:"dismissed"`
	// Controller is the progress of the plan, null if the task is not planned.
	Controller *Controller  `json:"controller"`
	Title      string       `json:"title"`
	Flow       string       `json:"flow"`
	Status     store.Status `json:"status"` // of its root thread, or interrupted
	Head       string       `json:"head"`   // "" for none
	Steps      int          `json:"steps"`
	Agents     int          `json:"agents"` // running
	Gates      int          `json:"gates"`  // open
	Usage      store.Usage  `json:"usage"`
	Workspace  string       `json:"workspace"`
	CreatedAt  Time         `json:"createdAt"`
	UpdatedAt  Time         `json:"updatedAt"`
	// Waits is Options as command lines, set by the program that prints the list.
	Waits   []string        `json:"waits"`
	Options []advice.Option `json:"-"` // how to let it continue: the first answer of each open gate, else a resume
}

func newTaskRow(v Task) TaskRow {
	l := TaskRow{
		ID: v.ID, Short: v.Short, State: v.State, Display: v.Display, Dismissed: v.Dismissed, Title: v.Title, Flow: v.Flow, Status: v.Status,
		Head: v.Head, Steps: v.Steps, Gates: len(v.OpenGates()), Usage: store.Usage(v.Usage), Workspace: v.Workspace,
		CreatedAt: v.CreatedAt, UpdatedAt: v.UpdatedAt, Controller: v.Controller, Waits: []string{},
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

// A TaskFilter selects tasks.
type TaskFilter struct {
	All      bool           // in every workspace
	State    string         // only in this state, "" for any
	Word     string         // only in this state, a word of [StateWords] or a state; "" for any
	Statuses []store.Status // only with a root thread in one of these, nil for any
	Flow     string         // only with a root thread of this flow, "" for any
	Title    string         // only with this in the title, ignoring case; "" for any
	After    string         // only those after this id in the list
	Since    int64          // only begun at this time or later, Unix ms; 0 for any
	Ended    int64          // only ended at this time or later, or unfinished, Unix ms; 0 for any
	Told     bool           // without those that were dismissed
	Limit    int            // maximum number, 0 for all
}

// statuses returns the statuses that the root thread of a matching task can have.
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

// resolved returns f with Word resolved to a display state, else a state, else a status.
func (f TaskFilter) resolved() TaskFilter {
	word := normalWord(f.Word)
	f.Word = word
	switch {
	case slices.Contains([]string{Created, Working, InputRequired, Canceled}, word):
		f.State, f.Word = word, ""
	case word != "":
		f.Statuses = statusesOf(word)
	}
	return f
}

// has reports whether a task is in the state that f asks for.
func (f TaskFilter) has(v Task) bool {
	if f.State != "" && v.State != f.State {
		return false
	}
	if displayWords[f.Word] != nil {
		return isDisplayed(f.Word, v.Display)
	}
	return f.Word == "" || string(v.Status) == f.Word
}

// Tasks lists tasks, newest first. It reads no more than it needs to fill the limit.
func (b *Reader) Tasks(ctx context.Context, f TaskFilter) ([]TaskRow, error) {
	f = f.resolved()
	by := store.ThreadFilter{Kind: store.KindRoot, Newest: true, Workspace: b.Workspace, Statuses: f.statuses(),
		Ended: f.Ended, After: f.After, Limit: f.Limit}
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
				return out, nil // the rest is older
			}
			if f.Flow != "" && row.Flow != f.Flow || f.Told && row.Intent == store.IntentDismiss {
				continue
			}
			if title != "" { // much cheaper than reading the whole task
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
				continue // removed in the meantime
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

// Task reads the task whose root thread is row, as Record does.
func (b *Reader) Task(ctx context.Context, row store.Thread) (Task, error) {
	r, err := b.Record(ctx, row)
	if err != nil {
		return Task{}, fmt.Errorf("look at task %s: %w", row.ID, err)
	}
	return r.Task(), nil
}

// Selects reports whether f selects the task whose root thread is row by its workspace, its flow and its state.
func (b *Reader) Selects(ctx context.Context, f TaskFilter, row store.Thread) (bool, error) {
	f = f.resolved()
	may := f.statuses()
	if !f.All && !b.here(row) || f.Flow != "" && row.Flow != f.Flow || may != nil && !slices.Contains(may, row.Status) {
		return false, nil
	}
	if f.State == "" && f.Word == "" {
		return true, nil
	}
	v, err := b.Task(ctx, row)
	return err == nil && f.has(v), err
}
