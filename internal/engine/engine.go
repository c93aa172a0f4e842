// Package engine drives tasks: it decides what follows, has attempts made, and commits their results.
//
// It turns a task's rows into further ones. Two calls drive everything. They depend only on the record, so
// that any process may make them at any time, even concurrently:
//
//	Reconcile(task)   does what needs neither an agent nor files: decides and commits joins, takes over
//	                  what calls return, applies requests, blocks, resumes, cancels; says what may be driven
//	Drive(thread)     steps one thread until it has ended, is blocked or waits for others
//
// Run is the embedded driver: the two calls in a loop, with a goroutine for each driven thread. What
// follows for a task is decided by movesOf (agenda.go), which reads and writes nothing. The shape of a step:
//
//	decide    flow.Next over the record: pure
//	batch A   prompt, attempt row, attempt.started      before the process
//	run       the agent works (package attempt)
//	batch B   nodes, head, row, attempt row, events     the step exists
//
// Batch B may include batch A of the attempt that follows: see addNext.
//
// Laws:
//
//   - A thread has one owner at a time, and its head and status move by advance alone, or by
//     Trouble.GiveBack.
//   - Step is keyed by (thread, from) and safe to repeat: the first commit wins,
//     a later one adopts it or is superseded.
//   - One commit point per step: a crash before batch B leaves an attempt without
//     a step, one after it leaves nothing to do.
//   - Ends of paths are ordered by the journal, never by clocks.
//   - An error means that the record could not be kept: stop.
//
// The engine holds no rule about roles (flow does) and never waits for a person while something else
// can be done.
package engine

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/plait-run/plait/internal/engine/attempt"
	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/files/worktree"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/sys/lock"
)

// A Store is the part of a store that an engine uses.
type Store interface {
	store.Objects
	store.Index
	store.Journal
	store.Leases
}

// Config configures an engine.
type Config struct {
	Store  Store
	Reader *thread.Reader
	Desks  attempt.Desks
	Trees  *worktree.Trees
	Agents attempt.Agents

	Player Player // nil: the task is not a replay

	Signing *gate.Signing // how answers to approvals are signed; nil: they need not be

	Limits  flow.Limits // they cap the limits of flows
	Machine int         // how many agents may be at work on this machine; zero: any number. For a ThreadClaim, see At
	Locks   lock.Locks  // of this machine: its slots, and trees without git
	Host    attempt.Host

	Log     *slog.Logger     // ids, kinds and durations, never texts; nil: none
	Now     func() time.Time // nil: time.Now
	Backoff time.Duration    // before the second try after a fault, then doubled each time; zero: 1 s
	// WorkerBackoff says how workers try again what one was not able to do. Ready returns why this one cannot work now;
	// nil: there are no others.
	WorkerBackoff Backoff
	Ready         func(context.Context) error
	Wait          bool // wait when only a person's answer is missing
	// Patience is how long an agent that waits for an answer is kept, if Wait is set; after that, the answer
	// begins a new turn. Zero: forever.
	Patience time.Duration
	Claim    Claim // the right to drive threads; nil: a TaskClaim
	// Worker names this machine in the rows of threads whose trees are here, so that others leave them to it.
	// "": it has no name.
	Worker string
}

// An Engine steps threads. Make one with New.
type Engine struct {
	cfg       Config
	gates     *gate.Service
	attempts  *attempt.Runner
	place     Place      // of a drive, see At; nil: it has none
	driveSlot *driveSlot // of a drive under its own lease
	*memory
}

// memory is what the calls of an engine share.
type memory struct {
	record    *record.Reader
	unfenced  Store // for what counts although the right to drive may be lost
	conflicts conflicts
	work      *workload
	slots     slots
	draining  atomic.Bool // begin no further step

	surveyMu sync.Mutex // held while someone looks at the task: a look soon lets go of what it owns
	mu       sync.Mutex
	owned    map[string]bool         // threads being driven or looked at now
	clean    map[string]bool         // threads that cannot have an unfinished attempt
	ended    map[string]int64        // by thread: position of its end in the journal
	ends     map[string]deadline     // of the joins that threads wait for
	states   map[string]*threadState // by thread
	seeds    map[string]*threadState // of paths that have not begun
	known    map[string]bool         // tasks all of whose threads were read
	children
}

// New returns an engine; it touches nothing.
func New(cfg Config) *Engine {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Backoff == 0 {
		cfg.Backoff = time.Second
	}
	if cfg.Trees == nil {
		cfg.Trees = worktree.New(worktree.Config{Store: cfg.Store, Reader: cfg.Reader})
	}
	if cfg.Claim == nil {
		cfg.Claim = TaskClaim{}
	}
	e := &Engine{cfg: cfg, memory: &memory{
		record: record.New(cfg.Reader, cfg.Store), unfenced: cfg.Store, work: newWorkload(),
		owned: make(map[string]bool), clean: make(map[string]bool),
		ended: make(map[string]int64), ends: make(map[string]deadline),
		states: make(map[string]*threadState), seeds: make(map[string]*threadState),
		known: make(map[string]bool), children: make(children),
		conflicts: conflicts{seen: make(map[string]conflict)},
	}}
	e.record.AsRecorded = cfg.Player != nil
	e.slots = slots{engine: e, tasks: make(map[string]*taskSlots), writers: make(map[string]*treeLock)}
	return e.with(cfg.Store)
}

// with returns the engine with another store, to which all of its parts commit.
func (e *Engine) with(s Store) *Engine {
	cfg := e.cfg
	cfg.Store = s
	gates := gate.New(gate.Config{Store: s, Now: cfg.Now, Signing: cfg.Signing})
	return &Engine{cfg: cfg, memory: e.memory, gates: gates, attempts: attempt.New(attempt.Config{
		Store: s, Record: e.record, Gates: gates, Desks: cfg.Desks, Trees: cfg.Trees, Agents: cfg.Agents,
		Host: cfg.Host, Player: cfg.Player, Now: cfg.Now, Ready: cfg.Ready,
	})}
}

// Drain makes Drive return ErrInterrupted after the current step, so that another engine can continue.
func (e *Engine) Drain() { e.draining.Store(true) }

func (e *Engine) now() int64 { return e.cfg.Now().UnixMilli() }
