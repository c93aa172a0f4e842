package view

import (
	"context"
	"fmt"

	"github.com/plait-run/plait/internal/store"
)

// A TaskRecord is what the record holds about a task, its lists in id order: what a
// [Task] is made of, and what its files are drawn from.
type TaskRecord struct {
	Root     store.Thread
	Threads  []store.Thread
	Attempts []store.Attempt
	Gates    []store.Gate
	Prompt   string // what the task is about
	Planned  bool   // by a model
	Rounds   []Round
	Ends     []Finish
	Driven   bool // by a process, now

	phases []phase           // of its controller
	awaits map[string]string // by thread, what it waits for though it needs no person
}

// TaskRecord reads what the record holds about the task id. driven says that a process
// drives it: what runs without one is interrupted, unless it is a team's of which a worker serves. store.ErrNotFound.
func (b *Reader) TaskRecord(ctx context.Context, id string, driven bool) (r TaskRecord, err error) {
	r.Driven = driven
	if r.Root, err = RootOf(ctx, b.Store, id); err != nil {
		return r, err
	}
	if r.Threads, err = b.Store.Threads(ctx, store.ThreadFilter{Task: id}); err != nil {
		return r, err
	}
	if r.Attempts, err = b.Store.Attempts(ctx, store.AttemptFilter{Task: id}); err != nil {
		return r, err
	}
	if r.Gates, err = b.Store.Gates(ctx, store.GateFilter{Task: id}); err != nil {
		return r, err
	}
	if err = b.readTeam(ctx, &r); err != nil {
		return r, err
	}
	if r.Prompt, err = b.ThreadPrompt(ctx, r.Root); err != nil {
		return r, err
	}
	if r.Planned, err = b.planned(ctx, r.Root); err != nil {
		return r, err
	}
	if r.Rounds, r.Ends, err = b.rounds(ctx, r.Root, r.Threads); err != nil || !r.Planned {
		return r, err
	}
	r.phases, err = b.phases(ctx, r.Root)
	return r, err
}

// Thread returns the row of a thread of the task, the zero Thread for any other.
func (r TaskRecord) Thread(id string) store.Thread {
	for _, t := range r.Threads {
		if t.ID == id {
			return t
		}
	}
	return store.Thread{}
}

// RootOf reads the root thread of a task. store.ErrNotFound for any other thread.
func RootOf(ctx context.Context, index store.Index, task string) (store.Thread, error) {
	row, err := index.Thread(ctx, task)
	if err == nil && row.Task != row.ID {
		err = fmt.Errorf("it is part of task %s: %w", row.Task, store.ErrNotFound)
	}
	return row, err
}

// planned reports whether the flow of row has a role that plans.
func (b *Reader) planned(ctx context.Context, row store.Thread) (bool, error) {
	plan, err := b.planners(ctx, row.Bundle)
	return len(plan[row.Flow]) > 0, err
}

// Title is the title of the task whose root thread is root, as its Task has it.
func (b *Reader) Title(ctx context.Context, root store.Thread) (string, error) {
	prompt, err := b.ThreadPrompt(ctx, root)
	if err != nil {
		return "", fmt.Errorf("read the title of task %s: %w", root.ID, err)
	}
	return titleOf(prompt, root), nil
}

// ThreadPrompt is what the thread whose row is root was asked.
func (b *Reader) ThreadPrompt(ctx context.Context, root store.Thread) (string, error) {
	start, err := b.Nodes.Start(ctx, root.Start)
	if err != nil {
		return "", err
	}
	return b.Nodes.Text(ctx, start.Prompt)
}
