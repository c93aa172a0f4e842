package sqlite

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
)

// A record with the first schema is brought up to date when it is opened, and
// nothing in it is lost.
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
		`INSERT INTO attempts (id, thread, role, n, agent, instance, status, session, pid, pidstart, tag, started, ended, input, cached,
			output, reasoning, cost)
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
	if a.Session != "s" || a.Usage.CostMicroUSD != 10 || a.Turn != "" || a.Waited != 0 || a.Host != "" || a.Boot != "" {
		t.Errorf("the attempt came out as %+v", a)
	}
	a.Turn, a.Waited, a.Host, a.Boot = "u", 11, "h", "b"
	if !a.Calls.IsZero() {
		t.Errorf("it has calls %s", a.Calls)
	}
	if err := s.Commit(t.Context(), store.Batch{Attempts: []store.AttemptChange{{Row: a, From: "done"}}}); err != nil {
		t.Fatal(err)
	}
	g := store.Gate{ID: "g", State: store.GateApproved, Edited: []byte(`{"type":"command"}`), EditedDigest: dag.Sum(nil)}
	if err := s.Commit(t.Context(), store.Batch{Gates: []store.GateChange{{Row: g}}}); err != nil {
		t.Fatal(err)
	}
	if now, err := s.Gate(t.Context(), "g"); err != nil || !slices.Equal(now.Edited, g.Edited) ||
		now.EditedDigest != g.EditedDigest {
		t.Errorf("the gate came out as %+v, %v", now, err)
	}
	if now, err := s.Attempt(t.Context(), "T.1"); err != nil || now.Turn != "u" || now.Waited != 11 || now.Host != "h" ||
		now.Boot != "b" {
		t.Errorf("the attempt came out as %+v, %v", now, err)
	}
}

// Existing tasks get short names: where two would get the same, the older one gets the
// shorter.
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
		script += "INSERT INTO threads (id, task, root, kind, flow, status, wanted, inflight, tree, workspace, steps, " +
			"created, " +
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

// Each prompt asks for the notes of its task: they are found without reading the other events, also
// in a store that an earlier version made.
func TestNotesHaveAnIndex(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "home")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	c, err := sqlite.OpenConn(filepath.Join(dir, "plait.db"), sqlite.OpenReadWrite, sqlite.OpenCreate)
	if err != nil {
		t.Fatal(err)
	}
	script := "PRAGMA application_id = 1886151017; PRAGMA user_version = 4;" + schema1 + schema2 + schema3 + schema4 +
		"INSERT INTO tasks VALUES ('T', 3, 1, 3);"
	for i, typ := range []string{"notes.read", "attempt.started", "notes.read"} {
		script += fmt.Sprintf("INSERT INTO events VALUES (%d, %[1]d, 0, '%s', 'T', 'T', '', '', NULL);", i+1, typ)
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
	f := store.EventFilter{Task: "T", Types: []string{"notes.read"}, Limit: 10}
	if found, err := s.Events(t.Context(), 1, f); err != nil || len(found) != 1 || found[0].Pos != 3 {
		t.Errorf("after the first: %+v, %v", found, err)
	}
	f.Types = []string{"it's", "notes.read"}
	if found, err := s.Events(t.Context(), 0, f); err != nil || len(found) != 2 {
		t.Errorf("of odd types: %+v, %v", found, err)
	}
	f.Types = f.Types[1:]
	wantIndex(t, s, eventQuery(1, f), "INDEX events_notes")
}

// Queries made for each thread that begins or moves do not look at all the others.
func TestThreadsHaveIndexes(t *testing.T) {
	s, err := Open(t.Context(), Config{Dir: filepath.Join(t.TempDir(), "home")})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	wantIndex(t, s, threadQuery(store.ThreadFilter{Short: "k7f2"}), "INDEX threads_short (short=?)")
	wantIndex(t, s, query{sql: shortTaken, args: []any{"k7f2", "T"}}, "INDEX threads_short (short=?)")
	wantIndex(t, s, threadQuery(store.ThreadFilter{Bundle: dag.Sum(nil),
		Statuses: []store.Status{store.Running, store.Blocked}}),
		"INDEX threads_bundle (bundle=? AND status=?)")
}

// wantIndex checks that s uses an index for q.
func wantIndex(t *testing.T, s *Store, q query, index string) {
	t.Helper()
	var plan string
	err := s.read(t.Context(), func(c *sqlite.Conn) error {
		return each(c, "EXPLAIN QUERY PLAN "+q.sql, func(r *row) {
			r.int()
			r.int()
			r.int()
			plan += r.text() + "\n"
		}, q.args...)
	})
	if err != nil || !strings.Contains(plan, index) {
		t.Errorf("%v, the plan is\n%swant %s", err, plan, index)
	}
}
