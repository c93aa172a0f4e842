// Package view is the read model: the objects that --json prints and the API returns, and from
// which pages and texts are rendered.
//
// Its input is the record, read through a Reader; its output is plain values whose JSON is the
// contract. Laws:
//
//   - One object for all surfaces: what is printed, answered and rendered is the same
//     value, so no surface can contradict another.
//   - A list without entries is an empty list; null means that there is no such thing.
//   - Texts are as agents wrote them. Code that shows them must make them safe first; for
//     a terminal there is text.Safe.
//   - What a person can do is data, an [advice.Option]: no value here holds a command line
//     until the surface that shows it, or package taskdir, adds one.
//   - Times are Unix milliseconds, zero for not yet, unless a field says otherwise.
//
// It commits nothing, drives nothing and decides nothing. One kind of read does change the store:
// reading gates lets overdue ones expire, unless the Reader is ReadOnly.
package view

import (
	"context"
	"encoding/json"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/history"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// A Reader reads views. Its methods may be called concurrently, and return the store's errors:
// store.ErrNotFound, store.ErrCorrupt.
type Reader struct {
	Store     store.Store
	Nodes     *thread.Reader
	Workspace string // whose threads, tasks and gates are listed, absolute
	ReadOnly  bool   // overdue gates are shown as expired, and not changed
	// Vouches says whose word for log keys and checkpoints counts; nil: anybody's.
	Vouches history.Counts
}

// here reports whether a thread belongs to the reader's workspace. The store may know that
// workspace by another name.
func (b *Reader) here(row store.Thread) bool {
	s, ok := b.Store.(interface {
		Belongs(row store.Thread, workspace string) bool
	})
	return row.Workspace == b.Workspace || ok && s.Belongs(row, b.Workspace)
}

// A Subject is what to look at: a thread by its row, or a step alone.
type Subject struct {
	Row  store.Thread // the zero Thread for a step
	Head dag.Hash     // of the thread, or the step
}

// Driven reports whether a process drives the task id. One that only reads its notes does not.
func (b *Reader) Driven(ctx context.Context, id string) bool {
	_, held, err := b.Store.Holder(ctx, id)
	if err != nil || !held {
		return false
	}
	_, reads, err := b.Store.Holder(ctx, store.NotesLease(id))
	return err == nil && !reads
}

// status returns a thread's status as shown to people: the stored one, or [Interrupted].
func (b *Reader) status(ctx context.Context, row store.Thread) store.Status {
	return b.statuses().of(ctx, row)
}

// A statuses finds out which threads are interrupted. It asks once for each task, so that threads
// of one task agree.
type statuses struct {
	b    *Reader
	lost map[string]bool // by root
}

func (b *Reader) statuses() statuses { return statuses{b, map[string]bool{}} }

// of returns a thread's status as shown to people.
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

// lineage reads the lineage of row, nothing for the zero Thread.
func (b *Reader) lineage(ctx context.Context, row store.Thread) (thread.Lineage, error) {
	if row.ID == "" {
		return thread.Lineage{}, nil
	}
	return thread.ReadLineage(ctx, b.Store, row)
}

// teamTask holds the options of a task that concern a team's workers.
type teamTask struct {
	On    string
	Needs []string // labels
}

func teamOf(row store.Thread) (o teamTask, ok bool) {
	ok = json.Unmarshal(row.Options, &o) == nil && o.On == "team"
	return o, ok
}

// OnTeam reports whether the workers of a team drive a thread.
func OnTeam(row store.Thread) bool {
	_, ok := teamOf(row)
	return ok
}

// served reports whether any worker of a team serves.
func (b *Reader) served(ctx context.Context) (bool, error) {
	workers, err := b.Store.Held(ctx, store.WorkerLease(""))
	return len(workers) > 0, err
}

// Interrupted is running without a process that drives it.
const Interrupted store.Status = "interrupted"
