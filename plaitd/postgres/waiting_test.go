package postgres

import (
	"context"
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/plaitd/pgtest"
)

// TestWaiting checks what plait.waiting counts, read by a role that may read nothing else.
func TestWaiting(t *testing.T) {
	owner, ctx := migrated(t), t.Context()
	s := open(t, Config{URL: owner})
	now := s.Now()
	put := func(id, root string, status store.Status, options, parent string, age time.Duration) {
		t.Helper()
		row := store.Thread{
			ID: id, Task: root, Root: root, Status: status, Options: json.RawMessage(options),
			UpdatedAt: now.Add(-age).UnixMilli(),
		}
		if wait := map[string]time.Duration{"later": time.Minute, "again": -time.Minute}[id]; wait != 0 {
			row.Reason = &store.Reason{Kind: store.ReasonWorker, ResetAt: now.Add(wait).UnixMilli()}
		}
		if parent != "" {
			row.Parent = &store.Parent{Thread: parent}
		}
		if err := s.Commit(ctx, store.Batch{Threads: []store.ThreadChange{{Row: row}}}); err != nil {
			t.Fatal(err)
		}
	}
	team, gpu := `{"on":"team"}`, `{"on":"team","needs":["linux","gpu"]}`
	put("new", "new", store.Pending, team, "", time.Hour)
	put("old", "old", store.Running, team, "", 2*time.Hour)
	put("again", "again", store.Running, team, "", time.Minute)
	put("later", "later", store.Running, team, "", 9*time.Hour)
	put("blocked", "blocked", store.Blocked, team, "", 9*time.Hour)
	put("done", "done", store.Completed, team, "", 9*time.Hour)
	put("alone", "alone", store.Running, `{}`, "", 9*time.Hour)
	put("without", "without", store.Running, "", "", 9*time.Hour)
	put("driven", "driven", store.Running, team, "", 9*time.Hour)
	put("fork", "fork", store.Running, gpu, "", 9*time.Hour)
	put("path1", "fork", store.Running, "", "fork", 3*time.Hour)
	put("path2", "fork", store.Running, "", "fork", time.Hour)
	put("path3", "fork", store.Pending, "", "fork", 9*time.Hour)
	put("path4", "fork", store.Completed, "", "fork", 9*time.Hour)
	lease, err := s.Acquire(ctx, store.ThreadLease("driven"))
	if err != nil {
		t.Fatal(err)
	}
	freed, err := s.Acquire(ctx, store.ThreadLease("old"))
	if err != nil {
		t.Fatal(err)
	}
	if err := freed.Release(); err != nil {
		t.Fatal(err)
	}

	u, err := url.Parse(owner)
	if err != nil {
		t.Fatal(err)
	}
	role := "scaler_" + strings.ReplaceAll(strings.TrimPrefix(u.Path, "/"), "-", "_")
	if err := pgtest.Shared(t).Admin(ctx, "CREATE ROLE "+role+" LOGIN PASSWORD 'secret'"); err != nil {
		t.Fatal(err)
	}
	for _, may := range []string{"USAGE ON SCHEMA plait", "SELECT ON plait.waiting"} {
		if _, err := s.writers.Exec(ctx, "GRANT "+may+" TO "+role); err != nil {
			t.Fatal(err)
		}
	}
	u.User = url.UserPassword(role, "secret")
	scaler, err := connect(ctx, u.String())
	if err != nil {
		t.Fatal(err)
	}
	defer scaler.Close(context.WithoutCancel(ctx))
	type waiting struct {
		Label string
		N     int64
		Hours int64
	}
	look := func(want ...waiting) {
		t.Helper()
		rows, err := scaler.Query(ctx, "SELECT label, n, oldest / 3600 FROM plait.waiting ORDER BY label")
		if err != nil {
			t.Fatal(err)
		}
		got, err := pgx.CollectRows(rows, pgx.RowToStructByPos[waiting])
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("what waits (-want +got):\n%s", diff)
		}
	}
	look(waiting{"", 3, 2}, waiting{"gpu,linux", 3, 9})
	for labels, want := range map[string]int64{"{}": 3, "{gpu}": 3, "{big,gpu,linux}": 6} { // as docs/workers.md asks
		const q = "SELECT coalesce(sum(n), 0) FROM plait.waiting WHERE string_to_array(label, ',') <@ $1"
		var n int64
		if err := scaler.QueryRow(ctx, q, labels).Scan(&n); err != nil || n != want {
			t.Errorf("for a worker with %s: %d, %v, want %d", labels, n, err, want)
		}
	}
	if err := lease.Release(); err != nil {
		t.Fatal(err)
	}
	look(waiting{"", 4, 9}, waiting{"gpu,linux", 3, 9})
}
