package postgres_test

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/testing/soak"
	"github.com/plait-run/plait/internal/testing/storetest"
	"github.com/plait-run/plait/plaitd/pgtest"
	"github.com/plait-run/plait/plaitd/postgres"
	"github.com/plait-run/plait/plaitd/s3"
	"github.com/plait-run/plait/plaitd/s3/s3test"
)

// wipe empties a database. Creating one takes longer.
func wipe(t *testing.T, url string) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	const all = "SELECT string_agg(format('DELETE FROM plait.%I', relname), ';') FROM pg_stat_user_tables" +
		" WHERE schemaname = 'plait' AND relname NOT IN ('meta', 'counters')"
	var q string
	if err := c.QueryRow(t.Context(), all).Scan(&q); err != nil {
		t.Fatal(err)
	}
	q += "; UPDATE plait.counters SET value = 0, log = CASE name WHEN 'pos' THEN int8send(0) END"
	if _, err := c.PgConn().Exec(t.Context(), q).ReadAll(); err != nil {
		t.Fatal(err)
	}
}

// suite runs the store test suite in one database, with a bucket for each test directory.
func suite(t *testing.T, bucket func(t *testing.T, dir string) postgres.Bucket) {
	url := pgtest.Shared(t).Database(t)
	if _, _, err := postgres.Migrate(t.Context(), postgres.Config{URL: url}); err != nil {
		t.Fatal(err)
	}
	last := ""
	storetest.Run(t, func(t *testing.T, dir string) store.Store {
		if dir != last { // the next test
			wipe(t, url)
			last = dir
		}
		s, err := postgres.Open(t.Context(), postgres.Config{URL: url, Bucket: bucket(t, dir)})
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}

func TestStore(t *testing.T) {
	drawn := soak.Checks(t, 25)
	t.Parallel()
	suite(t, func(*testing.T, string) postgres.Bucket { return nil })
	soak.Figure(t, "%d sequences of operations on Postgres do what the model does", drawn)
}

func TestStoreWithBucket(t *testing.T) {
	drawn := soak.Checks(t, 25)
	t.Parallel()
	s3test.Login()
	server := s3test.Start(t)
	suite(t, func(t *testing.T, dir string) postgres.Bucket {
		b, err := s3.Open(t.Context(), server.Config(dir))
		if err != nil {
			t.Fatal(err)
		}
		return b
	})
	if len(server.Keys()) == 0 {
		t.Error("the suite left nothing in the bucket: has it been there?")
	}
	soak.Figure(t, "%d sequences of operations on Postgres with a bucket do what the model does", drawn)
}

// TestProbeIsLeft checks that an object with which somebody's doctor tried the bucket, and which it could not delete,
// is no problem of the record.
func TestProbeIsLeft(t *testing.T) {
	t.Parallel()
	s3test.Login()
	b, err := s3.Open(t.Context(), s3test.Start(t).Config("probed"))
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Put(t.Context(), postgres.Probes+"1", strings.NewReader("left"), 4); err != nil {
		t.Fatal(err)
	}
	url := pgtest.Shared(t).Database(t)
	if _, _, err := postgres.Migrate(t.Context(), postgres.Config{URL: url}); err != nil {
		t.Fatal(err)
	}
	s, err := postgres.Open(t.Context(), postgres.Config{URL: url, Bucket: b})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if lines, err := s.Check(t.Context()); err != nil || len(lines) > 0 {
		t.Errorf("check: %q, %v", lines, err)
	}
}

// docs/format.md says of each column what proves it, or that nothing does.
func TestColumnsAreListed(t *testing.T) {
	t.Parallel()
	url := pgtest.Shared(t).Database(t)
	if _, _, err := postgres.Migrate(t.Context(), postgres.Config{URL: url}); err != nil {
		t.Fatal(err)
	}
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	rows, err := c.Query(t.Context(), "SELECT table_name, column_name FROM information_schema.columns"+
		" JOIN information_schema.tables USING (table_schema, table_name) WHERE table_schema = 'plait'"+
		" AND table_type = 'BASE TABLE'")
	if err != nil {
		t.Fatal(err)
	}
	listed := storetest.Columns(t, "../../docs/format.md", "In Postgres")
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[storetest.Column])
	if err != nil || len(all) == 0 {
		t.Fatalf("%d columns, %v", len(all), err)
	}
	for _, c := range all {
		if !listed[c] {
			t.Errorf("column %s of %s is in neither list", c.Name, c.Table)
		}
	}
}
