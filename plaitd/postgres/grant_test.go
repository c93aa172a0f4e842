package postgres

import (
	"bytes"
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/plaitd/pgtest"
)

// insufficientPrivilege is Postgres's code for a missing privilege.
const insufficientPrivilege = "42501"

// TestWorkersRole checks that the role of a worker can drive tasks, and can take nothing back.
func TestWorkersRole(t *testing.T) {
	owner := migrated(t)
	u, err := url.Parse(owner)
	if err != nil {
		t.Fatal(err)
	}
	role := "worker_" + strings.ReplaceAll(strings.TrimPrefix(u.Path, "/"), "-", "_")
	u.User = url.UserPassword(role, "secret")
	if err := GrantWorker(t.Context(), Config{URL: owner}, role); err == nil {
		t.Error("a role that is not there was granted something")
	}
	server := pgtest.Shared(t)
	if err := server.Admin(t.Context(), "CREATE ROLE "+role+" LOGIN PASSWORD 'secret'"); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), Config{URL: u.String()}); err == nil {
		t.Fatal("without a grant the record was opened")
	}
	for range 2 {
		if err := GrantWorker(t.Context(), Config{URL: owner}, role); err != nil {
			t.Fatal(err)
		}
	}

	s, ctx := open(t, Config{URL: u.String()}), t.Context()
	lease, err := s.Acquire(ctx, "task")
	if err != nil {
		t.Fatal(err)
	}
	object := func(text string) store.Object { return store.Object{Hash: dag.Sum([]byte(text)), Data: []byte(text)} }
	row := store.Thread{ID: "task", Task: "task", Root: "task", Status: store.Running}
	if err := s.Commit(ctx, store.Batch{
		Under: []store.Fence{lease.Fence()}, Objects: []store.Object{object("one")},
		Threads: []store.ThreadChange{{Row: row}}, Counts: []store.Count{{Task: "task", Name: "attempts", Add: 1, Most: 2}},
		Events: []store.Event{{Type: "x", Task: "task"}},
	}); err != nil {
		t.Fatalf("a batch: %v", err)
	}
	was := row.State()
	row.Status = store.Completed
	if err := s.Commit(ctx, store.Batch{Under: []store.Fence{lease.Fence()}, Objects: []store.Object{object("one")},
		Threads: []store.ThreadChange{{From: was, Row: row}}}); err != nil {
		t.Errorf("a change: %v", err)
	}
	for _, size := range []int{10, 3 << 20} {
		if _, _, err := s.Stage(ctx, "pin", bytes.NewReader(make([]byte, size))); err != nil {
			t.Errorf("stage %d bytes: %v", size, err)
		}
	}
	if err := lease.Release(); err != nil {
		t.Errorf("release: %v", err)
	}
	all := func(store.View) ([]dag.Hash, error) { return []dag.Hash{dag.Sum([]byte("one"))}, nil }
	if _, err := s.Sweep(ctx, 0, all); !refusedTo(err) {
		t.Errorf("it swept: %v", err)
	}

	if _, err := s.readers.Exec(ctx, "SELECT label, n, oldest FROM plait.waiting"); err != nil {
		t.Errorf("what waits: %v", err)
	}

	for _, q := range []string{
		"DELETE FROM plait.events", "UPDATE plait.events SET payload = ''", "DELETE FROM plait.objects",
		"UPDATE plait.objects SET body = ''", "UPDATE plait.objects SET hash = ''", "UPDATE plait.objects SET loc = 'x'",
		"DELETE FROM plait.threads", "DELETE FROM plait.attempts", "DELETE FROM plait.gates", "DELETE FROM plait.chunks",
		"UPDATE plait.chunks SET data = ''", "DELETE FROM plait.tasks", "DELETE FROM plait.leases", "TRUNCATE plait.events",
		"UPDATE plait.tasks SET secret = ''", "INSERT INTO plait.erased VALUES (1, '')", "UPDATE plait.erased SET leaf = ''",
		"DELETE FROM plait.erased", "UPDATE plait.meta SET origin = ''",
		"UPDATE plait.meta SET version = 99", "INSERT INTO plait.flows VALUES ('x', '', '', '')", "DROP TABLE plait.events",
		"ALTER TABLE plait.events ADD COLUMN x int", "CREATE TABLE plait.mine (x int)", "DROP SCHEMA plait CASCADE",
		"CREATE OR REPLACE FUNCTION plait.millis() RETURNS bigint LANGUAGE sql AS 'SELECT 0::bigint'",
		"SELECT * FROM pg_authid",
		"COPY (SELECT 1) TO PROGRAM 'true'", "SELECT pg_read_file('/etc/passwd')", "CREATE ROLE another", "SET ROLE postgres",
		"CREATE TRIGGER x AFTER INSERT ON plait.gates EXECUTE FUNCTION f()",
	} {
		if _, err := s.readers.Exec(ctx, q); !refusedTo(err) {
			t.Errorf("%s: %v", q, err)
		}
	}
}

// refusedTo reports whether the server said that the role lacks a privilege.
func refusedTo(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (e.Code == insufficientPrivilege || strings.Contains(e.Message, "must be owner"))
}
