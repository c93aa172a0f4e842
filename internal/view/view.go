// Package view is what people are shown of the record: the objects that --json
// prints, that the API answers, and that pages and texts are drawn from.
//
// In goes the record, through a Reader; out come plain values whose JSON is the
// contract. Laws:
//
//   - One object for every face: what is printed, answered and drawn is the same
//     value, so that none of them can say something that the others do not.
//   - A list without entries is a list; null means that there is no such thing.
//   - Texts in it are as agents wrote them. Whoever shows them makes them harmless
//     first; for a terminal there is [Safe].
//   - What a person can do is data, an [Option]: no value here has a command line in it
//     until the face that shows it, or task, spells one.
//   - Times are Unix milliseconds, zero for not yet, unless a field says otherwise.
//
// It commits nothing, drives nothing and decides nothing. One look does touch the
// store: a look at gates lets those expire whose time has passed, unless the Reader
// is ReadOnly.
package view

import (
	"context"

	"github.com/plait-run/plait/internal/dag"
	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/thread"
)

// A Reader reads views. Its methods may be called concurrently, and return the
// store's errors: store.ErrNotFound, store.ErrCorrupt.
type Reader struct {
	Store     store.Store
	Nodes     *thread.Reader
	Workspace string // whose threads, tasks and gates are listed, absolute
	ReadOnly  bool   // gates whose time has passed are shown as expired, and not changed
}

// here reports whether a thread belongs to the reader's workspace. A store knows it where a workspace has another
// name in the record than here.
func (b *Reader) here(row store.Thread) bool {
	s, ok := b.Store.(interface {
		Belongs(row store.Thread, workspace string) bool
	})
	return row.Workspace == b.Workspace || ok && s.Belongs(row, b.Workspace)
}

// A Subject is what is looked at: a thread by its row, or a step alone.
type Subject struct {
	Row  store.Thread // the zero Thread for a step
	Head dag.Hash     // of the thread, or the step
}

// Driven reports whether a process drives the task id.
func (b *Reader) Driven(ctx context.Context, id string) bool {
	_, held, err := b.Store.Holder(ctx, id)
	return err == nil && held
}

// status is a thread's status as people are told: as stored, or
// [Interrupted].
func (b *Reader) status(ctx context.Context, row store.Thread) store.Status {
	return b.statuses().of(ctx, row)
}

// A statuses tells how threads stand. It asks about each task once: of many threads of
// one task all are interrupted, or none.
type statuses struct {
	b    *Reader
	lost map[string]bool // by root
}

func (b *Reader) statuses() statuses { return statuses{b, map[string]bool{}} }

// of is a thread's status as people are told.
func (s statuses) of(ctx context.Context, row store.Thread) store.Status {
	if row.Status != store.Running {
		return row.Status
	}
	lost, known := s.lost[row.Root]
	if !known {
		_, held, err := s.b.Store.Holder(ctx, row.Root)
		if lost = err == nil && !held; lost && OnTeam(row) { // any worker takes it up
			serves, err := s.b.served(ctx)
			lost = err == nil && !serves
		}
		s.lost[row.Root] = lost
	}
	if lost {
		return Interrupted
	}
	return row.Status
}

// kin reads what the index knows around row; of the zero Thread, nothing.
func (b *Reader) kin(ctx context.Context, row store.Thread) (thread.Kin, error) {
	if row.ID == "" {
		return thread.Kin{}, nil
	}
	return thread.ReadKin(ctx, b.Store, row)
}
