// Package dispatch says what an engine of a team does: it decides on which host, and when, the two calls
// are made by which every task goes on, and nothing else.
//
// In go the ids of tasks at which there may be something to do; out come calls of Work:
//
//	Reconcile(task)   says which threads may be driven now, and when to look again
//	Drive(thread)     drives one of them, on the host that was called, for hours perhaps
//
// Both follow from the record alone. They may be made at any time, twice at once, too often: what is right is
// seen to by leases and by compare-and-swap. So an engine may lose all that it knows. Laws:
//
//   - A task that was poked is reconciled soon, again at Agenda.At at the latest, and again when a Drive of it has
//     returned. After an error it is reconciled again in a while.
//   - Each Ready of an agenda is driven once while it is queued or under way: two are the same when task, thread and
//     token are. One that never returns holds none with another token up, nor one with the same for long when its
//     host has died.
//   - A thread that prefers a host is driven there if that host takes it soon, else on any that has the labels
//     which it needs. One that needs a label waits for a host that has it.
//   - A Drive is never interrupted by an engine: neither when the engine is away, has forgotten it, or is told to
//     stop. Who has to stop says so to whoever implements Work.
//   - An engine keeps nothing that the record does not have.
//
// The package holds the interfaces and the relay. dispatch/local is the engine in one process;
// dispatch/dispatchtest is the suite that all of them pass.
package dispatch

import (
	"context"
	"time"
)

// Work is what a host can do. Methods are called concurrently. Contexts carry values, and do not end while a host
// is drained.
type Work interface {
	// Reconcile does for a task what needs neither an agent nor files, and says what may be driven.
	Reconcile(ctx context.Context, task string) (Agenda, error)
	// Drive drives a thread until it has ended, is blocked, or waits for others. It returns a *store.HeldError
	// at once when somebody who lives is at it.
	Drive(ctx context.Context, thread string) error
}

// An Agenda is what may be done for a task now.
type Agenda struct {
	Ended bool      // there will never be anything again
	Drive []Ready   // threads that nobody drives
	At    time.Time // when to look again though nothing has happened; zero: never
}

// A Ready is a thread that may be driven.
type Ready struct {
	Thread string
	// Token tells the drives of a thread apart: it is another one once somebody has driven the thread.
	Token int64
	Host  string   // where it is best driven, "" for anywhere: a hint
	Needs []string // labels that a host has to have
}

// A Host is where threads are driven.
type Host struct {
	ID     string // of which there is one: letters, digits, dots, dashes
	Labels []string
	Slots  int // how many drives it takes at once; zero: any number
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
	// Poke says that there may be something to do for a task. It may be said at any time and too often, of tasks
	// that have ended too.
	Poke(ctx context.Context, task string) error
	// Serve calls w as the law says, until ctx ends. Then nothing further is called, and Serve returns nil once
	// all calls have returned. An engine that is away is waited for: an error says that it can never be served.
	Serve(ctx context.Context, host Host, w Work) error
}
