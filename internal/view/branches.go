package view

import (
	"context"
	"slices"

	"github.com/plait-run/plait/internal/dag"
	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/thread"
)

// A Branch is a thread of a task, as a line of the task's map.
type Branch struct {
	ThreadRow
	Level int         `json:"level"` // how many threads lie around it
	At    int         `json:"at"`    // the number of the step of its parent that it left at, 0 is the start
	Used  store.Usage `json:"used"`  // by its own attempts, those that failed too
}

// Branches lists the threads of the task whose root thread is row, each before those
// that left it, in the order of their ids. It reads rows, and of chains only their
// length where something left.
func (b *Reader) Branches(ctx context.Context, row store.Thread) ([]Branch, error) {
	kin, err := thread.ReadKin(ctx, b.Store, row)
	if err != nil {
		return nil, err
	}
	attempts, err := b.Store.Attempts(ctx, store.AttemptFilter{Task: row.Task})
	if err != nil {
		return nil, err
	}
	used := map[string]store.Usage{}
	for _, a := range attempts {
		used[a.Thread] = used[a.Thread].Add(a.Usage)
	}
	stands := b.statuses()
	lengths := map[dag.Hash]int{}
	known := map[string]bool{}
	var out []Branch
	type open struct {
		row   store.Thread
		level int
	}
	for todo := []open{{row, 0}}; len(todo) > 0; {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if known[at.row.ID] { // rows that somebody edited may go round in a circle
			continue
		}
		known[at.row.ID] = true
		one := Branch{ThreadRow: ThreadRow{at.row, stands.of(ctx, at.row)}, Level: at.level, Used: used[at.row.ID]}
		if p := at.row.Parent; p != nil {
			n, ok := lengths[p.From]
			if !ok {
				if n, err = b.Nodes.Length(ctx, p.From); err != nil {
					return nil, err
				}
				lengths[p.From] = n
			}
			one.At = n
		}
		out = append(out, one)
		for _, t := range slices.Backward(kin.Below(at.row.ID)) {
			todo = append(todo, open{t, at.level + 1})
		}
	}
	return out, nil
}
