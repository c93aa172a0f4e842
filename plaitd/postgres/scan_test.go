package postgres

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
)

// TestScanLongBodies checks that Scan visits bodies that do not fit into the blocks of their rows.
func TestScanLongBodies(t *testing.T) {
	s := open(t, Config{URL: migrated(t)})
	chance := rand.NewChaCha8([32]byte{})
	want := map[dag.Hash]bool{}
	var b store.Batch
	for i := range 300 {
		data := make([]byte, 100)
		if i%3 == 0 {
			data = make([]byte, 50_000) // as many as two statements read
		}
		chance.Read(data)
		o := store.Object{Hash: dag.Sum(data), Kind: store.Blob, Data: data}
		b.Objects, want[o.Hash] = append(b.Objects, o), true
	}
	if err := s.Commit(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	visited := make(chan dag.Hash, 2*len(want))
	if err := s.Scan(t.Context(), func(o store.Object) error { visited <- o.Hash; return nil }); err != nil {
		t.Fatal(err)
	}
	close(visited)
	for h := range visited {
		if !want[h] {
			t.Errorf("object %s was visited twice, or is not there", h.Short())
		}
		delete(want, h)
	}
	if len(want) > 0 {
		t.Errorf("%d objects were not visited", len(want))
	}
}

// TestWholeTablesTakeLong checks that reading a whole table may take longer than other statements.
func TestWholeTablesTakeLong(t *testing.T) {
	url := migrated(t)
	s := open(t, Config{URL: url, Try: time.Second, Patience: 3 * time.Second})
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	const lock = "BEGIN; LOCK TABLE plait.attempts IN ACCESS EXCLUSIVE MODE"
	if _, err := c.Exec(t.Context(), lock); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Attempts(t.Context(), store.AttemptFilter{Thread: "t"}); err == nil {
		t.Error("some attempts were read from a locked table")
	}
	read := make(chan error, 1)
	go func() {
		_, err := s.Attempts(t.Context(), store.AttemptFilter{})
		read <- err
	}()
	select {
	case err := <-read:
		t.Errorf("all attempts were read from a locked table: %v", err)
	case <-time.After(4 * time.Second):
	}
	if _, err := c.Exec(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	if err := <-read; err != nil {
		t.Error(err)
	}
}
