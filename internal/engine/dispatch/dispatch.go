// Package dispatch defines an engine of a team: it decides on which host, and when, to make the two
// calls that advance every task, and nothing else.
//
// It is given the ids of tasks that may have something to do, and makes calls of Work:
//
//	Reconcile(task)   returns which threads may be driven now, and when to look again
//	Drive(thread)     drives one of them, on the called host and in one of its slots, possibly for hours
//
// Both follow from the record alone. They may be made at any time, twice concurrently, or too often: leases
// and compare-and-swap ensure correctness. So an engine may lose all its state. Laws:
//
//   - A task that was poked is reconciled soon, again at Agenda.At at the latest, and again when a Drive of it has
//     returned. After an error it is reconciled again after a while.
//   - Each Ready of an agenda is driven once while it is queued or running: two are the same if task, thread and
//     token are. One that never returns does not block one with another token, nor one with the same for long once its
//     host has died.
//   - A thread that prefers a host is driven there if that host takes it soon, otherwise on any with the labels that
//     it needs. One that needs a label waits for a host that has it.
//   - A host is called to drive only when it has a free slot: an engine does not poll it for one. What a host is not
//     called for, others may take.
//   - Tasks take turns: of the threads that wait for a slot of the same hosts, one with a lower Rank is driven sooner.
//     An engine may be coarse about it and late, but a task with 64 threads to drive leaves room for another task's
//     first.
//   - A Drive that returns ErrBusy was not made: the thread is soon offered again, to any host. Those offers count for
//     nothing, however many there are.
//   - A host may be served again while its earlier Serve waits for its calls.
//   - An engine never interrupts a Drive: not when the engine is unavailable, has forgotten it, or is told to stop.
//     Code that must stop one tells the implementation of Work.
//   - An engine keeps nothing that the record does not have.
//
// This package has the interfaces and the relay; dispatch/local is the engine within one
// process; testing/dispatchtest is the suite that all of them pass.
package dispatch

import (
	"context"
	"errors"
	"math/bits"
	"time"
)

// ErrBusy is the error of a Drive that a host declines: it has changed nothing, and another host may do it.
var ErrBusy = errors.New("this host cannot drive a thread now")

// Work is what a host can do. Methods are called concurrently. Contexts carry values, and do not end while a host
// drains.
type Work interface {
	// Reconcile does what a task needs that takes neither an agent nor files, and returns what may be driven.
	Reconcile(ctx context.Context, task string) (Agenda, error)
	// Drive drives a thread until it has ended, is blocked, or waits for others. It immediately returns a
	// *store.HeldError if a live process holds the thread, and ErrBusy if the host cannot drive it now.
	// The slot is one of the host's; the caller releases it afterwards.
	Drive(ctx context.Context, thread string, slot *Slot) error
}

// An Agenda is what may be done for a task now.
type Agenda struct {
	Ended bool      // there will never be anything to do again
	Drive []Ready   // threads that no host drives
	At    time.Time // when to look again even if nothing has happened; zero: never
}

// A Ready is a thread that may be driven.
type Ready struct {
	Thread string
	// Token distinguishes the drives of a thread: it changes once the thread has been driven.
	Token int64
	Rank  int      // how many threads of its task are driven, or come before it
	Host  string   // where it is best driven; "" for anywhere: a hint
	Needs []string // labels that a host must have
}

// Turn returns in which of n turns the thread is driven, counted from 1, where threads are not sorted by Rank: the first
// thread of a task in the first, the next three in the second, the next twelve in the third and so on, and all others in
// the last.
func (r Ready) Turn(n int) int { return min(1+(bits.Len(uint(r.Rank))+1)/2, n) }

// A Host is where threads are driven.
type Host struct {
	ID     string // unique: letters, digits, dots, dashes
	Labels []string
	Slots  *Slots // nil: it takes any number of drives at a time
}

// Has reports whether the host has all labels that a thread needs.
func (h Host) Has(needs []string) bool {
	for _, need := range needs {
		found := false
		for _, label := range h.Labels {
			found = found || label == need
		}
		if !found {
			return false
		}
	}
	return true
}

// An Engine calls Work on the hosts that serve it. Methods may be called concurrently, and by many processes.
type Engine interface {
	// Poke announces that there may be something to do for a task. It may be called at any time and too often,
	// also for tasks that have ended.
	Poke(ctx context.Context, task string) error
	// Serve calls w as the laws say until ctx ends. Then it makes no further calls, and returns nil once all
	// have returned. It waits for an engine that is unavailable: an error means that it can never serve.
	Serve(ctx context.Context, host Host, w Work) error
}
