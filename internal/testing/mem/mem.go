// Package mem keeps a store in memory, for tests and for runs that need not
// outlive their process.
//
// The contract is that of package store, with the same results and the same
// errors as store/sqlite: both pass testing/storetest. On top of that it can fail
// on demand: a [Fault] is asked before and after every operation, Corrupt
// damages an object, and Reopen returns what a new process finds after a crash.
//
// It never touches a disk and never starts a goroutine.
package mem

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
)

// An Op names an operation to a Fault.
type Op string

// The operations.
const (
	OpGet      Op = "get"
	OpMany     Op = "many"
	OpOpen     Op = "open"
	OpHas      Op = "has"
	OpStat     Op = "stat"
	OpResolve  Op = "resolve"
	OpStage    Op = "stage"
	OpThread   Op = "thread"
	OpThreads  Op = "threads"
	OpAttempt  Op = "attempt"
	OpAttempts Op = "attempts"
	OpGate     Op = "gate"
	OpGates    Op = "gates"
	OpFlow     Op = "flow"
	OpFlows    Op = "flows"
	OpRequests Op = "requests"
	OpTask     Op = "task"
	OpUsed     Op = "used"
	OpRoots    Op = "roots"
	OpPins     Op = "pins"
	OpCommit   Op = "commit"
	OpEvents   Op = "events"
	OpLog      Op = "log"
	OpOrigin   Op = "origin"
	OpEntries  Op = "entries"
	OpWait     Op = "wait"
	OpAcquire  Op = "acquire"
	OpHolder   Op = "holder"
	OpList     Op = "list"
	OpScan     Op = "scan"
	OpSweep    Op = "sweep"
	OpCompact  Op = "compact"
	OpCheck    Op = "check"
)

// When says at which end of an operation a fault strikes.
type When int

// An operation that fails Before leaves nothing behind; one that fails After
// has done all it was asked to, but its caller gets the error.
const (
	Before When = iota
	After
)

// String returns "before" or "after".
func (w When) String() string {
	if w == After {
		return "after"
	}
	return "before"
}

// A Fault is asked twice for every operation, which fails with the error it
// returns. It may be called concurrently and must not use the store.
type Fault func(op Op, when When) error

// Config configures a Store. The zero Config is valid.
type Config struct {
	Now   func() time.Time // nil: time.Now
	Fault Fault            // nil: nothing fails
	// Proven refuses a batch that changes proven columns of a row and has no event that says so: see [store.Batch.Prove].
	Proven bool
}

// A Store is one process's handle on contents in memory. Methods may be called
// concurrently.
type Store struct {
	cfg Config
	c   *contents

	stop    sync.Once
	stopped chan struct{} // closed by Close and Reopen
	why     error         // set before stopped is closed
}

var _ store.Store = (*Store)(nil)

// contents is what survives a crash, and what several handles share.
type contents struct {
	// writing is held to change the contents. A sweep holds it while it
	// chooses, so that nothing is committed but everything can be read.
	writing sync.Mutex

	mu       sync.RWMutex
	objects  map[dag.Hash]object
	pins     map[string]map[dag.Hash]bool
	threads  map[string]store.Thread
	attempts map[string]store.Attempt
	gates    map[string]store.Gate
	flows    map[string]store.Flow
	requests map[string]store.Request
	events   []store.Event
	log      store.Log
	leaves   map[int64]dag.Hash      // of events that were removed or redacted, by position
	secrets  map[string]store.Secret // by task
	seq      map[string]int64
	leases   map[string]*lease
	tokens   map[string]int64            // the latest of each lease that was ever taken
	counts   map[string]map[string]int64 // by task, by name
	news     chan struct{}               // closed and replaced by a batch with events
}

// An object is what is kept under a hash. Its data is never changed in place.
type object struct {
	kind store.Kind
	data []byte
	put  int64 // Unix ms
}

var errClosed = errors.New("store is closed")

// New returns an empty store.
func New(cfg Config) *Store {
	s := handle(cfg, &contents{
		objects:  map[dag.Hash]object{},
		pins:     map[string]map[dag.Hash]bool{},
		threads:  map[string]store.Thread{},
		attempts: map[string]store.Attempt{},
		gates:    map[string]store.Gate{},
		flows:    map[string]store.Flow{},
		requests: map[string]store.Request{},
		leaves:   map[int64]dag.Hash{},
		secrets:  map[string]store.Secret{},
		seq:      map[string]int64{},
		leases:   map[string]*lease{},
		tokens:   map[string]int64{},
		counts:   map[string]map[string]int64{},
		news:     make(chan struct{}),
	})
	s.c.log.Origin = store.NewOrigin(s.Now())
	return s
}

// With returns another handle, like Share, whose operations fail as fault says.
func (s *Store) With(fault Fault) *Store {
	cfg := s.cfg
	cfg.Fault = fault
	return handle(cfg, s.c)
}

func handle(cfg Config, c *contents) *Store {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Store{cfg: cfg, c: c, stopped: make(chan struct{})}
}

// Share returns another handle on the same contents and the same leases, as a
// second process would have.
func (s *Store) Share() *Store { return handle(s.cfg, s.c) }

// Reopen returns the store that a new process finds after this one crashed: the
// same contents, no leases. s itself is dead from then on: its operations, even
// those in progress, fail with ErrBroken, so that what is left of the crashed
// process cannot write.
func (s *Store) Reopen() *Store {
	s.halt(fmt.Errorf("crashed: %w", store.ErrBroken))
	// An operation that has passed its check must end first.
	s.c.writing.Lock()
	defer s.c.writing.Unlock()
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	clear(s.c.leases)
	return s.Share()
}

// Kill ends the process that uses s, while others that share its contents continue: from then on
// its operations fail with ErrBroken, and its leases are free.
func (s *Store) Kill() {
	s.halt(fmt.Errorf("crashed: %w", store.ErrBroken))
	s.c.writing.Lock()
	defer s.c.writing.Unlock()
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	for name, l := range s.c.leases {
		if l.s == s {
			delete(s.c.leases, name)
		}
	}
}

// Silence makes the process that uses s fall silent, like one whose host is cut off or suspended: it
// is told that its leases are lost, and others can take them, while it lives and may continue.
func (s *Store) Silence() {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	for name, l := range s.c.leases {
		if l.s == s {
			close(l.lost)
			delete(s.c.leases, name)
		}
	}
}

// Corrupt replaces the bytes kept under h with what change makes of a copy of
// them, and reports whether there were any.
func (s *Store) Corrupt(h dag.Hash, change func([]byte) []byte) bool {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	o, ok := s.c.objects[h]
	if !ok {
		return false
	}
	o.data = change(append([]byte(nil), o.data...))
	s.c.objects[h] = o
	return true
}

// Lose removes the object h regardless of rows and pins, as a failing disk
// would, and reports whether there was one.
func (s *Store) Lose(h dag.Hash) bool {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	_, ok := s.c.objects[h]
	delete(s.c.objects, h)
	return ok
}

// Close ends the handle. Contents and leases stay.
func (s *Store) Close() error {
	s.halt(errClosed)
	return nil
}

func (s *Store) halt(why error) {
	s.stop.Do(func() {
		s.why = why
		close(s.stopped)
	})
}

// Now returns the time of Config.Now.
func (s *Store) Now() time.Time { return s.cfg.Now() }

// ID returns an empty id.
func (s *Store) ID() string { return "" }

// alive returns the reason that an operation cannot continue, if there is one.
func (s *Store) alive(ctx context.Context) error {
	select {
	case <-s.stopped:
		return s.why
	default:
		return ctx.Err()
	}
}

// do runs an operation between its two faults. An error of the operation itself
// wins over the fault after it.
func (s *Store) do(ctx context.Context, op Op, f func() error) error {
	err := s.alive(ctx)
	if err == nil {
		err = s.fault(op, Before)
	}
	if err == nil {
		err = f()
	}
	if err == nil {
		err = s.fault(op, After)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	return nil
}

func (s *Store) fault(op Op, when When) error {
	if s.cfg.Fault == nil {
		return nil
	}
	return s.cfg.Fault(op, when)
}

// reading runs an operation that changes nothing.
func (s *Store) reading(ctx context.Context, op Op, f func(c *contents) error) error {
	return s.do(ctx, op, func() error {
		s.c.mu.RLock()
		defer s.c.mu.RUnlock()
		return f(s.c)
	})
}

// changing runs an operation that may change contents. A handle that died while
// it waited changes nothing.
func (s *Store) changing(ctx context.Context, op Op, f func(c *contents) error) error {
	return s.do(ctx, op, func() error {
		s.c.writing.Lock()
		defer s.c.writing.Unlock()
		if err := s.alive(ctx); err != nil {
			return err
		}
		s.c.mu.Lock()
		defer s.c.mu.Unlock()
		return f(s.c)
	})
}
