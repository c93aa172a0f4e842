package postgres

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
)

// TestOrphans checks that bytes being uploaded are kept while their process lives, and then removed.
func TestOrphans(t *testing.T) {
	url := migrated(t)
	s, dead := open(t, Config{URL: url}), open(t, Config{URL: url, Beat: time.Hour})
	ctx := t.Context()
	var locs []string
	for _, of := range []*Store{s, dead} {
		loc := of.place(dag.Sum([]byte("x")))
		for _, q := range []string{
			"INSERT INTO plait.uploads VALUES ($1, '" + of.me.id + "')", "INSERT INTO plait.chunks VALUES ($1, 0, 'x')",
		} {
			if _, err := s.readers.Exec(ctx, q, loc); err != nil {
				t.Fatal(err)
			}
		}
		locs = append(locs, loc)
	}
	left := func() (keys []string) {
		for k, err := range (chunks{s.reads}).List(ctx, "") {
			if err != nil {
				t.Fatal(err)
			}
			keys = append(keys, k.Key)
		}
		return keys
	}
	if err := s.Compact(ctx, -time.Minute); err != nil { // as if it were a minute later
		t.Fatal(err)
	}
	if n := len(left()); n != 2 {
		t.Errorf("%d of 2 uploads are left", n)
	}
	if _, err := s.readers.Exec(ctx, "DELETE FROM plait.handles WHERE id = $1", dead.me.id); err != nil { // as leave does
		t.Fatal(err)
	}
	if err := s.Compact(ctx, time.Hour); err != nil {
		t.Fatal(err)
	}
	if n := len(left()); n != 2 {
		t.Errorf("%d of 2 are left within the grace", n)
	}
	if err := s.Compact(ctx, -time.Minute); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(locs[:1], left()); d != "" {
		t.Error(d)
	}
	// The dead process's batch would name what is not there.
	c := ready(t, store.Batch{Objects: []store.Object{{Hash: dag.Sum([]byte("x"))}}})
	c.bodies, c.locs, c.sizes, c.ended = [][]byte{nil}, locs[1:], []int64{1}, locs[1:]
	if err := s.submit(ctx, c); !errors.Is(err, errGivenUp) {
		t.Errorf("an upload that was given up: %v", err)
	}
}

// TestChunkSizes puts more and fewer bytes than announced into the database.
func TestChunkSizes(t *testing.T) {
	b := chunks{open(t, Config{URL: migrated(t)}).reads}
	text := strings.Repeat("x", chunkSize+1)
	for _, announced := range []int{0, 1, chunkSize, len(text), len(text) + 1, 3 * chunkSize} {
		key := fmt.Sprintf("%s%d", chunkPrefix, announced)
		err := b.Put(t.Context(), key, strings.NewReader(text), int64(announced))
		if (err == nil) != (announced == len(text)) {
			t.Errorf("%d bytes announced as %d: %v", len(text), announced, err)
		}
	}
	r, err := b.Get(t.Context(), fmt.Sprintf("%s%d", chunkPrefix, len(text)))
	if err != nil {
		t.Fatal(err)
	}
	if data, err := io.ReadAll(r); err != nil || string(data) != text {
		t.Errorf("%d of %d bytes, %v", len(data), len(text), err)
	}
}

// TestInBucket checks that a record says whether it needs a bucket.
func TestInBucket(t *testing.T) {
	cfg := Config{URL: migrated(t)}
	s, ctx := open(t, cfg), t.Context()
	for _, x := range []struct {
		loc any
		is  bool
	}{{nil, false}, {chunkPrefix + "a/1", false}, {dag.Sum([]byte("cc")).String() + "/1-a", true}} {
		const q = "INSERT INTO plait.objects" +
			" SELECT sha256(convert_to(coalesce($1::text, ''), 'UTF8')), 0, 0, 0, NULL::bytea, $1::text"
		if _, err := s.writers.Exec(ctx, q, x.loc); err != nil {
			t.Fatal(err)
		}
		if is, err := InBucket(ctx, cfg); err != nil || is != x.is {
			t.Errorf("with an object in %v: %t, %v", x.loc, is, err)
		}
	}
}
