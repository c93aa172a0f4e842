package view

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/sys/text"
	"github.com/plait-run/plait/internal/view/advice"
)

// Newest names the newest task of the workspace; "last~1" is the one before it.
const Newest = "last"

// minPrefix is the minimum length of an id prefix, in characters.
const minPrefix = 4

// Find returns the thread that typed names, and the step in it, "" for none:
//
//	k7f2          a task, by its short name
//	last, last~1  the newest task of the workspace, the one before
//	01M8…         a thread, by its id or the beginning of one, four characters or more
//	k7f2/mend     the newest part of a task of that name, k7f2/mend~1 the one before; inside
//	              another part it is k7f2/api/develop, or develop if nothing at the top has that name;
//	              a sub-flow has the name of the flow, or of the role that called it
//	k7f2/3        a step, by its number; so is k7f2/mend/3
//
// Case does not matter in ids. The error matches store.ErrNotFound if no thread matches.
func (b *Reader) Find(ctx context.Context, typed string) (row store.Thread, step string, err error) {
	name, step, _ := CutStep(strings.TrimPrefix(typed, "@"))
	task, part, inside := strings.Cut(name, "/")
	if row, err = b.findThread(ctx, task); err == nil && inside {
		row, err = b.findPart(ctx, row, part)
	}
	return row, step, err
}

// CutStep splits off the number of a step: "k7f2/mend/3" becomes "k7f2/mend" and "3".
func CutStep(typed string) (name, step string, found bool) {
	i := strings.LastIndexByte(typed, '/')
	if i < 0 {
		return typed, "", false
	}
	if _, err := strconv.ParseUint(typed[i+1:], 10, 31); err != nil {
		return typed, "", false
	}
	return typed[:i], typed[i+1:], true
}

func (b *Reader) findThread(ctx context.Context, typed string) (row store.Thread, err error) {
	name, back, err := counted(typed)
	if err != nil {
		return row, err
	}
	if name == Newest {
		rows, err := b.Store.Threads(ctx, store.ThreadFilter{Workspace: b.Workspace, Kind: store.KindRoot,
			Newest: true, Limit: back + 1})
		if err != nil {
			return row, err
		}
		if len(rows) <= back {
			return row, Advise(fmt.Errorf("no task %s: this workspace has %s: %w", typed, text.Count(len(rows), "task"), store.ErrNotFound),
				"list those of every workspace with `%s`", advice.Option{Verb: advice.ListAll})
		}
		return rows[back], nil
	}
	if row, err = b.Store.Thread(ctx, strings.ToUpper(typed)); err == nil || !errors.Is(err, store.ErrNotFound) {
		return row, err
	}
	if typed == "" {
		return row, fmt.Errorf("no task %q: %w", typed, store.ErrNotFound)
	}
	rows, err := b.Store.Threads(ctx, store.ThreadFilter{Short: strings.ToLower(typed), Limit: 1})
	if err == nil && len(rows) == 0 && len(typed) >= minPrefix {
		rows, err = b.Store.Threads(ctx, store.ThreadFilter{Prefix: strings.ToUpper(typed), Limit: 2})
	}
	switch {
	case err != nil:
		return row, err
	case len(rows) == 1:
		return rows[0], nil
	case len(rows) > 1:
		return row, fmt.Errorf("more than one task or part begins with %q: give more of the id: %w", text.Safe(typed),
			store.ErrNotFound)
	}
	if len(typed) < minPrefix {
		return row, Advise(fmt.Errorf("no task %q: the beginning of an id takes %d characters or more: %w",
			text.Safe(typed), minPrefix, store.ErrNotFound), "list tasks with `%s`", advice.Option{Verb: advice.ListAll})
	}
	return row, Advise(fmt.Errorf("no task %q: %w", text.Safe(typed), store.ErrNotFound),
		"list tasks with `%s`", advice.Option{Verb: advice.ListAll})
}

// findPart returns the newest part of row's task, at or below row, that is called name. A part whose
// whole path below row it is precedes others.
func (b *Reader) findPart(ctx context.Context, row store.Thread, name string) (store.Thread, error) {
	name, back, err := counted(name)
	if err != nil {
		return store.Thread{}, err
	}
	threads, err := b.Store.Threads(ctx, store.ThreadFilter{Task: row.Task})
	if err != nil {
		return store.Thread{}, err
	}
	by := byID(threads)
	above := label(row, by)
	calls := map[store.Parent]int{} // and paths
	for _, t := range threads {
		if t.Parent != nil {
			calls[*t.Parent]++
		}
	}
	var found, deeper []store.Thread
	for _, t := range slices.Backward(threads) { // ids begin with the time
		full := label(t, by)
		below, ok := strings.CutPrefix(full, above)
		if !ok || t.Parent == nil {
			continue
		}
		below = strings.TrimPrefix(below, "/")
		own := t.Flow
		if t.Path != nil {
			own = t.Path.ID
		}
		in, role := path.Split(name) // a sub-flow is also found by the role that called it
		called := (in == "" || in+own == below) && thread.CalledBy(t, role, calls[*t.Parent])
		switch {
		case name == below, name == own && t.Parent.Thread == row.ID: // below also numbers what was retried
			found = append(found, t)
		case name == own, called:
			deeper = append(deeper, t)
		}
	}
	found = append(found, deeper...)
	if back < len(found) {
		return found[back], nil
	}
	if len(found) > 0 {
		return store.Thread{}, fmt.Errorf("task %s has only %d parts called %s: %w", row.Short, len(found), text.Safe(name),
			store.ErrNotFound)
	}
	return store.Thread{}, Advise(fmt.Errorf("task %s has no part %q: %w", shortOf(row), text.Safe(name),
		store.ErrNotFound),
		"list its parts with `%s`", advice.Option{Verb: advice.Show, ID: row.Task, Name: row.Short})
}

// counted parses "name~2".
func counted(typed string) (name string, back int, err error) {
	name, n, ok := strings.Cut(typed, "~")
	if !ok {
		return typed, 0, nil
	}
	if back, err = strconv.Atoi(n); err != nil || back < 0 || back > 1<<20 {
		return "", 0, fmt.Errorf("%q: after ~ comes how many to go back: %w", text.Safe(typed), store.ErrNotFound)
	}
	return name, back, nil
}

// shortOf returns the name that users type for a task.
func shortOf(root store.Thread) string {
	if root.Short != "" {
		return root.Short
	}
	return root.Task
}
