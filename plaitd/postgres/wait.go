package postgres

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/plait-run/plait/internal/store"
)

// A broadcast wakes everybody who waits for events.
type broadcast struct {
	mu sync.Mutex
	ch chan struct{} // closed, and made anew, by wake
}

func (b *broadcast) wake() {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.ch)
	b.ch = make(chan struct{})
}

func (b *broadcast) next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ch
}

// saw notes that a position is committed, and reports whether that is news.
func (s *Store) saw(pos int64) bool {
	for {
		last := s.last.Load()
		if pos <= last {
			return false
		}
		if s.last.CompareAndSwap(last, pos) {
			s.news.wake()
			return true
		}
	}
}

// Wait returns when there are events after pos. The last position is known to this process
// if it committed it itself; else it is looked for when another one says that there are
// events, and from time to time, should nobody be heard.
func (s *Store) Wait(ctx context.Context, pos int64) (last int64, err error) {
	for {
		woken := s.news.next() // before the look, so that nothing falls between
		if last = s.last.Load(); last <= pos {
			err := s.patiently(ctx, func(ctx context.Context) error {
				return on(ctx, s.readers, func(c *pgx.Conn) error {
					return c.QueryRow(ctx, readPosition).Scan(&last)
				})
			})
			if err != nil {
				return last, fmt.Errorf("wait for events: %w", err)
			}
			s.saw(last)
		}
		if last > pos {
			return last, nil
		}
		select {
		case <-woken:
		case <-time.After(s.cfg.Look):
		case <-s.closing:
			return last, fmt.Errorf("wait for events: %w", errClosed)
		case <-ctx.Done():
			return last, fmt.Errorf("wait for events: %w", ctx.Err())
		}
	}
}

// channel is what processes tell each other on that there are events.
const channel = "plait"

// tellPause is how long others are told nothing after they were told something.
const tellPause = 5 * time.Millisecond

// tell tells others of events, after they were committed: in a transaction that commits
// something it would take a lock of the whole server for as long as the disk takes. This
// one waits for no disk, and nothing is lost if it is.
func (s *Store) tell() {
	const q = "SELECT set_config('synchronous_commit', 'off', true), pg_notify('" + channel + "', $1)"
	for {
		select {
		case <-s.closing:
			return
		case <-s.told:
		}
		ctx, cancel := context.WithTimeout(s.ctx, s.cfg.Try)
		on(ctx, s.readers, func(c *pgx.Conn) error { // in vain: they look by themselves
			_, err := c.Exec(ctx, q, s.me.id)
			return err
		})
		cancel()
		select {
		case <-s.closing:
			return
		case <-time.After(tellPause):
		}
	}
}

// listenPause is how long a process that has looked for events does not look again: what others tell of meanwhile
// is one look, however many commit.
const listenPause = 20 * time.Millisecond

// listen wakes those who wait when another process tells of events, on a connection of its own, which is past any
// pooler. It looks for all of them how far the journal has come.
func (s *Store) listen() {
	dsn := s.cfg.URL
	if s.cfg.Direct != "" {
		dsn = s.cfg.Direct
	}
	for s.ctx.Err() == nil {
		heard := true // what was told before was not heard
		c, err := connectToListen(s.ctx, dsn, func(_ *pgconn.PgConn, n *pgconn.Notification) { heard = heard || n.Payload != s.me.id })
		if err == nil {
			_, err = c.Exec(s.ctx, "LISTEN "+channel)
			for err == nil {
				if !heard {
					err = c.PgConn().WaitForNotification(s.ctx)
					continue
				}
				heard = false
				err = s.catchUp(c)
			}
			c.Close(context.WithoutCancel(s.ctx))
		}
		select {
		case <-s.closing:
		case <-time.After(s.cfg.Look):
		}
	}
}

// catchUp reads the position of the last event, and has a pause.
func (s *Store) catchUp(c *pgx.Conn) error {
	var last int64
	// To a query that is cut off the server is sent a cancel: a store that is closed waits for its answer.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), s.cfg.Try)
	err := c.QueryRow(ctx, readPosition).Scan(&last)
	cancel()
	if err != nil {
		return err
	}
	s.saw(last)
	select {
	case <-s.closing:
	case <-time.After(listenPause):
	}
	return nil
}

const readPosition = "SELECT value FROM plait.counters WHERE name = 'pos'"

const eventColumns = "pos, seq, ts, type, task, thread, instance, attempt, payload"

// Events returns the events after a position that f selects.
func (r reads) Events(ctx context.Context, after int64, f store.EventFilter) ([]store.Event, error) {
	q := query{sql: "SELECT " + eventColumns + " FROM plait.events"}
	q.and("pos > ?", after)
	match(&q, "task", f.Task)
	match(&q, "thread", f.Thread)
	if len(f.Types) == 1 {
		q.and("type = ?", f.Types[0])
	} else {
		among(&q, "type", f.Types)
	}
	if f.Before > 0 {
		q.and("pos < ?", f.Before)
	}
	order := " ORDER BY pos"
	if f.Newest {
		order += " DESC"
	}
	q.end(order, f.Limit)
	return many(ctx, r, "events", q, func(row pgx.Rows) (e store.Event, err error) {
		err = row.Scan(&e.Pos, &e.Seq, &e.TS, &e.Type, &e.Task, &e.Thread, &e.Instance, &e.Attempt, (*[]byte)(&e.Payload))
		return e, err
	})
}
