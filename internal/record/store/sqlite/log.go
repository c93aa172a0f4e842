package sqlite

import (
	"context"
	"fmt"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/plait-run/plait/internal/record/merkle"
	"github.com/plait-run/plait/internal/record/store"
)

// The tree over the journal is kept in rows that are written anyway: that of a task with its last events, and that of
// the log when events are removed. The largest is the latest. Nothing else of it is stored: the leaf of an event is
// computed from its row, and that of one that was removed or redacted is in erased.

// catchUpPage is how many entries are hashed at a time.
const catchUpPage = 1000

// Log returns the log over the journal.
func (s *Store) Log(ctx context.Context) (log store.Log, err error) {
	err = s.moment(ctx, func(c *sqlite.Conn) error {
		log, _, err = readLog(c)
		return err
	})
	if err != nil {
		return store.Log{}, fmt.Errorf("read log: %w", err)
	}
	return log, nil
}

// Entries returns what is kept of the positions beyond after.
func (s *Store) Entries(ctx context.Context, after int64, limit int) (entries []store.LogEntry, err error) {
	err = s.moment(ctx, func(c *sqlite.Conn) error {
		entries, err = readEntries(c, after, limit)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read entries: %w", err)
	}
	return entries, nil
}

// SetOrigin gives the log another origin.
func (s *Store) SetOrigin(ctx context.Context, origin string) error {
	err := s.submit(ctx, alone, func(t *tx) error { return exec(t.Conn, "UPDATE log SET origin = ?", origin) })
	if err != nil {
		return fmt.Errorf("set origin of the log: %w", err)
	}
	return nil
}

// readLog returns the log, and the last position. The log is shorter if an older Plait filed the last events, and
// longer if the last events were lost.
func readLog(c *sqlite.Conn) (log store.Log, last int64, err error) {
	var trees [3][]byte
	const q = "SELECT origin, since, tree, " +
		"(SELECT log FROM tasks WHERE task = (SELECT task FROM events ORDER BY pos DESC LIMIT 1)), " +
		lastPosition + " FROM log"
	found, err := first(c, q, func(r *row) {
		log.Origin, log.Since, trees[0], trees[1], last = r.text(), r.int(), r.bytes(), r.bytes(), r.int()
	})
	if err == nil && !found {
		err = fmt.Errorf("the log is lost: %w", store.ErrCorrupt)
	}
	for i := 0; i < len(trees) && err == nil; i++ {
		if i == 2 && log.Tree.Size() < last { // they begin with their size
			_, err = first(c, "SELECT max(log) FROM tasks", func(r *row) { trees[i] = r.bytes() })
		}
		tree, parsed := merkle.Parse(trees[i])
		if err == nil && parsed != nil {
			err = fmt.Errorf("%w: %w", store.ErrCorrupt, parsed)
		}
		if tree.Size() > log.Tree.Size() {
			log.Tree = tree
		}
	}
	return log, last, err
}

// loadLog determines the log that the transaction continues.
func (t *tx) loadLog() error {
	log, last, err := readLog(t.Conn)
	if err == nil && log.Tree.Size() < last {
		err = catchUp(t.Conn, &log.Tree, last)
	}
	t.log = log.Tree
	return err
}

const entryRows = "SELECT " + eventColumns + ", (SELECT secret FROM tasks WHERE task = events.task) FROM events WHERE "

func readEntries(c *sqlite.Conn, after int64, limit int) ([]store.LogEntry, error) {
	log, last, err := readLog(c)
	if err != nil {
		return nil, err
	}
	last = max(last, log.Tree.Size())
	if limit > 0 {
		last = min(last, after+int64(limit))
	}
	var entries []store.LogEntry
	lost := store.LostLeaf()
	for pos := after + 1; pos <= last; pos++ {
		e := store.LogEntry{Pos: pos}
		if pos <= log.Since {
			e.Leaf = lost
		}
		entries = append(entries, e)
	}
	err = each(c, entryRows+"pos > ? AND pos <= ?", func(r *row) {
		e := scanEvent(r)
		entries[e.Pos-after-1] = store.LogEntry{Pos: e.Pos, Event: &e, Secret: store.Secret(r.hash())}
	}, after, last)
	if err == nil {
		err = each(c, "SELECT pos, leaf FROM erased WHERE pos > ? AND pos <= ?", func(r *row) {
			pos := r.int()
			entries[pos-after-1].Leaf = r.hash()
		}, after, last)
	}
	return entries, err
}

// catchUp adds what an older Plait filed. It had the database open when the log began, and knows nothing of it.
func catchUp(c *sqlite.Conn, tree *merkle.Tree, last int64) error {
	var tasks []string
	err := each(c, "SELECT task FROM tasks WHERE secret IS NULL", func(r *row) { tasks = append(tasks, r.text()) })
	for i := 0; i < len(tasks) && err == nil; i++ {
		secret := store.NewSecret()
		err = exec(c, "UPDATE tasks SET secret = ? WHERE task = ?", secret[:], tasks[i])
	}
	for err == nil && tree.Size() < last {
		var entries []store.LogEntry
		entries, err = readEntries(c, tree.Size(), catchUpPage)
		for i := range entries {
			tree.Append(entries[i].Hash())
		}
	}
	return err
}

// beginLog begins the log of a record: all that was filed before is hashed now.
func beginLog(c *sqlite.Conn, at time.Time) error {
	err := exec(c, "INSERT INTO log (origin, since, tree) SELECT ?, "+lastPosition+", x''", store.NewOrigin(at))
	if err != nil {
		return err
	}
	log, last, err := readLog(c)
	if err == nil {
		err = catchUp(c, &log.Tree, last)
	}
	if err == nil {
		err = exec(c, "UPDATE log SET tree = ?", log.Tree.Bytes())
	}
	return err
}

// keepLeaves keeps the leaves of events that are about to be removed or changed. A trigger refuses to remove or change
// one whose leaf is not kept.
func (t *tx) keepLeaves(where string, args ...any) error {
	return each(t.Conn, entryRows+where, func(r *row) {
		e := scanEvent(r)
		leaf := e.Leaf(store.Secret(r.hash()))
		if r.err == nil {
			r.err = exec(t.Conn, "INSERT INTO erased (pos, leaf) VALUES (?,?) ON CONFLICT DO NOTHING", e.Pos, leaf)
		}
	}, args...)
}
