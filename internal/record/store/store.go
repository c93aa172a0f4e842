// Package store defines where bytes, rows and events are kept, and what holds
// when a call returns.
//
// Immutable objects and small rows go in, in batches; the same bytes, the current
// rows and an ordered journal of events come out. Three parts:
//
//	objects   hash → bytes, written once, each a node or a blob
//	rows      threads, attempts, gates, flows, requests: moved by compare-and-swap
//	events    what happened, numbered without gaps in commit order
//
// Laws:
//
//   - A batch is applied wholly and durably, or not at all.
//   - An event that is removed or redacted leaves its leaf: the log is that of all that was filed.
//   - Bytes before names: a row never points at an object that is not there.
//   - What is read is checked: Get and Open verify the hash.
//   - News wakes, readers read: Wait says that there is more, not what.
//   - After a failed write or sync a store stops; it never carries on regardless.
//
// The package holds the types and the interfaces. Implementations are
// store/sqlite and testing/mem; testing/storetest is the suite that both pass. It
// never interprets a payload and never decides what a status means.
package store

import (
	"context"
	"errors"
	"io"
	"iter"
	"slices"
	"time"

	"github.com/plait-run/plait/internal/record/dag"
)

var (
	// ErrConflict says that a row is not what the batch expected. Nothing of
	// the batch was applied.
	ErrConflict = errors.New("changed by someone else")
	// ErrNotFound says that there is no such object or row.
	ErrNotFound = errors.New("not found")
	// ErrInvalid says that a batch holds something no store accepts: see Batch.Check.
	ErrInvalid = errors.New("not valid")
	// ErrCorrupt says that what is stored is not what was put.
	ErrCorrupt = errors.New("corrupt")
	// ErrNewer says that the store was written by a newer version of Plait.
	ErrNewer = errors.New("written by a newer version")
	// ErrFenced says that a batch was made under a lease that another process
	// has taken since. Nothing of it was applied; its maker must stop.
	ErrFenced = errors.New("another process has taken over")
	// ErrBroken says that an earlier write or sync failed and the store has
	// stopped. Reopen it to continue from what is durable.
	ErrBroken = errors.New("stopped after a failed write")
)

// A Kind distinguishes nodes from blobs, so that bytes an agent wrote are never
// mistaken for a node. An object put as both is a node: Plait itself encoded it.
type Kind int

// The kinds of objects.
const (
	Blob Kind = iota
	Node
)

// String returns "node" or "blob".
func (k Kind) String() string {
	if k == Node {
		return "node"
	}
	return "blob"
}

// An Object is bytes and their kind, on the way in or out.
type Object struct {
	Hash     dag.Hash
	Kind     Kind
	Data     []byte
	Redacted bool // Data is what [Redacted] made; on the way out, of a node without the first line
}

// An Entry is what is known about an object without reading it.
type Entry struct {
	Hash dag.Hash
	Kind Kind
	Size int64     // bytes
	Put  time.Time // when it was last put
}

// Objects keeps immutable bytes under their hash. Methods may be called
// concurrently. New nodes and small blobs are added by [Journal.Commit].
type Objects interface {
	// Get returns the object kept under h, after checking its hash.
	// ErrNotFound, ErrCorrupt.
	Get(ctx context.Context, h dag.Hash) (Object, error)

	// Many returns the objects kept under hs, in the order of hs and with its duplicates, each
	// as Get returns it, in one round trip: for walks. ErrNotFound if one is missing.
	Many(ctx context.Context, hs []dag.Hash) ([]Object, error)

	// Open streams the object kept under h. The reader returns ErrCorrupt
	// instead of io.EOF when the bytes do not hash to h. ErrNotFound.
	Open(ctx context.Context, h dag.Hash) (io.ReadCloser, Entry, error)

	// Has reports whether h is kept, without reading it.
	Has(ctx context.Context, h dag.Hash) (bool, error)

	// Resolve returns the hashes that begin with prefix, in order, at most max.
	Resolve(ctx context.Context, prefix string, max int) ([]dag.Hash, error)

	// Stage keeps r's bytes as a blob of any size and returns its hash and size.
	// The blob is durable when Stage returns, and safe from the sweeper until
	// a batch ends the pin. A pin may hold many blobs.
	Stage(ctx context.Context, pin string, r io.Reader) (dag.Hash, int64, error)
}

// Index reads rows. Lists are in id order unless noted otherwise; a missing
// single row is ErrNotFound.
type Index interface {
	Thread(ctx context.Context, id string) (Thread, error)
	Threads(ctx context.Context, f ThreadFilter) ([]Thread, error)
	Attempt(ctx context.Context, id string) (Attempt, error)
	Attempts(ctx context.Context, f AttemptFilter) ([]Attempt, error)
	Gate(ctx context.Context, id string) (Gate, error)
	Gates(ctx context.Context, f GateFilter) ([]Gate, error)
	Flow(ctx context.Context, name string) (Flow, error)
	Flows(ctx context.Context) ([]Flow, error)
	Requests(ctx context.Context, f RequestFilter) ([]Request, error)
	// Task returns what a driver needs to know about a task, all from one
	// snapshot. An unknown task has no rows.
	Task(ctx context.Context, id string) (TaskRows, error)
	// Used returns what each attempt of a task used up, by start time, then
	// thread, then number.
	Used(ctx context.Context, task string) ([]Use, error)
	// Roots yields every hash that a row names, along with the row, in no particular
	// order: what gc must keep besides pins. ErrNotFound is never among its errors.
	Roots(ctx context.Context) iter.Seq2[Root, error]
	// Pins returns every pinned hash.
	Pins(ctx context.Context) ([]dag.Hash, error)
}

// Journal changes the store and reports what changed.
type Journal interface {
	// Commit applies b wholly and durably, or not at all. ErrConflict when a
	// row is not as expected; ErrNotFound when a row would point at a missing
	// object; ErrFenced; ErrInvalid. These fail only their own batch. After any
	// other error the outcome is unknown: read the head.
	Commit(ctx context.Context, b Batch) error

	// Events returns at most f.Limit events with Pos > after, in order, or in reverse
	// order if f.Newest is set.
	Events(ctx context.Context, after int64, f EventFilter) ([]Event, error)

	// Log returns the log over the journal, from one snapshot. It includes every batch whose
	// Commit has returned, and nothing of one that was refused. Its size is the last position
	// that was ever assigned, unless an older Plait, which does not keep the log, filed the last
	// events: the next Commit adds those.
	Log(ctx context.Context) (Log, error)

	// Entries returns what is kept of the positions beyond after, at most limit of them (zero:
	// all), in order and without gaps, from one snapshot. Of an event that was removed it has
	// the leaf; the secret of its task is gone.
	Entries(ctx context.Context, after int64, limit int) ([]LogEntry, error)

	// SetOrigin gives the log another origin, so that a copy is not taken for its original.
	SetOrigin(ctx context.Context, origin string) error

	// Wait returns when there are events after pos, written by any process, or
	// when ctx ends. It returns the last position. That is before pos if events
	// are gone that were there, as after a restore.
	Wait(ctx context.Context, pos int64) (int64, error)
}

// Leases records which process drives what, among all that share the store. What
// only processes of one machine have to keep apart is not a lease: see package lock.
//
// A lease ends with Release; with its process, immediately where that can be known;
// otherwise once its process has been silent for LeaseTTL by the store's clock. Its
// holder is told before another can have it. What is committed under it once another
// process has taken it is refused.
type Leases interface {
	// Acquire takes the lease called name, or returns a *HeldError. It does not wait for the holder.
	Acquire(ctx context.Context, name string) (Lease, error)

	// Holder reports whether any process, including this one, holds the lease
	// called name, and which: see HeldError.Owner. It takes nothing: it never
	// turns away a process that acquires the lease, and two that look at the
	// same time do not see each other. A lease that was never taken is not held.
	// The answer may be outdated when Holder returns; only Acquire decides.
	Holder(ctx context.Context, name string) (owner string, held bool, err error)

	// Holders is Holder for many names in one call: it returns the owners of those that are held.
	Holders(ctx context.Context, names []string) (owners map[string]string, err error)

	// Held is Holders for all names that begin with prefix, which must be a valid name itself.
	Held(ctx context.Context, prefix string) (owners map[string]string, err error)
}

// LeaseName reports whether name is valid for a lease: 1 to 200 letters, digits,
// dots and dashes, with no dot in front.
func LeaseName(name string) bool {
	if name == "" || name[0] == '.' || len(name) > 200 {
		return false
	}
	for _, r := range name {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.', r == '-':
		default:
			return false
		}
	}
	return true
}

// ThreadLease returns the name of the lease for driving a single thread of a task that has several drivers.
func ThreadLease(id string) string { return "thread-" + id }

// NotesLease returns the name of a lease that marks the holder of a task's lease as only reading its notes.
func NotesLease(task string) string { return "notes-" + task }

// LeaseTTL is how long a process may be silent before others may take what it holds, where
// its death cannot be known. LeaseLost is how long before it is told that it has lost them.
const (
	LeaseTTL  = 30 * time.Second
	LeaseLost = 20 * time.Second
)

// A Lease is held until it is released or lost.
type Lease interface {
	// Fence returns what batches made under the lease carry.
	Fence() Fence

	// Lost is closed when another process has the lease, or may have it soon:
	// the holder must end what it does under it. It stays open after Release.
	Lost() <-chan struct{}

	// Release gives the lease back. It may be called twice. If the store cannot be
	// told, the lease ends like that of a dead process, and its own process can
	// take it again.
	Release() error
}

// Under returns s for use by the holder of l: each of its batches carries the
// lease's fence.
func Under(s Store, l Lease) Store { return fenced{s, l.Fence()} }

type fenced struct {
	Store
	fence Fence
}

func (f fenced) Commit(ctx context.Context, b Batch) error {
	b.Under = append(slices.Clip(b.Under), f.fence)
	return f.Store.Commit(ctx, b)
}

// A HeldError says who holds a lease.
type HeldError struct {
	Name  string
	Owner string // "process 4711 on host, since 2006-01-02 15:04:05"
}

func (e *HeldError) Error() string { return e.Name + " is being driven by " + e.Owner }

// Unwrap makes a held lease a conflict.
func (e *HeldError) Unwrap() error { return ErrConflict }

// Sweeper removes garbage.
type Sweeper interface {
	// List yields an entry for every object, in hash order.
	List(ctx context.Context) iter.Seq2[Entry, error]

	// Scan calls visit with objects as Get returns them, concurrently from several goroutines and
	// in storage order: for callers that want all of them, at a fraction of the cost of asking for
	// each. It may omit some, and does omit damaged ones: Get and Open report them. An error from
	// visit ends the scan and is returned.
	Scan(ctx context.Context, visit func(Object) error) error

	// Sweep deletes objects while nothing can be committed or staged. It calls
	// choose with a view of the store under that lock; of the hashes that choose
	// returns, it deletes those that are not pinned and were last put at least
	// grace ago by the store's clock. It returns what it deleted.
	Sweep(ctx context.Context, grace time.Duration, choose func(View) ([]dag.Hash, error)) ([]Entry, error)

	// Compact returns the space of deleted objects to the file system, and
	// removes bytes that no row names and that were written at least grace ago.
	Compact(ctx context.Context, grace time.Duration) error
}

// A View reads the store, or, if it was passed to a sweep's choose, the store as it is during that sweep.
type View interface {
	Objects
	Index

	// Stat returns the entries of those of hs that are kept, without reading the objects,
	// in no particular order and in one round trip.
	Stat(ctx context.Context, hs []dag.Hash) ([]Entry, error)
}

// Checker looks at the container rather than its contents.
type Checker interface {
	// Check returns a line for everything that is wrong with the container.
	Check(ctx context.Context) ([]string, error)
}

// A Clock tells the time shared by all users of the store: the machine's, or the
// server's.
type Clock interface {
	Now() time.Time
}

// A Store is all of it.
type Store interface {
	View
	Journal
	Leases
	Sweeper
	Checker
	Clock
	// ID returns an id of the record, different from those of all others that a machine may use; empty for
	// the record that is in PLAIT_HOME.
	ID() string
	Close() error
}
