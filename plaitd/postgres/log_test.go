package postgres

import (
	"bytes"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/store/sqlite"
	"github.com/plait-run/plait/internal/testing/mem"
	"github.com/plait-run/plait/internal/testing/soak"
	"github.com/plait-run/plait/internal/testing/storetest"
	"github.com/plait-run/plait/plaitd/pgtest"
)

// raw returns a connection past the store.
func raw(t *testing.T, at string) *pgx.Conn {
	t.Helper()
	c, err := connect(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(context.Background()) })
	return c
}

func checkLog(t *testing.T, s store.Store) {
	t.Helper()
	if err := storetest.CheckLog(t.Context(), s); err != nil {
		t.Fatal(err)
	}
}

// older is how schema 3 called plait.commit.
type older struct {
	sql  string
	made int
}

func newOlder() *older {
	args, _ := new(group).args(nil, false)
	var params []string
	for i := range len(args) - len(newParams) {
		params = append(params, fmt.Sprintf("$%d", i+1))
	}
	return &older{sql: callCommit + strings.Join(params, ",") + ")"}
}

// newParams are the parameters that plait.commit has got since, counted from 0.
var newParams = []int{56, 57, 58, 59, 60, 61}

// commit commits batches as a group.
func (o *older) commit(t *testing.T, c *pgx.Conn, batches ...store.Batch) {
	t.Helper()
	var changes []*change
	for _, b := range batches {
		changes = append(changes, ready(t, b))
	}
	o.made++
	all, err := groupOf(changes).args(fmt.Appendf(nil, "older %p %d", o, o.made), false)
	if err != nil {
		t.Fatal(err)
	}
	var args []any
	for i, a := range all {
		if !slices.Contains(newParams, i) {
			args = append(args, a)
		}
	}
	var results []string
	var pos int64
	if err := c.QueryRow(t.Context(), o.sql, args...).Scan(&results, &pos); err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if r != "" {
			t.Fatal(r)
		}
	}
}

func filing(tasks ...string) (b store.Batch) {
	for _, task := range tasks {
		b.Events = append(b.Events, store.Event{Type: "x", Task: task, Thread: "t", TS: 7, Payload: []byte("{}")})
	}
	return b
}

// TestOlderClients has processes that do not know of the log commit beside those that do.
func TestOlderClients(t *testing.T) {
	t.Parallel()
	at := migrated(t)
	s := open(t, Config{URL: at})
	var wg sync.WaitGroup
	for i := range 3 {
		c := raw(t, at)
		wg.Go(func() {
			o := newOlder()
			for n := range 20 {
				o.commit(t, c, filing("A", fmt.Sprint(i)), filing("B", "A"), filing(fmt.Sprint(n)))
			}
		})
		wg.Go(func() {
			for n := range 40 {
				b, _ := begin(fmt.Sprintf("T%d.%d", i, n))
				if err := s.Commit(t.Context(), b); err != nil {
					t.Error(err)
				}
				if err := s.Commit(t.Context(), filing("A", "A", fmt.Sprint(n))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	checkLog(t, s)
	events, err := s.Events(t.Context(), 0, store.EventFilter{Types: []string{"begun"}})
	if err != nil || len(events) != 120 || events[0].Proof == nil {
		t.Errorf("%d events, %v", len(events), err)
	}
}

// TestLogOfGroup has refused batches in a full group, of which one takes a task away.
func TestLogOfGroup(t *testing.T) {
	t.Parallel()
	s := open(t, Config{URL: migrated(t)})
	a, _ := begin("A")
	if err := s.Commit(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	var changes []*change
	for i := range maxGroup {
		b := filing("A", fmt.Sprint(i%7), "A")
		switch i {
		case 5, 30, maxGroup - 1: // exists
			b.Threads = a.Threads
		case 40:
			b.Remove = []string{"3"}
		case 41:
			b.Remove, b.Counts = []string{"A"}, []store.Count{{Task: "A", Name: "n", Add: 2, Most: 1}}
		}
		changes = append(changes, ready(t, b))
	}
	results, err := s.commit(changes)
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	for _, r := range results {
		if r != "" {
			refused++
		}
	}
	checkLog(t, s)
	log, err := s.Log(t.Context())
	if want := int64(1 + 3*(maxGroup-4)); err != nil || refused != 4 || log.Tree.Size() != want {
		t.Errorf("%d refused, size %d, want %d: %v", refused, log.Tree.Size(), want, err)
	}
}

// TestLogOfProcesses has several processes add to a log.
func TestLogOfProcesses(t *testing.T) {
	t.Parallel()
	at := migrated(t)
	processes(t, at, 3, 12)(300 * time.Millisecond)
	s := open(t, Config{URL: at})
	checkLog(t, s)
	if log, err := s.Log(t.Context()); err != nil || log.Tree.Size() < 12 {
		t.Errorf("size %d, %v", log.Tree.Size(), err)
	}
}

// TestLogOfOlder migrates a record that has events and a hole, while older processes commit.
func TestLogOfOlder(t *testing.T) {
	t.Parallel()
	at := pgtest.Shared(t).Database(t)
	c, o := raw(t, at), newOlder()
	first := append([]string{"CREATE SCHEMA plait; CREATE TABLE plait.meta (version int NOT NULL);" +
		" INSERT INTO plait.meta VALUES (3)"}, migrations[:logVersion-1]...)
	for _, q := range first {
		if err := pgx.BeginFunc(t.Context(), c, func(tx pgx.Tx) error { return script(t.Context(), tx, q) }); err != nil {
			t.Fatal(err)
		}
	}
	for range 70 {
		o.commit(t, c, filing("A", "B", "", "B"), filing("C"))
	}
	o.commit(t, c, store.Batch{Remove: []string{"B"}})
	o.commit(t, c, filing("A", "gone"))
	o.commit(t, c, store.Batch{Remove: []string{"gone"}})
	cfg := Config{URL: at}
	n, err := Unhashed(t.Context(), cfg)
	if want := int64(70*3 + 1); err != nil || n != want {
		t.Errorf("%d events would be hashed, not %d: %v", n, want, err)
	}

	// A commit of an older process that waits for its turn after the migration goes on as it began.
	if _, err := c.Exec(t.Context(), "SELECT pg_advisory_lock($1)", int64(lockKey)); err != nil {
		t.Fatal(err)
	}
	queued := func(want int64) {
		const q = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND database =" +
			" (SELECT oid FROM pg_database WHERE datname = current_database())"
		for n := int64(0); n < want; time.Sleep(5 * time.Millisecond) {
			if err := c.QueryRow(t.Context(), q).Scan(&n); err != nil {
				t.Fatal(err)
			}
		}
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, _, err := Migrate(t.Context(), cfg); err != nil {
			t.Error(err)
		}
	})
	queued(1)
	late, lateConn := newOlder(), raw(t, at)
	wg.Go(func() { late.commit(t, lateConn, filing("late", "A")) })
	queued(2)
	if _, err := c.Exec(t.Context(), "SELECT pg_advisory_unlock($1)", int64(lockKey)); err != nil {
		t.Fatal(err)
	}
	wg.Wait()

	s := open(t, cfg)
	checkLog(t, s)
	log, err := s.Log(t.Context())
	if err != nil || log.Since != 352 || log.Tree.Size() != 354 || len(log.Origin) != 26 {
		t.Errorf("%+v, %v", log.Since, err)
	}
	entries, err := s.Entries(t.Context(), 0, 0)
	if err != nil || entries[1].Hash() != store.LostLeaf() || entries[351].Hash() != store.LostLeaf() {
		t.Errorf("what was removed has another leaf: %v", err)
	}
	if n, err := Unhashed(t.Context(), cfg); err != nil || n != 0 {
		t.Errorf("%d events are still to be hashed, %v", n, err)
	}

	// What such a commit files after the migration has ended is added by the next one, also if it is taken away.
	for _, q := range []string{
		"UPDATE plait.counters SET value = value + 1 WHERE name = 'pos'",
		"INSERT INTO plait.tasks (task, seq) VALUES ('D', 1)",
		"INSERT INTO plait.events SELECT value, 1, 0, 'x', 'D', '', '', '', NULL FROM plait.counters WHERE name = 'pos'",
	} {
		if _, err := c.Exec(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := Unhashed(t.Context(), cfg); err != nil || n != 1 {
		t.Errorf("%d events are to be hashed, %v", n, err)
	}
	b := filing("E")
	b.Remove = []string{"D"}
	if err := s.Commit(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	checkLog(t, s)
	if lines, err := s.Check(t.Context()); err != nil || len(lines) > 0 {
		t.Error(lines, err)
	}
}

// TestLogRestored restores a dump: it is the same log, and goes on.
func TestLogRestored(t *testing.T) {
	t.Parallel()
	server := pgtest.Shared(t)
	at := migrated(t)
	s := open(t, Config{URL: at})
	for _, b := range []store.Batch{filing("A", "B", "A"), {Remove: []string{"A"}}, filing("A", "B")} {
		if err := s.Commit(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	was, err := s.Log(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	name := func(at string) string {
		u, err := url.Parse(at)
		if err != nil {
			t.Fatal(err)
		}
		u.User = url.User(u.User.Username())
		return u.String()
	}
	copied := server.Database(t)
	data := server.Tool(t, nil, "pg_dump", "--format=custom", "--schema=plait", name(at))
	server.Tool(t, bytes.NewReader(data), "pg_restore", "--exit-on-error", "--single-transaction",
		"--dbname="+name(copied))
	r := open(t, Config{URL: copied})
	log, err := r.Log(t.Context())
	if err != nil || log != was {
		t.Errorf("the log of the copy is %+v, was %+v: %v", log, was, err)
	}
	if err := r.Commit(t.Context(), filing("A")); err != nil {
		t.Fatal(err)
	}
	checkLog(t, r)
	checkLog(t, s)
}

// TestSameLeaves applies the same histories to all stores: they have the same entries, and what Postgres computes of
// one is what package store computes with the secret of its task.
func TestSameLeaves(t *testing.T) {
	soak.Checks(t, 25)
	t.Parallel()
	at := migrated(t)
	c := raw(t, at)
	rapid.Check(t, func(rt *rapid.T) {
		lite, err := sqlite.Open(t.Context(), sqlite.Config{Dir: t.TempDir()})
		if err != nil {
			rt.Fatal(err)
		}
		defer lite.Close()
		if _, err := c.Exec(t.Context(), "DELETE FROM plait.events; DELETE FROM plait.erased; DELETE FROM plait.tasks;"+
			"UPDATE plait.counters SET value = 0, log = CASE name WHEN 'pos' THEN int8send(0) END"); err != nil {
			rt.Fatal(err)
		}
		pg, err := Open(t.Context(), Config{URL: at})
		if err != nil {
			rt.Fatal(err)
		}
		defer pg.Close()
		all := []store.Store{mem.New(mem.Config{}), lite, pg}
		text := rapid.SampledFrom([]string{"", "A", "B", "é", "日本 \\ '\"", strings.Repeat("x", 300)})
		bytes := rapid.SliceOfN(rapid.Byte(), 0, 300)
		last := int64(0)
		for range rapid.IntRange(1, 8).Draw(rt, "batches") {
			var b store.Batch
			for range rapid.IntRange(1, 6).Draw(rt, "events") {
				e := store.Event{TS: rapid.Int64().Draw(rt, "ts"), Type: text.Draw(rt, "type"), Task: text.Draw(rt, "task"),
					Thread: text.Draw(rt, "thread"), Instance: text.Draw(rt, "instance"), Attempt: text.Draw(rt, "attempt")}
				if rapid.Bool().Draw(rt, "with payload") {
					e.Payload = bytes.Draw(rt, "payload")
				}
				if rapid.Bool().Draw(rt, "with proof") {
					e.Proof = bytes.Draw(rt, "proof")
				}
				b.Events = append(b.Events, e)
			}
			switch rapid.IntRange(0, 3).Draw(rt, "also") {
			case 0:
				b.Remove = []string{text.Draw(rt, "removed")}
			case 1:
				if last > 0 {
					b.Redact.Events = []store.Event{{Pos: rapid.Int64Range(1, last).Draw(rt, "redacted"), Payload: []byte("*")}}
				}
			}
			last += int64(len(b.Events))
			leaves := map[store.Store][]store.LogEntry{}
			for _, s := range all {
				if leaves[s], err = s.Entries(t.Context(), 0, 0); err != nil {
					rt.Fatal(err)
				}
				if err := s.Commit(t.Context(), b); err != nil {
					rt.Fatal(err)
				}
				now, err := s.Entries(t.Context(), 0, 0)
				if err != nil {
					rt.Fatal(err)
				}
				for i, e := range leaves[s] { // computed here; what is kept was computed by the store
					if now[i].Hash() != e.Hash() {
						rt.Fatalf("%T: the leaf of %+v has become %s", s, e, now[i].Hash())
					}
				}
			}
		}
		var want []string
		for i, s := range all {
			if err := storetest.CheckLog(t.Context(), s); err != nil {
				rt.Fatalf("%T: %v", s, err)
			}
			entries, err := s.Entries(t.Context(), 0, 0)
			if err != nil {
				rt.Fatal(err)
			}
			var got []string
			for _, e := range entries {
				switch {
				case e.Event == nil:
					got = append(got, fmt.Sprint(e.Pos, " is gone"))
				case !e.Leaf.IsZero():
					got = append(got, fmt.Sprintf("%x was redacted", e.Event.Entry()))
				default:
					got = append(got, fmt.Sprintf("%x", e.Event.Entry()))
				}
			}
			if i == 0 {
				want = got
			} else if d := cmp.Diff(want, got); d != "" {
				rt.Fatalf("%T differs from %T:\n%s", s, all[0], d)
			}
		}
	})
}
