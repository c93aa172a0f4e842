package river_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/plait-run/plait/internal/dispatch"
	"github.com/plait-run/plait/internal/dispatch/dispatchtest"
	"github.com/plait-run/plait/plaitd/pgtest"
	"github.com/plait-run/plait/plaitd/river"
)

// A cluster is a queue in a database of its own.
type cluster struct{ cfg river.Config }

func newCluster(t *testing.T, prefer time.Duration) cluster {
	t.Helper()
	c := cluster{river.Config{URL: pgtest.Shared(t).Database(t), Prefer: prefer, Again: 100 * time.Millisecond}}
	if changed, err := river.Migrate(t.Context(), c.cfg); err != nil || !changed {
		t.Fatalf("migrate: changed %v, %v", changed, err)
	}
	return c
}

func (c cluster) Engine(t testing.TB) dispatch.Engine {
	e, err := river.Open(context.WithoutCancel(t.Context()), c.cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// Wipe empties all tables.
func (c cluster) Wipe(t testing.TB) {
	ctx := t.Context()
	conn, err := pgx.Connect(ctx, c.cfg.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, `TRUNCATE plait_river.river_job, plait_river.river_leader, plait_river.river_queue`); err != nil {
		t.Fatal(err)
	}
}

func TestEngine(t *testing.T) {
	dispatchtest.Run(t, func(t *testing.T, prefer time.Duration) dispatchtest.Cluster { return newCluster(t, prefer) })
}

// TestMigrate brings the tables up to date once, and says when they are missing.
func TestMigrate(t *testing.T) {
	c := newCluster(t, 0)
	if changed, err := river.Migrate(t.Context(), c.cfg); err != nil || changed {
		t.Errorf("the second time: changed %v, %v", changed, err)
	}
	if err := river.Outdated(t.Context(), c.cfg); err != nil {
		t.Errorf("up to date: %v", err)
	}
	bare := c.cfg
	bare.Schema = "nothing"
	if err := river.Outdated(t.Context(), bare); err == nil {
		t.Error("no tables, and it says nothing")
	}
	e, err := river.Open(t.Context(), bare)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if err := e.Serve(t.Context(), dispatch.Host{ID: "a"}, nil); err == nil {
		t.Error("it serves without tables")
	}
}
