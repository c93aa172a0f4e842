package sqlite

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/plait-run/plait/internal/store"
)

// A record of the first schema is brought forward when it is opened, and nothing
// in it is lost.
func TestMigration(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "home")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	c, err := sqlite.OpenConn(filepath.Join(dir, "plait.db"), sqlite.OpenReadWrite, sqlite.OpenCreate)
	if err != nil {
		t.Fatal(err)
	}
	for _, script := range []string{
		"PRAGMA application_id = 1886151017; PRAGMA user_version = 1;" + schema1,
		`INSERT INTO attempts (id, thread, role, n, agent, instance, status, session, pid, pidstart, tag, started, ended, input, cached, output, reasoning, cost)
		 VALUES ('T.1', 'T', 'r', 1, 'a', 'i', 'done', 's', 2, 3, 'g', 4, 5, 6, 7, 8, 9, 10)`,
	} {
		if err := sqlitex.ExecuteScript(c, script, nil); err != nil {
			t.Fatal(err)
		}
	}
	c.Close()
	s, err := Open(t.Context(), Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	a, err := s.Attempt(t.Context(), "T.1")
	if err != nil {
		t.Fatal(err)
	}
	if a.Session != "s" || a.Usage.CostMicroUSD != 10 || a.Turn != "" || a.Waited != 0 {
		t.Errorf("the attempt came out as %+v", a)
	}
	a.Turn, a.Waited = "u", 11
	if err := s.Commit(t.Context(), store.Batch{Attempts: []store.AttemptChange{{Row: a, From: "done"}}}); err != nil {
		t.Fatal(err)
	}
	if now, err := s.Attempt(t.Context(), "T.1"); err != nil || now.Turn != "u" || now.Waited != 11 {
		t.Errorf("the attempt came out as %+v, %v", now, err)
	}
}

// Tasks that are there get short names: the older one the shorter, where they would be called
// the same.
func TestMigrationNamesTasks(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "home")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	c, err := sqlite.OpenConn(filepath.Join(dir, "plait.db"), sqlite.OpenReadWrite, sqlite.OpenCreate)
	if err != nil {
		t.Fatal(err)
	}
	script := "PRAGMA application_id = 1886151017; PRAGMA user_version = 3;" + schema1 + schema2 + schema3
	for id, kind := range map[string]string{
		"01KA00000000000000000AK7F2": "root", "01KB00000000000000000BK7F2": "root", "01KC00000000000000000CK7F3": "path",
	} {
		script += "INSERT INTO threads (id, task, root, kind, flow, status, wanted, inflight, tree, workspace, steps, created, " +
			"updated, ended) VALUES ('" + id + "', 'T', 'T', '" + kind + "', 'f', 'completed', '', '', '', '/w', 0, 0, 0, 0);"
	}
	if err := sqlitex.ExecuteScript(c, script, nil); err != nil {
		t.Fatal(err)
	}
	c.Close()
	s, err := Open(t.Context(), Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	rows, err := s.Threads(t.Context(), store.ThreadFilter{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, row := range rows {
		got = append(got, row.Short)
	}
	if want := []string{"k7f2", "bk7f2", ""}; !slices.Equal(got, want) {
		t.Errorf("they are called %q, want %q", got, want)
	}
}
