package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"zombiezen.com/go/sqlite"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/store/pack"
)

// belongs lists the tables and triggers of the database.
var belongs = []string{
	"attempts", "bodies", "counters", "counts", "erased", "events", "events_changed", "events_removed", "flows", "gates",
	"leases", "log", "objects", "pins", "recent", "tasks", "threads", "wishes",
}

// checks are queries; each row they return describes a problem.
var checks = []string{
	`SELECT 'events of task ' || task || ' have a gap: ' || count(*) || ' events, numbered '
			|| min(seq) || ' to ' || max(seq)
		FROM events GROUP BY task HAVING min(seq) <> 1 OR max(seq) <> count(*)`,
	`SELECT 'events have a gap before position ' || pos
		FROM (SELECT pos, lag(pos, 1, 0) OVER (ORDER BY pos) AS before
			FROM (SELECT pos FROM events UNION SELECT pos FROM erased))
		WHERE pos <> before + 1 AND pos > (SELECT min(value, since) FROM counters, log WHERE name = 'floor') + 1`,
	`SELECT 'the counter of task ' || task || ' is behind its events' FROM events LEFT JOIN tasks USING (task)
		GROUP BY task HAVING tasks.seq IS NOT max(events.seq) OR first IS NOT min(pos) OR last IS NOT max(pos)`,
	`SELECT 'the counter of positions is lost' WHERE NOT EXISTS (SELECT 1 FROM counters WHERE name = 'floor')`,
	`SELECT 'the log is lost' WHERE NOT EXISTS (SELECT 1 FROM log)`,
	`SELECT 'the counter of objects is lost' WHERE NOT EXISTS (SELECT 1 FROM counters WHERE name = 'folded')`,
	`SELECT 'object ' || lower(hex(hash)) || ' has two rows' FROM recent WHERE hash IN (SELECT hash FROM objects)
		OR hash IN (SELECT hash FROM recent GROUP BY hash HAVING count(*) > 1)`,
}

// Check returns a line for everything that is wrong with the database or with
// the files next to it. It reads all of the database, but no loose file: Get
// and Open check those.
func (s *Store) Check(ctx context.Context) (lines []string, err error) {
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	err = s.run(ctx, "PRAGMA integrity_check", func(r *row) {
		if line := r.text(); line != "ok" {
			add("%s: %s", s.database(), line)
		}
	}, add)
	if err == nil {
		const q = "SELECT name FROM sqlite_schema " +
			"WHERE type IN ('table', 'view', 'trigger') AND name NOT LIKE 'sqlite_%'"
		missing := slices.Clone(belongs)
		err = s.run(ctx, q, func(r *row) {
			name := r.text()
			if !slices.Contains(belongs, name) {
				add("%s: %s does not belong to Plait", s.database(), name)
			}
			missing = slices.DeleteFunc(missing, func(s string) bool { return s == name })
		}, add)
		for _, name := range missing {
			add("%s: %s is missing", s.database(), name)
		}
	}
	if err == nil {
		err = s.checkBodies(ctx, add)
	}
	for _, q := range checks {
		if err == nil {
			err = s.run(ctx, q, func(r *row) { add("%s: %s", s.database(), r.text()) }, add)
		}
	}
	if err == nil {
		err = s.checkFiles(ctx, add)
	}
	if err != nil {
		return nil, fmt.Errorf("check store: %w", err)
	}
	return lines, nil
}

// run runs a query. If damage cuts it short, run adds that to the findings.
func (s *Store) run(ctx context.Context, q string, scan func(*row), add func(string, ...any)) error {
	err := s.read(ctx, func(c *sqlite.Conn) error { return each(c, q, scan) })
	if errors.Is(err, store.ErrCorrupt) {
		add("%v", err)
		return nil
	}
	return err
}

// checkBodies compares what rows of objects say about their bytes with the bytes themselves. Both
// are read once, in storage order.
func (s *Store) checkBodies(ctx context.Context, add func(string, ...any)) error {
	places, err := s.places(ctx)
	if errors.Is(err, store.ErrCorrupt) {
		add("%v", err)
		return nil
	}
	if err != nil {
		return err
	}
	var lost []place
	var orphans []string // ids of bodies
	err = s.run(ctx, "SELECT id, length(data), substr(data, 1, 1) FROM bodies ORDER BY id", func(r *row) {
		id, size, mark := r.int(), r.int(), r.bytes()
		for len(places) > 0 && places[0].body < id {
			lost, places = append(lost, places[0]), places[1:]
		}
		if len(places) == 0 || places[0].body != id {
			orphans = append(orphans, strconv.FormatInt(id, 10))
			return
		}
		for p := places[0]; p.body == id; p = places[0] { // more than one only in a damaged table
			if size != p.size && !pack.Packed(mark, p.kind) {
				add("object %s has %d bytes, its row says %d", p.hash, size, p.size)
			}
			if places = places[1:]; len(places) == 0 {
				return
			}
		}
	}, add)
	if err != nil {
		return err
	}
	return s.confirm(ctx, append(lost, places...), orphans, add)
}

// confirm adds what is still wrong: writers and the collector may have worked since the rows were read. An id of a
// body is never used again.
func (s *Store) confirm(ctx context.Context, lost []place, orphans []string, add func(string, ...any)) error {
	for _, p := range lost {
		q := fmt.Sprintf("SELECT 1 FROM objects WHERE hash = x'%s' AND body = %d UNION SELECT 1 FROM recent WHERE id = %[2]d",
			p.hash, p.body)
		if err := s.run(ctx, q, func(*row) { add("object %s has no body", p.hash) }, add); err != nil {
			return err
		}
	}
	for part := range slices.Chunk(orphans, 1000) {
		q := "SELECT id FROM bodies WHERE id IN (" + strings.Join(part, ",") + ") AND id NOT IN (SELECT id FROM recent)" +
			" AND id NOT IN (SELECT body FROM objects WHERE body IS NOT NULL)"
		if err := s.run(ctx, q, func(r *row) { add("body %d belongs to no object", r.int()) }, add); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) checkFiles(ctx context.Context, add func(string, ...any)) error {
	type file struct {
		h    dag.Hash
		size int64
	}
	var files []file
	err := s.run(ctx, "SELECT hash, size FROM objects WHERE body IS NULL", func(r *row) {
		files = append(files, file{r.hash(), r.int()})
	}, add)
	if err != nil {
		return err
	}
	for _, f := range files {
		info, err := os.Stat(s.loose(f.h))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			if kept, err := s.Has(ctx, f.h); err == nil && kept { // not swept meanwhile
				add("object %s: its file %s is missing", f.h, s.loose(f.h))
			}
		case err != nil:
			return err
		case info.Size() != f.size:
			add("object %s: its file %s has %d bytes, its row says %d", f.h, s.loose(f.h), info.Size(), f.size)
		}
	}
	return filepath.WalkDir(filepath.Join(s.cfg.Dir, "objects"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Dir(path) == s.temps() {
			return err
		}
		if h, err := dag.ParseHash(strings.TrimSpace(d.Name())); err != nil || s.loose(h) != path {
			add("%s does not belong to Plait", path)
		}
		return nil
	})
}
