package verify_test

import (
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plait-run/plait/internal/record/merkle"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/testing/verifytest"
)

// TestForgeries forges a record in SQLite.
func TestForgeries(t *testing.T) { verifytest.Forgeries(t, sqliteFiles(t.TempDir())) }

// sqliteFiles are the files of a record in SQLite, by their directory.
type sqliteFiles string

func (dir sqliteFiles) Open(t *testing.T) store.Store {
	t.Helper()
	return openSQLite(t, string(dir))
}

func (dir sqliteFiles) Copy(t *testing.T) verifytest.Storage {
	t.Helper()
	to := filepath.Join(t.TempDir(), "home")
	if err := os.CopyFS(to, os.DirFS(string(dir))); err != nil {
		t.Fatal(err)
	}
	return sqliteFiles(to)
}

func (dir sqliteFiles) Rewrite(t *testing.T, entries []store.LogEntry, tree merkle.Tree) {
	t.Helper()
	var q strings.Builder
	q.WriteString("DELETE FROM erased; DELETE FROM events; UPDATE tasks SET log = NULL;")
	text := func(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
	blob := func(b []byte) string { return "x'" + hex.EncodeToString(b) + "'" }
	for i := range entries {
		e := entries[i].Event
		fmt.Fprintf(&q, "INSERT INTO events (pos, seq, ts, type, task, thread, instance, attempt, payload, proof) VALUES"+
			" (%d,%d,%d,%s,%s,%s,%s,%s,%s,%s);", entries[i].Pos, e.Seq, e.TS, text(e.Type), text(e.Task), text(e.Thread),
			text(e.Instance), text(e.Attempt), blob(e.Payload), blob(e.Proof))
	}
	q.WriteString("UPDATE tasks SET (seq, first, last) = (SELECT max(seq), min(pos), max(pos) FROM events" +
		" WHERE events.task = tasks.task); UPDATE counters SET value = 0 WHERE name = 'floor';")
	fmt.Fprintf(&q, "UPDATE log SET tree = %s", blob(tree.Bytes()))
	alter(t, string(dir), q.String())
}
