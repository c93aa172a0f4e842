package sqlite

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/testing/storetest"
)

// scripts runs statements on the database in dir, as another process.
func scripts(t *testing.T, dir string, all ...string) error {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	c, err := sqlite.OpenConn(filepath.Join(dir, "plait.db"), sqlite.OpenReadWrite, sqlite.OpenCreate)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, script := range all {
		if err := sqlitex.ExecuteScript(c, script, nil); err != nil {
			return err
		}
	}
	return nil
}

// file commits an event for each task.
func file(t *testing.T, s *Store, tasks ...string) {
	t.Helper()
	var b store.Batch
	for _, task := range tasks {
		b.Events = append(b.Events, store.Event{Type: "x", Task: task, Payload: []byte(`1`)})
	}
	if err := s.Commit(t.Context(), b); err != nil {
		t.Fatal(err)
	}
}

func sizeOf(t *testing.T, s *Store) int64 {
	t.Helper()
	log, err := s.Log(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return log.Tree.Size()
}

func sound(t *testing.T, s *Store) {
	t.Helper()
	if err := storetest.CheckLog(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if lines, err := s.Check(t.Context()); err != nil || len(lines) > 0 {
		t.Fatalf("check: %q, %v", lines, err)
	}
}

// filedBefore returns what an older Plait does to file an event.
func filedBefore(pos, seq int, task string) string {
	script := fmt.Sprintf("INSERT INTO events (pos, seq, ts, type, task, thread, instance, attempt, payload) "+
		"VALUES (%d, %d, 0, 'old', '%s', '', '', '', NULL);", pos, seq, task)
	if seq == 1 {
		return script + fmt.Sprintf("INSERT INTO tasks (task, seq, first, last) VALUES ('%s', 1, %d, %[2]d);", task, pos)
	}
	return script + fmt.Sprintf("UPDATE tasks SET seq = %d, last = %d WHERE task = '%s';", seq, pos, task)
}

// An older Plait that has the database open knows nothing of the log. What it files is added by the next commit.
func TestOlderPlaitBeside(t *testing.T) {
	for name, next := range map[string]func(t *testing.T, s *Store){
		"its task":     func(t *testing.T, s *Store) { file(t, s, "A", "new") },
		"another task": func(t *testing.T, s *Store) { file(t, s, "B") },
		"no event, then one": func(t *testing.T, s *Store) {
			if err := s.Commit(t.Context(), store.Batch{Unpin: []string{"p"}}); err != nil {
				t.Fatal(err)
			}
			file(t, s, "B")
		},
		"a removal": func(t *testing.T, s *Store) {
			if err := s.Commit(t.Context(), store.Batch{Remove: []string{"new"}}); err != nil {
				t.Fatal(err)
			}
		},
		"a redaction": func(t *testing.T, s *Store) {
			file(t, s, "A")
			e := store.Event{Pos: 5, Payload: []byte(`"***"`)}
			if err := s.Commit(t.Context(), store.Batch{Redact: store.Redaction{Events: []store.Event{e}}}); err != nil {
				t.Fatal(err)
			}
		},
	} {
		for _, reopened := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " reopened ", reopened), func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "home")
				s, err := Open(t.Context(), Config{Dir: dir})
				if err != nil {
					t.Fatal(err)
				}
				file(t, s, "A", "B", "B")
				err = scripts(t, dir, filedBefore(4, 2, "A")+filedBefore(5, 1, "new")+filedBefore(6, 2, "new"))
				if err != nil {
					t.Fatal(err)
				}
				if n := sizeOf(t, s); n != 3 {
					t.Errorf("before the next commit the log has size %d", n)
				}
				if reopened {
					s.Close()
					if s, err = Open(t.Context(), Config{Dir: dir}); err != nil {
						t.Fatal(err)
					}
				}
				defer s.Close()
				next(t, s)
				file(t, s, "new")
				sound(t, s)
			})
		}
	}
}

// A trigger keeps an older Plait from removing or changing an event without leaving its leaf.
func TestOlderPlaitErasesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "home")
	s, err := Open(t.Context(), Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	file(t, s, "A", "B", "A")
	for _, script := range []string{
		"DELETE FROM events WHERE task = 'A'", "UPDATE events SET payload = NULL WHERE pos = 2",
	} {
		err := scripts(t, dir, script)
		if sqlite.ErrCode(err) != sqlite.ResultConstraintTrigger || !strings.Contains(err.Error(), "without its leaf") {
			t.Errorf("%s: %v", script, err)
		}
	}
	if sizeOf(t, s) != 3 {
		t.Error("the log has changed")
	}
	sound(t, s)
}

// The log of a record that an older Plait made begins with what was filed before: it cannot be changed any more, but
// nothing proves that it was not before. Where events had been removed are holes.
func TestMigrationBeginsTheLog(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "home")
	script := "PRAGMA application_id = 1886151017; PRAGMA user_version = 9;" + strings.Join(migrations[:9], "")
	seq := map[string]int{}
	for pos := 1; pos <= 2500; pos++ {
		if task := []string{"A", "B", "", "A", "C", "gone"}[pos%6]; task != "gone" {
			seq[task]++
			script += filedBefore(pos, seq[task], task)
		}
	}
	if err := scripts(t, dir, script+"UPDATE counters SET value = 2502 WHERE name = 'floor'"); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), Config{Dir: dir, ReadOnly: true}); err == nil {
		t.Error("opened for reading before it was brought up to date")
	}
	s, err := Open(t.Context(), Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	log, err := s.Log(t.Context())
	if err != nil || log.Since != 2502 || log.Tree.Size() != 2502 {
		t.Fatalf("the log has size %d and began after %d: %v", log.Tree.Size(), log.Since, err)
	}
	entries, err := s.Entries(t.Context(), 4, 2)
	if err != nil || entries[0].Leaf != store.LostLeaf() || entries[0].Event != nil || entries[1].Event.Task != "A" {
		t.Errorf("entries 5 and 6 are %+v, %v", entries, err)
	}
	secrets := map[string]store.Secret{}
	all, err := s.Entries(t.Context(), 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		if e.Event != nil {
			secrets[e.Event.Task] = e.Secret
		}
	}
	distinct := map[store.Secret]bool{}
	for _, secret := range secrets {
		distinct[secret] = true
	}
	if len(secrets) != 4 || len(distinct) != 4 {
		t.Errorf("%d tasks have %d secrets", len(secrets), len(distinct))
	}
	sound(t, s)
	file(t, s, "C", "D")
	if err := s.Commit(t.Context(), store.Batch{Remove: []string{"A"}}); err != nil {
		t.Fatal(err)
	}
	sound(t, s)
	s.Close()
	if s, err = Open(t.Context(), Config{Dir: dir}); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	again, err := s.Log(t.Context())
	if err != nil || again.Origin != log.Origin || again.Since != 2502 || again.Tree.Size() != 2504 {
		t.Errorf("after reopening the log has size %d, began after %d and is that of %s, not %s: %v", again.Tree.Size(),
			again.Since, again.Origin, log.Origin, err)
	}
	sound(t, s)
}

// A batch that fails after it filed events, beside others in its transaction, leaves no leaves.
func TestFailedBatchLeavesNoLeaf(t *testing.T) {
	s, err := Open(t.Context(), Config{Dir: filepath.Join(t.TempDir(), "home")})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	file(t, s, "A")
	add := func(result error) *request {
		return newRequest(t.Context(), grouped, func(t *tx) error {
			return errors.Join(t.file([]store.Event{{Type: "x", Task: "A"}, {Type: "x", Task: "B"}}), result)
		})
	}
	err = s.submit(t.Context(), alone, func(t *tx) error {
		for _, want := range []error{nil, store.ErrConflict, nil} {
			if result, err := t.try(add(want)); !errors.Is(result, want) || err != nil {
				return fmt.Errorf("tried: %w, %w", result, err)
			}
		}
		return nil
	})
	if n := sizeOf(t, s); err != nil || n != 5 {
		t.Errorf("the log has size %d, %v", n, err)
	}
	file(t, s, "B")
	sound(t, s)
}

// Events that were cut off at the end are missed, and their positions are not given to others.
func TestCutOffEvents(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "home")
	s, err := Open(t.Context(), Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	file(t, s, "A", "A", "A")
	err = scripts(t, dir, "DROP TRIGGER events_removed; DELETE FROM events WHERE pos = 3;"+
		"UPDATE tasks SET seq = 2, last = 2")
	if err != nil {
		t.Fatal(err)
	}
	entries, err := s.Entries(t.Context(), 2, 0)
	if err != nil || len(entries) != 1 || entries[0] != (store.LogEntry{Pos: 3}) {
		t.Errorf("the entry that is lost is %+v, %v", entries, err)
	}
	file(t, s, "A")
	if err := storetest.CheckLog(t.Context(), s); err == nil || sizeOf(t, s) != 4 {
		t.Errorf("the log has size %d, and is that over its entries: %v", sizeOf(t, s), err)
	}
	lines, err := s.Check(t.Context())
	if err != nil || !strings.Contains(strings.Join(lines, "\n"), "gap before position 4") {
		t.Errorf("check: %q, %v", lines, err)
	}
}
