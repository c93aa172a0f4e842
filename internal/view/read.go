package view

import (
	"context"
	"fmt"
	"maps"

	"github.com/plait-run/plait/internal/record"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
)

// Record reads the task whose root thread is row. Whether a process drives it is looked up only if it has not ended.
func (b *Reader) Record(ctx context.Context, row store.Thread) (TaskRecord, error) {
	return b.TaskRecord(ctx, row.ID, !row.Ended() && b.Driven(ctx, row.ID))
}

// TaskRecord reads a task. driven says that a process drives it: otherwise a running task is shown
// as interrupted, unless it is a team's and a worker serves. It may return store.ErrNotFound.
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
	start, err := b.Nodes.Start(ctx, r.Root.Start)
	if err != nil {
		return r, err
	}
	r.acts = start.Action.ID
	if r.Prompt, err = b.Nodes.Text(ctx, start.Prompt); err != nil {
		return r, err
	}
	if r.Root.Ended() {
		result, err := b.Result(ctx, r.Root)
		if err != nil {
			return r, err
		}
		r.result = &result.Text
	}
	if err = b.readKept(ctx, &r); err != nil {
		return r, err
	}
	if r.bundle, err = b.Nodes.Bundle(ctx, r.Root.Bundle); err != nil {
		return r, err
	}
	plans := planRoles(r.bundle)
	r.Planned = len(plans[r.Root.Flow]) > 0
	if err = b.readRounds(ctx, &r, plans); err != nil || !r.Planned {
		return r, err
	}
	r.phases, err = b.phases(ctx, r.Root)
	return r, err
}

// readKept reads which worktrees stayed at joins.
func (b *Reader) readKept(ctx context.Context, r *TaskRecord) error {
	r.kept = map[string]string{}
	if len(r.Threads) == 1 {
		return nil
	}
	of := store.EventFilter{Task: r.Root.ID, Types: event.Types(event.ThreadJoined{})}
	return event.Each(ctx, b.Store, of, new(int64), func(ev store.Event) error {
		if joined, ok := event.Read(ev).(event.ThreadJoined); ok {
			maps.Copy(r.kept, joined.Kept)
		}
		return nil
	})
}

// RootOf reads the root thread of a task. It returns store.ErrNotFound for any other thread.
func RootOf(ctx context.Context, index store.Index, task string) (store.Thread, error) {
	row, err := index.Thread(ctx, task)
	if err == nil && row.Task != row.ID {
		err = fmt.Errorf("it is part of task %s: %w", row.Task, store.ErrNotFound)
	}
	return row, err
}

// Result returns the result of a thread.
func (b *Reader) Result(ctx context.Context, row store.Thread) (record.Result, error) {
	return record.New(b.Nodes, b.Store).Result(ctx, row)
}

// Title returns the title of the task whose root thread is root, as in Task.
func (b *Reader) Title(ctx context.Context, root store.Thread) (string, error) {
	prompt, err := b.ThreadPrompt(ctx, root)
	if err != nil {
		return "", fmt.Errorf("read the title of task %s: %w", root.ID, err)
	}
	return titleOf(prompt, root), nil
}

// ThreadPrompt returns the prompt of the thread whose row is root.
func (b *Reader) ThreadPrompt(ctx context.Context, root store.Thread) (string, error) {
	start, err := b.Nodes.Start(ctx, root.Start)
	if err != nil {
		return "", err
	}
	return b.Nodes.Text(ctx, start.Prompt)
}
