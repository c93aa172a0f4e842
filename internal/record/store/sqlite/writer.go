package sqlite

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"sync/atomic"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/merkle"
	"github.com/plait-run/plait/internal/record/store"
)

// mode says how a request runs on the writer's connection.
type mode int

const (
	grouped mode = iota // in one transaction with others; may be run twice
	alone               // in its own transaction
	bare                // outside any transaction
)

// A request is work for the writing goroutine.
type request struct {
	ctx   context.Context
	mode  mode
	run   func(*tx) error
	taken atomic.Bool // by the writing goroutine, or by a caller that gave up
	done  chan error
}

func newRequest(ctx context.Context, m mode, run func(*tx) error) *request {
	return &request{ctx: ctx, mode: m, run: run, done: make(chan error, 1)}
}

const (
	maxGroup = 512 // requests in one transaction
	yields   = 3   // before a group is complete
	maxNap   = 4 * time.Millisecond
)

// submit runs work on the writer's connection and returns when it is durable. A caller that finds
// the writer idle writes itself, and takes along what others submit meanwhile, so that a lone
// caller waits for no other goroutine. A caller may give up while its request waits; once it is
// taken, the outcome is milliseconds away, and submit waits for it so that it is known.
func (s *Store) submit(ctx context.Context, m mode, run func(*tx) error) error {
	if err := s.alive(ctx); err != nil {
		return err
	}
	if s.cfg.ReadOnly {
		return s.readOnly()
	}
	r := newRequest(ctx, m, run)
	select {
	case s.writing <- struct{}{}:
		s.write(r, s.together > 1)
		return <-r.done
	default:
	}
	select {
	case s.writing <- struct{}{}:
		s.write(r, true)
		return <-r.done
	case s.queue <- r:
	case <-ctx.Done():
		return ctx.Err()
	case <-s.closing:
		return errClosed
	}
	select {
	case err := <-r.done:
		return err
	case <-ctx.Done():
		if r.taken.CompareAndSwap(false, true) {
			return ctx.Err()
		}
		return <-r.done
	}
}

// write runs r, and any request it receives meanwhile. The caller has sent to s.writing.
func (s *Store) write(r *request, others bool) {
	defer func() { <-s.writing }()
	for r != nil {
		r = s.round(r, others)
	}
	s.fold()
}

// round runs lead and, if it may be grouped, whatever is queued behind it, or is about to be if
// others write too. It returns a request that it received but could not run with the others.
//
// Nearly all requests succeed, so all run in one transaction without savepoints, which cost a copy of
// each page. If one fails, everything is rolled back and the requests run again, with savepoints.
func (s *Store) round(lead *request, others bool) (next *request) {
	t := &tx{Conn: s.writer, store: s, now: s.now()}
	if lead.mode == bare {
		if lead.taken.CompareAndSwap(false, true) {
			lead.done <- s.explain(lead.ctx, lead.run(t))
		}
		return nil
	}
	if err := s.lock(lead.ctx, "BEGIN IMMEDIATE"); err != nil {
		lead.done <- err
		return nil
	}
	err := t.load()
	var ran []*request
	var result error // of the last request that ran
	for r := lead; r != nil && err == nil && result == nil; {
		if r.taken.CompareAndSwap(false, true) {
			ran = append(ran, r)
			result = r.run(t)
		}
		r = nil
		if lead.mode == grouped && len(ran) < maxGroup && result == nil {
			r, next = s.more(others)
		}
	}
	s.together = len(ran)
	results := make([]error, len(ran))
	switch {
	case err != nil || result == nil:
	case isFatal(result):
		err = result
	case len(ran) == 1:
		s.rollback()
		lead.done <- result
		return nil
	default:
		results, err = s.again(t, ran)
	}
	if err == nil {
		err = exec(s.writer, "COMMIT")
	}
	if err != nil {
		err = s.explain(context.Background(), err)
		if errors.Is(err, store.ErrCorrupt) {
			s.halt(err) // what the transaction would have written is based on damaged data
		}
		s.rollback()
		lead.done <- err // in case it was not run; its channel is read once
	}
	if err == nil {
		now := t.reached
		s.last = &now
		s.recent.committed(t)
	}
	// Events are readable before their committer continues.
	if err == nil && t.events > 0 {
		s.news.Wake()
	}
	for i, r := range ran {
		if results[i] == nil {
			results[i] = err
		}
		select {
		case r.done <- results[i]:
		default: // lead, answered above
		}
	}
	return next
}

// again reruns a group in which a request failed, in a new transaction, each request in its own
// savepoint. No caller can give up any more.
func (s *Store) again(t *tx, ran []*request) ([]error, error) {
	results := make([]error, len(ran))
	s.rollback()
	err := s.lock(context.Background(), "BEGIN IMMEDIATE")
	t.events = 0
	if err == nil {
		err = t.load()
	}
	for i, r := range ran {
		if err == nil {
			results[i], err = t.try(r)
		}
	}
	return results, err
}

// more returns a waiting request, as r if it may join a group. Before it reports
// that there is none, it lets goroutines run that were answered in the last round
// and are about to submit again: without that, groups stay small however many ask.
func (s *Store) more(others bool) (r, next *request) {
	for i := 0; ; i++ {
		select {
		case r := <-s.queue:
			if r.mode == grouped {
				return r, nil
			}
			return nil, r
		default:
		}
		if !others || i == yields {
			return nil, nil
		}
		runtime.Gosched()
	}
}

// lock runs a statement that takes the write lock, which another process may
// hold, waiting for as long as ctx lasts. It waits in short naps rather than
// SQLite's growing ones, so that a busy neighbor cannot starve this process.
func (s *Store) lock(ctx context.Context, statement string) error {
	if err := s.alive(ctx); err != nil {
		return err
	}
	for nap := 100 * time.Microsecond; ; nap = min(2*nap, maxNap) {
		err := exec(s.writer, statement)
		if err == nil {
			return nil
		}
		if sqlite.ErrCode(err).ToPrimary() != sqlite.ResultBusy {
			return s.explain(ctx, err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.closing:
			return errClosed
		case <-time.After(nap):
		}
	}
}

// rollback ends the transaction, unless SQLite has already ended it.
func (s *Store) rollback() {
	if s.writer.AutocommitEnabled() {
		return
	}
	if err := exec(s.writer, "ROLLBACK"); err != nil {
		s.halt(fmt.Errorf("roll back: %w", err))
	}
}

// A tx is a transaction on the writer's connection. It assigns numbers from
// memory: while it lasts, nothing else can assign any.
type tx struct {
	*sqlite.Conn
	reached
	store  *Store
	now    int64              // Unix ms
	fresh  map[dag.Hash]int64 // rows of recent that it inserted
	folded int64              // the highest row of recent that it moved, or 0
	events int                // written by this transaction
}

// A reached records which numbers have been assigned. It is a value: what a failed batch did to a copy is forgotten.
type reached struct {
	version int64       // of the database: it changes when another connection writes to it
	log     merkle.Tree // over the journal; its size is the position of the last event
	body    int64       // the highest id in bodies
}

const lastBody = "max(coalesce((SELECT max(id) FROM bodies), 0), " + lastFolded + ")"

// load determines where the transaction begins: where the last one ended, if no other process has written since.
func (t *tx) load() error {
	t.fresh = make(map[dag.Hash]int64)
	last := t.store.last
	t.store.last = nil // until this one is durable
	_, err := first(t.Conn, "PRAGMA data_version", func(r *row) { t.version = r.int() })
	if err == nil && last != nil && last.version == t.version {
		t.reached = *last
		return nil
	}
	var put int64
	const q = "SELECT " + lastBody + ", coalesce((SELECT max(id) FROM recent), 0)"
	if err == nil {
		_, err = first(t.Conn, q, func(r *row) { t.body, put = r.int(), r.int() })
	}
	if err == nil {
		err = t.loadLog()
	}
	if err == nil && t.store.recent.behind(put) {
		err = t.store.recent.catchUp(t.Conn)
	}
	return err
}

// try runs r in a savepoint. result concerns r alone; err ends the whole
// transaction.
func (t *tx) try(r *request) (result, err error) {
	if err := exec(t.Conn, "SAVEPOINT batch"); err != nil {
		return nil, err
	}
	was, events := t.reached, t.events
	result = r.run(t)
	if result == nil {
		return nil, exec(t.Conn, "RELEASE batch")
	}
	if isFatal(result) {
		return nil, result
	}
	t.reached, t.events = was, events
	maps.DeleteFunc(t.fresh, func(_ dag.Hash, id int64) bool { return id > was.body })
	if err := exec(t.Conn, "ROLLBACK TO batch"); err != nil {
		return nil, err
	}
	return result, exec(t.Conn, "RELEASE batch")
}

// isFatal reports whether a transaction cannot continue after one of its requests returned err.
func isFatal(err error) bool {
	if !isSQLite(err) {
		return false
	}
	switch sqlite.ErrCode(err).ToPrimary() {
	case sqlite.ResultTooBig, sqlite.ResultConstraint, sqlite.ResultMismatch:
		return false
	}
	return true
}
