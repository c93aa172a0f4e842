package main

import (
	"bytes"
	"io"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/plait-run/plait/plaitd/pgtest"
	"github.com/plait-run/plait/plaitd/s3/s3test"
)

// large leaves an artifact that is too large for a row, and differs each time.
const large = `version: 1
name: large
roles:
  one: {description: makes, agent: {kind: command, command: [sh, -c, 'head -c 400000 /dev/urandom > $PLAIT_ARTIFACTS/big; echo made']}}
graph:
  $START: {new: {role: one, prompt: "{{ prompt }}"}}
  one: {done: {role: $END}}
`

// bucketEnv returns the environment by which a host finds a bucket below a prefix.
func bucketEnv(s *s3test.Server, prefix string) []string {
	return []string{
		"PLAIT_S3=" + s.Name(prefix), "AWS_ACCESS_KEY_ID=" + s3test.KeyID, "AWS_SECRET_ACCESS_KEY=" + s3test.Secret,
		"AWS_EC2_METADATA_DISABLED=true",
	}
}

// withoutPassword returns a database's URL as it may appear in arguments.
func withoutPassword(t *testing.T, text string) string {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.User(u.User.Username())
	return u.String()
}

// dump backs up the database as docs/plaitd.md says.
func dump(t *testing.T, s *pgtest.Server, db string) []byte {
	t.Helper()
	return s.Tool(t, nil, "pg_dump", "--format=custom", "--schema=plait", withoutPassword(t, db))
}

// restored restores a dump into a new database.
func restored(t *testing.T, s *pgtest.Server, data []byte) string {
	t.Helper()
	db := s.Database(t)
	s.Tool(t, bytes.NewReader(data), "pg_restore", "--exit-on-error", "--single-transaction",
		"--dbname="+withoutPassword(t, db))
	return db
}

// copied copies the keys of a bucket from one prefix to another, and returns how many there were.
func copied(t *testing.T, s *s3test.Server, from, to string) (n int) {
	t.Helper()
	a, b := s.Bucket(from), s.Bucket(to)
	for k, err := range a.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		r, err := a.Get(t.Context(), k.Key)
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if r.Close(); err != nil {
			t.Fatal(err)
		}
		if err := b.Put(t.Context(), k.Key, bytes.NewReader(data), int64(len(data))); err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}

// TestRestore backs up both halves of a record as docs/plaitd.md says, and restores them: both; the current database
// with an older bucket, where verify names what is missing; and an older database with the current bucket, which has
// more than it needs.
func TestRestore(t *testing.T) {
	t.Parallel()
	server, bucket := pgtest.Shared(t), s3test.Start(t)
	s3test.Login()
	db := server.Database(t)
	with := func(db, prefix string) *host {
		h := newHost(t, db)
		h.env = append(h.env, bucketEnv(bucket, prefix)...)
		h.write("large.yaml", large)
		return h
	}
	h := with(db, "now/")
	h.run(0, "migrate")
	task := func(h *host) string {
		id, _ := h.data(0, "run", "large.yaml", "-p", "go", "--unsafe-agents")["thread"].(string)
		return id
	}
	first := task(h)
	before := dump(t, server, db)
	kept := copied(t, bucket, "now/", "before/")
	second := task(h)
	now := dump(t, server, db)
	all := copied(t, bucket, "now/", "copy/")
	if kept == 0 || all <= kept {
		t.Fatalf("%d keys, then %d: nothing of the tasks lies in the bucket", kept, all)
	}
	heads := map[string]string{first: h.digest(first), second: h.digest(second)}

	t.Run("both", func(t *testing.T) {
		r := with(restored(t, server, now), "copy/")
		r.run(0, "verify")
		for id, want := range heads {
			if got := r.digest(id); got != want {
				t.Errorf("the outcome of %s is %s, was %s", id, got, want)
			}
		}
		if third := task(r); third == "" { // and work continues
			t.Error("no task")
		}
		r.run(0, "verify")
	})
	t.Run("an older bucket", func(t *testing.T) {
		r := with(restored(t, server, now), "before/")
		said := r.run(6, "verify")
		if n := strings.Count(said, "nothing is kept as "); n != all-kept {
			t.Errorf("%d keys are missing, and verify names %d:\n%s", all-kept, n, said)
		}
		r.run(0, "verify", first)
		r.run(6, "verify", second)
		if said := r.run(6, "gc", "--grace", "0"); !strings.Contains(said, "nothing was changed") {
			t.Errorf("gc beside what is missing says %s", said)
		}
		r.run(0, "show", second) // what is in rows can still be read
		r.run(0, "rm", second, "--yes")
		r.run(0, "gc", "--grace", "0")
		r.run(0, "verify")
		if got := r.digest(first); got != heads[first] {
			t.Errorf("the outcome of %s is %s, was %s", first, got, heads[first])
		}
	})
	t.Run("keys from versions", func(t *testing.T) {
		copied(t, bucket, "before/", "mended/")
		r := with(restored(t, server, now), "mended/")
		r.run(6, "verify")
		copied(t, bucket, "now/", "mended/") // what was missing is restored, under its own key
		r.run(0, "verify")
	})
	t.Run("an older database", func(t *testing.T) {
		copied(t, bucket, "now/", "more/")
		r := with(restored(t, server, before), "more/")
		r.run(0, "verify") // what no row names does no harm
		if got := r.digest(first); got != heads[first] {
			t.Errorf("the outcome of %s is %s, was %s", first, got, heads[first])
		}
		if said := r.run(3, "show", second); said == "" {
			t.Error("a task that is not there, and nothing is said")
		}
		r.run(0, "gc", "--grace", "0")
		var left []string
		for _, key := range bucket.Keys() {
			if name, ok := strings.CutPrefix(key, "more/"); ok {
				left = append(left, name)
			}
		}
		if len(left) != kept || slices.ContainsFunc(left, func(s string) bool { return s == "" }) {
			t.Errorf("%d keys are left of %d, named are %d", len(left), all, kept)
		}
		r.run(0, "verify")
	})
}
