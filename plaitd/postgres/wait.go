package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/plait-run/plait/internal/record/store"
)

// saw notes that a position is committed.
func (s *Store) saw(pos int64) {
	for {
		last := s.last.Load()
		if pos <= last {
			return
		}
		if s.last.CompareAndSwap(last, pos) {
			s.news.Wake()
			return
		}
	}
}

// note remembers the last position that the database has, which query reads. What was known before the query and is not
// there is gone: the database was restored, or rows were deleted.
func (s *Store) note(query func() (int64, error)) error {
	known := s.last.Load()
	last, err := query()
	if err != nil {
		return err
	}
	if last < known && s.last.CompareAndSwap(known, last) {
		s.news.Wake()
	}
	s.saw(last)
	return nil
}

// Wait returns when there are events after pos, or none at pos. This process knows the positions that it committed,
// and those that others announce. It reads the position from the database only after Config.Look, in case no
// announcement arrives, and for a pos that it does not know.
func (s *Store) Wait(ctx context.Context, pos int64) (last int64, err error) {
	for {
		woken := s.news.Next() // before the look, so that no event is missed in between
		if last = s.last.Load(); last > pos {
			return last, nil
		}
		unknown := last < pos
		if !unknown {
			select {
			case <-woken:
				continue
			case <-time.After(s.cfg.Look):
			case <-s.closing:
				return last, fmt.Errorf("wait for events: %w", errClosed)
			case <-ctx.Done():
				return last, fmt.Errorf("wait for events: %w", ctx.Err())
			}
		}
		err := s.note(func() (int64, error) {
			err := s.patiently(ctx, func(ctx context.Context) error {
				return on(ctx, s.readers, func(c *pgx.Conn) error {
					return c.QueryRow(ctx, readPosition).Scan(&last)
				})
			})
			return last, err
		})
		if err != nil {
			return last, fmt.Errorf("wait for events: %w", err)
		}
		if last < pos {
			return last, nil
		}
	}
}

// channel is where processes announce events to each other.
const channel = "plait"

// tell announces committed events to other processes. Done in the transaction that
// commits them, NOTIFY would hold a lock on the whole server for as long as the disk
// takes. This transaction waits for no disk, and nothing is lost if it is.
func (s *Store) tell() {
	const q = "SELECT set_config('synchronous_commit', 'off', true), pg_notify('" + channel + "', $1)"
	for {
		select {
		case <-s.closing:
			return
		case <-s.told:
		}
		ctx, cancel := context.WithTimeout(s.ctx, s.cfg.Try)
		on(ctx, s.readers, func(c *pgx.Conn) error { // an error is harmless: they look by themselves
			_, err := c.Exec(ctx, q, s.me.id)
			return err
		})
		cancel()
		select {
		case <-s.closing:
			return
		case <-time.After(listenPause):
		}
	}
}

// listenPause is how long a process waits after a look for events before the next: it makes one look for all that
// is announced meanwhile, however many processes commit. So it announces its own no more often.
const listenPause = 20 * time.Millisecond

// listen wakes waiters when another process announces events. It has its own connection, which bypasses any
// pooler, and reads the last position once for all of them.
func (s *Store) listen() {
	dsn := s.cfg.URL
	if s.cfg.Direct != "" {
		dsn = s.cfg.Direct
	}
	for s.ctx.Err() == nil {
		heard := true // announcements before LISTEN were missed
		c, err := connectToListen(s.ctx, dsn, func(_ *pgconn.PgConn, n *pgconn.Notification) {
			heard = heard || n.Payload != s.me.id
		})
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

// catchUp reads the position of the last event, then pauses.
func (s *Store) catchUp(c *pgx.Conn) error {
	var last int64
	// Cutting a query off would send the server a cancel request: a closing store waits for the answer instead.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), s.cfg.Try)
	err := s.note(func() (int64, error) {
		err := c.QueryRow(ctx, readPosition).Scan(&last)
		return last, err
	})
	cancel()
	if err != nil {
		return err
	}
	select {
	case <-s.closing:
	case <-time.After(listenPause):
	}
	return nil
}

const readPosition = "SELECT value FROM plait.counters WHERE name = 'pos'"

const eventColumns = "pos, seq, ts, type, task, thread, instance, attempt, payload, proof"

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
		err = row.Scan(&e.Pos, &e.Seq, &e.TS, &e.Type, &e.Task, &e.Thread, &e.Instance, &e.Attempt, (*[]byte)(&e.Payload),
			(*[]byte)(&e.Proof))
		return e, err
	})
}
