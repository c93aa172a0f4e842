package sqlite

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
)

// TestObjectsThatMove checks that objects are what they were put as wherever their rows are: two handles on
// one store put, move and sweep alternately, and one of them may know less than the other.
func TestObjectsThatMove(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "home")
		ok(rt, err)
		now := time.UnixMilli(1_000_000)
		var two [2]*Store
		for i := range two {
			two[i], err = Open(t.Context(), Config{Dir: dir, Now: func() time.Time { return now }})
			ok(rt, err)
			defer two[i].Close()
			two[i].recent.most = 5
			ok(rt, two[i].submit(t.Context(), bare, func(t *tx) error { // no power fails here
				return sqlitex.ExecuteTransient(t.Conn, "PRAGMA synchronous = OFF", nil)
			}))
		}
		kept := map[dag.Hash]store.Entry{}
		any := func(rt *rapid.T) *Store { return two[rapid.IntRange(0, 1).Draw(rt, "handle")] }
		object := func(rt *rapid.T) store.Object {
			data := fmt.Appendf(nil, "object %d", rapid.IntRange(0, 19).Draw(rt, "object"))
			return store.Object{Hash: dag.Sum(data), Data: data, Kind: store.Kind(rapid.IntRange(0, 1).Draw(rt, "kind"))}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"put": func(rt *rapid.T) {
				now = now.Add(time.Second)
				var b store.Batch
				for range rapid.IntRange(1, 4).Draw(rt, "objects") {
					o := object(rt)
					b.Objects = append(b.Objects, o)
					kept[o.Hash] = store.Entry{Hash: o.Hash, Kind: max(o.Kind, kept[o.Hash].Kind), Size: int64(len(o.Data)),
						Put: now.UTC()}
				}
				ok(rt, any(rt).Commit(t.Context(), b))
			},
			"fail": func(rt *rapid.T) {
				b := store.Batch{Objects: []store.Object{object(rt)}, Threads: []store.ThreadChange{{
					Row: store.Thread{ID: "T"}, From: &store.ThreadState{}}}}
				if err := any(rt).Commit(t.Context(), b); !errors.Is(err, store.ErrConflict) {
					rt.Fatalf("a thread that is gone was moved: %v", err)
				}
			},
			"get": func(rt *rapid.T) {
				s, o := any(rt), object(rt)
				e, want := kept[o.Hash]
				got, err := s.Get(t.Context(), o.Hash)
				switch {
				case !want && errors.Is(err, store.ErrNotFound):
				case !want || err != nil || got.Kind != e.Kind || string(got.Data) != string(o.Data):
					rt.Fatalf("kept: %v %+v, got %+v, %v", want, e, got, err)
				}
				if has, err := s.Has(t.Context(), o.Hash); err != nil || has != want {
					rt.Fatalf("kept: %v, has: %v, %v", want, has, err)
				}
				found, err := s.Resolve(t.Context(), o.Hash.String()[:12], 10)
				if err != nil || (len(found) == 1) != want {
					rt.Fatalf("kept: %v, resolved: %v, %v", want, found, err)
				}
			},
			"move": func(rt *rapid.T) { ok(rt, any(rt).submit(t.Context(), alone, (*tx).fold)) },
			"sweep": func(rt *rapid.T) {
				o := object(rt)
				_, err := any(rt).Sweep(t.Context(), 0, func(v store.View) ([]dag.Hash, error) { return []dag.Hash{o.Hash}, nil })
				ok(rt, err)
				delete(kept, o.Hash)
			},
			"": func(rt *rapid.T) {
				s := any(rt)
				var listed []store.Entry
				for e, err := range s.List(t.Context()) {
					ok(rt, err)
					listed = append(listed, e)
				}
				want := slices.SortedFunc(maps.Values(kept), func(a, b store.Entry) int { return compare(a.Hash, b.Hash) })
				if !slices.Equal(listed, want) {
					rt.Fatalf("listed %v, want %v", listed, want)
				}
				if lines, err := s.Check(t.Context()); err != nil || len(lines) > 0 {
					rt.Fatalf("check: %q, %v", lines, err)
				}
			},
		})
	})
}

func ok(rt *rapid.T, err error) {
	rt.Helper()
	if err != nil {
		rt.Fatal(err)
	}
}

// TestRowsAreNotGivenOutAgain checks that a handle that has read up to some row finds all that others put later,
// even if that row was moved and swept.
func TestRowsAreNotGivenOutAgain(t *testing.T) {
	two := openTwo(t)
	first := store.Object{Hash: dag.Sum([]byte("first")), Data: []byte("first")}
	second := store.Object{Hash: dag.Sum([]byte("second")), Data: []byte("second")}
	if err := two[0].Commit(t.Context(), store.Batch{Objects: []store.Object{first}}); err != nil {
		t.Fatal(err)
	}
	gone, err := two[1].Sweep(t.Context(), -time.Hour, func(store.View) ([]dag.Hash,
		error) {
		return []dag.Hash{first.Hash}, nil
	})
	if err != nil || len(gone) != 1 {
		t.Fatalf("swept %v, %v", gone, err)
	}
	if err := two[1].Commit(t.Context(), store.Batch{Objects: []store.Object{second}}); err != nil {
		t.Fatal(err)
	}
	if o, err := two[0].Get(t.Context(), second.Hash); err != nil || string(o.Data) != "second" {
		t.Errorf("got %q, %v", o.Data, err)
	}
}

// TestRowsMoveByThemselves checks that rows do not wait forever.
func TestRowsMoveByThemselves(t *testing.T) {
	s, err := Open(t.Context(), Config{Dir: filepath.Join(t.TempDir(), "home")})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for i := range leastFold + 1 {
		data := fmt.Appendf(nil, "object %d", i)
		if err := s.Commit(t.Context(), store.Batch{Objects: []store.Object{{Hash: dag.Sum(data), Data: data}}}); err != nil {
			t.Fatal(err)
		}
	}
	var waiting int64
	err = s.submit(t.Context(), grouped, func(t *tx) (err error) {
		waiting, err = number(t.Conn, "SELECT count(*) FROM recent")
		return err
	})
	if err != nil || waiting > 1 {
		t.Errorf("%d rows wait, %v", waiting, err)
	}
}
