package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/store/pack"
)

const (
	// maxGroup is the most batches in one transaction: the server keeps a subtransaction
	// for each refused one, and remembers 64 at little cost.
	maxGroup = 60
	// groupBytes is the size from which a group is full.
	groupBytes = 8 << 20
	// yields is how often other goroutines may run before a group is complete.
	yields = 3
	// linger is how long a caller that gives up still waits for the outcome of a commit in progress.
	linger = 2 * time.Second
)

// A request is a change that waits for the writer goroutine.
type request struct {
	*change
	taken atomic.Bool // by the writer, or by a caller that gave up
	done  chan error
}

// Commit applies b wholly and durably, or not at all.
func (s *Store) Commit(ctx context.Context, b store.Batch) error {
	c := &change{Batch: b, bodies: make([][]byte, len(b.Objects))}
	for i, o := range b.Objects {
		c.bodies[i] = pack.Pack(o)
		c.bytes += len(c.bodies[i])
	}
	old, err := s.elsewhere(ctx, b.Redact.Objects)
	if err == nil {
		err = s.submit(ctx, c)
	}
	if err == nil && len(old) > 0 {
		err = s.erase(ctx, old...)
	}
	if err != nil {
		if errors.Is(err, store.ErrFenced) {
			s.held.check(b.Under, s.beatSoon)
		}
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

// elsewhere returns where bytes of objects are that will be redacted, and so replaced by those of a row.
func (s *Store) elsewhere(ctx context.Context, objects []store.Object) (locs []string, err error) {
	if len(objects) == 0 {
		return nil, nil
	}
	hs := make([]dag.Hash, len(objects))
	for i, o := range objects {
		hs[i] = o.Hash
	}
	rows, err := s.look(ctx, hs)
	for _, f := range rows {
		if f.loc != "" {
			locs = append(locs, f.loc)
		}
	}
	return locs, err
}

// submit has the writer goroutine commit c and returns once it is durable. A caller may give up
// while c is queued. Once its commit is in progress, submit waits for the outcome, but not for long.
func (s *Store) submit(ctx context.Context, c *change) error {
	if err := s.alive(ctx); err != nil {
		return err
	}
	if err := c.prepare(); err != nil {
		return err
	}
	r := &request{change: c, done: make(chan error, 1)}
	select {
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
	}
	if r.taken.CompareAndSwap(false, true) {
		return ctx.Err()
	}
	select {
	case err := <-r.done:
		return err
	case <-time.After(linger):
		return ctx.Err()
	}
}

// write is the writer goroutine. It answers every request that it takes.
func (s *Store) write() {
	for {
		select {
		case <-s.closing:
			return
		case lead := <-s.queue:
			var taken []*request
			bytes := 0
			for r := lead; r != nil; r = s.more() {
				if r.taken.CompareAndSwap(false, true) {
					taken = append(taken, r)
					bytes += r.bytes
				}
				if len(taken) == maxGroup || bytes > groupBytes {
					break
				}
			}
			if len(taken) > 0 {
				s.apply(taken)
			}
		}
	}
}

// more returns a waiting request, or nil. Before it returns nil it lets callers run that
// were answered in the last round and are about to submit again.
func (s *Store) more() *request {
	for range yields {
		select {
		case r := <-s.queue:
			return r
		default:
			runtime.Gosched()
		}
	}
	return nil
}

// errUnsure says that an earlier try of a group may have been applied, although its answer was lost.
var errUnsure = errors.New("an earlier try may have been applied")

// apply commits a group and answers its requests. A batch that the server cannot take
// at all, because it is too large, fails alone. A group that may have been applied is not
// split: its batches would be applied again, under ids of their own.
func (s *Store) apply(rs []*request) {
	changes := make([]*change, len(rs))
	for i, r := range rs {
		changes[i] = r.change
	}
	results, err := s.commit(changes)
	if err != nil && len(rs) > 1 && !passing(err) && !errors.Is(err, errUnsure) && !errors.Is(err, errClosed) {
		for _, r := range rs {
			s.apply([]*request{r})
		}
		return
	}
	for i, r := range rs {
		if err == nil {
			r.done <- refused(results[i])
			continue
		}
		r.done <- err
	}
}

const callCommit = "SELECT r_results, r_pos FROM plait.commit("

// commitSQL has a parameter for each argument.
var commitSQL = func() string {
	args, _ := new(group).args(nil, false) // fails only on a rest
	var q strings.Builder
	q.WriteString(callCommit)
	for i := range args {
		if i > 0 {
			q.WriteByte(',')
		}
		fmt.Fprintf(&q, "$%d", i+1)
	}
	return q.String() + ")"
}()

// awaitStandby changes nothing, but writes: a synchronous standby that has it also has all commits before it. A try
// that only finds what an earlier one applied writes nothing, and so would not wait.
const awaitStandby = "UPDATE plait.counters SET value = value WHERE name = 'pos' AND " +
	"(current_setting('synchronous_commit')" +
	" <> 'off' OR set_config('synchronous_commit', 'on', true) <> '')"

// commit applies changes in one transaction, once, however often it has to be retried.
func (s *Store) commit(changes []*change) (results []string, err error) {
	g := groupOf(changes)
	id := make([]byte, 16)
	rand.Read(id)
	var pos int64
	tried, again := false, false
	// Close waits for a try in progress.
	err = s.patiently(context.WithoutCancel(s.ctx), func(ctx context.Context) error {
		again, tried = tried, true
		args, err := g.args(id, again)
		if err != nil {
			return err
		}
		return on(ctx, s.writers, func(c *pgx.Conn) error {
			err := c.QueryRow(ctx, commitSQL, args...).Scan(&results, &pos)
			if err == nil && again {
				_, err = c.Exec(ctx, awaitStandby)
			}
			return err
		})
	})
	switch {
	case err != nil && again:
		return nil, fmt.Errorf("%w: %w", errUnsure, err)
	case err != nil:
		return nil, err
	}
	if len(results) != len(changes) {
		return nil, fmt.Errorf("%d batches have %d outcomes", len(changes), len(results))
	}
	if len(g.eventB) > 0 {
		s.saw(pos)
		select { // also for a position that was known before: then what was there is gone
		case s.told <- struct{}{}:
		default:
		}
	}
	return results, nil
}
