package postgres

import (
	"context"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/plait-run/plait/internal/record/merkle"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/testing/verifytest"
	"github.com/plait-run/plait/plaitd/pgtest"
)

// TestForgeries forges a record in Postgres.
func TestForgeries(t *testing.T) {
	t.Parallel()
	server := pgtest.Shared(t)
	verifytest.Forgeries(t, database{server, migratedOn(t, server)})
}

// A database has a record, and nobody is connected to it.
type database struct {
	server *pgtest.Server
	at     string
}

func (d database) Open(t *testing.T) store.Store {
	t.Helper()
	s, err := Open(t.Context(), Config{URL: d.at})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (d database) Copy(t *testing.T) verifytest.Storage {
	t.Helper()
	to := d.server.Database(t)
	name := func(at string) string {
		u, err := url.Parse(at)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimPrefix(u.Path, "/")
	}
	err := d.server.Admin(t.Context(), "DROP DATABASE "+name(to),
		"CREATE DATABASE "+name(to)+" TEMPLATE "+name(d.at)+" STRATEGY file_copy")
	if err != nil {
		t.Fatal(err)
	}
	return database{d.server, to}
}

func (d database) Rewrite(t *testing.T, entries []store.LogEntry, tree merkle.Tree) {
	t.Helper()
	c, err := connect(t.Context(), d.at)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	b := &pgx.Batch{}
	b.Queue("DELETE FROM plait.erased")
	b.Queue("DELETE FROM plait.events")
	for i := range entries {
		e := entries[i].Event
		b.Queue("INSERT INTO plait.events (pos, seq, ts, type, task, thread, instance, attempt, payload, proof)"+
			" VALUES ($1,$2,$3,$4,$5,$6,$7,$8,$9,$10)", entries[i].Pos, e.Seq, e.TS, e.Type, e.Task, e.Thread, e.Instance,
			e.Attempt, []byte(e.Payload), []byte(e.Proof))
	}
	b.Queue("UPDATE plait.tasks t SET seq = (SELECT max(seq) FROM plait.events e WHERE e.task = t.task)")
	b.Queue("UPDATE plait.counters SET value = 0 WHERE name = 'floor'")
	b.Queue("UPDATE plait.counters SET value = $1, log = $2 WHERE name = 'pos'", len(entries), tree.Bytes())
	if err := c.SendBatch(t.Context(), b).Close(); err != nil {
		t.Fatal(err)
	}
}
