package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/plait-run/plait/internal/record/store"
)

// Wait returns when there are events after pos, or none at pos.
func (s *Store) Wait(ctx context.Context, pos int64) (last int64, err error) {
	for {
		woken := s.news.Next() // before the read, so that no event is missed in between
		err := s.soon(ctx, func(c *sqlite.Conn) error {
			_, err := first(c, "SELECT coalesce(max(pos), 0) FROM events", func(r *row) { last = r.int() })
			return err
		})
		if err != nil {
			return last, fmt.Errorf("wait for events: %w", err)
		}
		if last != pos {
			return last, nil
		}
		select {
		case <-woken:
		case <-time.After(s.patience()):
			if err := s.present(); err != nil {
				return last, fmt.Errorf("wait for events: %w", err)
			}
		case <-s.closing:
			return last, fmt.Errorf("wait for events: %w", errClosed)
		case <-ctx.Done():
			return last, fmt.Errorf("wait for events: %w", ctx.Err())
		}
	}
}

// present breaks the store once its database is no longer where it was: nothing written to it would ever be
// found, and a caller that waits for other processes would wait forever.
func (s *Store) present() error {
	if s.file == nil {
		return nil // it is being opened
	}
	now, err := os.Stat(s.database())
	if errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(s.file, now) {
		return s.halt(fmt.Errorf("%s was removed while in use: %w", s.database(), store.ErrBroken))
	}
	return nil
}

const eventColumns = "pos, seq, ts, type, task, thread, instance, attempt, payload, proof"

// Events returns the events after a position that f selects.
func (s *Store) Events(ctx context.Context, after int64, f store.EventFilter) ([]store.Event, error) {
	return many(ctx, s.reads, "events", eventQuery(after, f), scanEvent)
}

func scanEvent(r *row) store.Event {
	return store.Event{
		Pos: r.int(), Seq: r.int(), TS: r.int(), Type: r.text(), Task: r.text(), Thread: r.text(),
		Instance: r.text(), Attempt: r.text(), Payload: r.bytes(), Proof: r.bytes(),
	}
}

// hasIndex reports whether an index covers the events of these types.
func hasIndex(types []string) bool {
	return len(types) == 1 && strings.Contains(schema5, "WHERE type = '"+types[0]+"'")
}

func eventQuery(after int64, f store.EventFilter) query {
	q := query{sql: "SELECT " + eventColumns + " FROM events"}
	q.soon = f.Limit == 1 || hasIndex(f.Types)
	if f.Task == "" {
		q.and("pos > ?", after)
	} else { // a single lower bound: given two, SQLite may seek by either
		q.and("task = ? AND pos > max(?, (SELECT first FROM tasks WHERE task = ?) - 1) "+
			"AND pos <= (SELECT last FROM tasks WHERE task = ?)", f.Task, after, f.Task, f.Task)
	}
	match(&q, "thread", f.Thread)
	q.ofTypes(f.Types)
	if f.Before > 0 {
		q.and("pos < ?", f.Before)
	}
	order := " ORDER BY pos"
	if f.Newest {
		order += " DESC"
	}
	q.end(order, f.Limit)
	return q
}

// ofTypes selects events by type. Types made of plain letters, as ours are, become part of the
// statement: SQLite cannot use an index of some types for a type that it does not know yet.
func (q *query) ofTypes(types []string) {
	plain := func(r rune) bool { return r >= 'a' && r <= 'z' || r == '.' || r == '_' }
	for _, t := range types {
		if strings.ContainsFunc(t, func(r rune) bool { return !plain(r) }) {
			among(q, "type", types)
			return
		}
	}
	switch len(types) {
	case 0:
	case 1:
		q.and("type = '" + types[0] + "'")
	default:
		q.and("type IN ('" + strings.Join(types, "', '") + "')")
	}
}
