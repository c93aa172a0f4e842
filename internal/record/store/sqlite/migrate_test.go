package sqlite

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
)

// A record with the first schema is brought up to date when it is opened, and
// nothing in it is lost.
func TestMigration(t *testing.T) {
	dir := newOld(t, t.TempDir())
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

// newOld returns a directory with a store of the first schema, which has one attempt.
func newOld(t *testing.T, dir string) string {
	t.Helper()
	c, err := sqlite.OpenConn(filepath.Join(dir, "plait.db"), sqlite.OpenReadWrite, sqlite.OpenCreate, sqlite.OpenWAL)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, script := range []string{
		"PRAGMA application_id = 1886151017; PRAGMA user_version = 1;" + schema1,
		`INSERT INTO attempts (id, thread, role, n, agent, instance, status, session, pid, pidstart, tag, started, ended,
			input, cached, output, reasoning, cost)
		 VALUES ('T.1', 'T', 'r', 1, 'a', 'i', 'done', 's', 2, 3, 'g', 4, 5, 6, 7, 8, 9, 10)`,
	} {
		if err := sqlitex.ExecuteScript(c, script, nil); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// Before an older store is upgraded its person is told, and the database is kept as it was: private, complete, and a
// way back.
func TestUpgradeKeepsACopy(t *testing.T) {
	dir := newOld(t, t.TempDir())
	var told []Upgrade
	at := time.Date(2026, 11, 28, 12, 30, 0, 0, time.UTC)
	cfg := Config{Dir: dir, Now: func() time.Time { return at }, Upgrading: func(u Upgrade) {
		if _, err := os.Stat(u.Copy); err == nil {
			t.Error("the person is told after it was done")
		}
		told = append(told, u)
	}}
	for range 2 { // the second time it is no longer older
		s, err := Open(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		s.Close()
	}
	if len(told) != 1 || told[0].From != 1 || told[0].To != len(migrations) {
		t.Fatalf("the person was told %v", told)
	}
	kept := filepath.Join(dir, "plait-schema1-20261128T123000Z.db")
	if told[0].Copy != kept || !strings.Contains(told[0].String(), kept) {
		t.Errorf("the copy is called %s", told[0])
	}
	if info, err := os.Stat(kept); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the copy: %v, %v", info, err)
	}
	back := t.TempDir()
	if err := os.Rename(kept, filepath.Join(back, "plait.db")); err != nil {
		t.Fatal(err)
	}
	c, err := sqlite.OpenConn(filepath.Join(back, "plait.db"), sqlite.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	v, err := version(c)
	if n, counted := number(c, "SELECT count(*) FROM attempts"); err != nil || counted != nil || v != 1 || n != 1 {
		t.Errorf("the copy has schema %d and %d attempts; %v, %v", v, n, err, counted)
	}
	c.Close()
	s, err := Open(t.Context(), Config{Dir: back})
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
}

// A store is not upgraded where a copy does not fit.
func TestUpgradeNeedsRoom(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", 0, "mode=700,size=2m"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("mount a small disk: %v", err)
		}
		t.Skipf("NOT TESTED: mounting a small disk takes root: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	newOld(t, dir)
	fill := filepath.Join(dir, "fill")
	var disk unix.Statfs_t
	if err := unix.Statfs(dir, &disk); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(fill, make([]byte, (disk.Bavail-8)*uint64(disk.Bsize)), 0o600); err != nil {
		t.Fatal(err)
	}
	refused := func(says string) {
		t.Helper()
		if s, err := Open(t.Context(), Config{Dir: dir}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %s", err, says)
			if err == nil {
				s.Close()
			}
		}
		if copies, err := filepath.Glob(filepath.Join(dir, "plait-schema*")); err != nil || len(copies) > 0 {
			t.Errorf("left are %v, %v", copies, err)
		}
	}
	refused("MB are free; nothing was changed")
	if err := os.Remove(fill); err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
}
