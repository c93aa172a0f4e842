package sqlite_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"zombiezen.com/go/sqlite/sqlitex"

	zombiezen "zombiezen.com/go/sqlite"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/store/sqlite"
)

// filled creates a store with n small objects and a large one, and closes it.
func filled(t *testing.T, dir string, n int) (small []dag.Hash, large dag.Hash) {
	t.Helper()
	s := open(t, dir)
	defer s.Close()
	for i := range n {
		o := object(fmt.Sprintf("object %d %s", i, strings.Repeat("x", 900)), store.Node)
		if err := s.Commit(t.Context(), store.Batch{Objects: []store.Object{o},
			Events: []store.Event{{Type: "x", Task: "t"}}}); err != nil {
			t.Fatal(err)
		}
		small = append(small, o.Hash)
	}
	large, _, err := s.Stage(t.Context(), "p", strings.NewReader(strings.Repeat("large", 100<<10)))
	if err != nil {
		t.Fatal(err)
	}
	return small, large
}

// flip changes one bit of the first place where text occurs in a file.
func flip(t *testing.T, path, text string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	// A page that was split keeps old copies in its free space.
	places := 0
	for i := bytes.Index(data, []byte(text)); i >= 0; i = bytes.Index(data, []byte(text)) {
		data[i] ^= 1
		places++
	}
	if places == 0 {
		t.Fatalf("%q is not in %s", text, path)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestFlippedBits(t *testing.T) {
	dir := t.TempDir()
	small, large := filled(t, dir, 20)
	flip(t, filepath.Join(dir, "plait.db"), "object 7 ")
	loose := filepath.Join(dir, "objects", large.String()[:2], large.String())
	flip(t, loose, "large")
	s := open(t, dir)
	defer s.Close()
	for i, h := range append(small, large) {
		_, err := s.Get(t.Context(), h)
		damaged := i == 7 || i == 20
		if errors.Is(err, store.ErrCorrupt) != damaged || !damaged && err != nil {
			t.Errorf("object %d: %v", i, err)
		}
		if damaged && !strings.Contains(err.Error(), h.String()) {
			t.Errorf("the error does not name the object: %v", err)
		}
		_, err = s.Many(t.Context(), []dag.Hash{small[0], h})
		if errors.Is(err, store.ErrCorrupt) != damaged || !damaged && err != nil {
			t.Errorf("many with object %d: %v", i, err)
		}
		r, _, err := s.Open(t.Context(), h)
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.Copy(io.Discard, r)
		r.Close()
		if errors.Is(err, store.ErrCorrupt) != damaged {
			t.Errorf("stream of object %d: %v", i, err)
		}
	}
	if _, err := s.Get(t.Context(), large); !strings.Contains(err.Error(), loose) {
		t.Errorf("the error does not name the file: %v", err)
	}
	// Putting the bytes again does not hide the damage in the database, but a
	// large blob staged again is sound again.
	if _, _, err := s.Stage(t.Context(), "p", strings.NewReader(strings.Repeat("large", 100<<10))); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(t.Context(), large); err != nil {
		t.Error(err)
	}
}

// TestAnyFlippedBit flips a bit in every page of the database. Whatever is read
// after that is right, or an error.
func TestAnyFlippedBit(t *testing.T) {
	dir := t.TempDir()
	small, large := filled(t, dir, 30)
	path := filepath.Join(dir, "plait.db")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for at := 16; at < len(whole); at += 1021 {
		data := bytes.Clone(whole)
		data[at] ^= 0x10
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if !readsRight(t, dir, append(small, large)) {
			found++
		}
		os.Remove(path + "-wal")
		os.Remove(path + "-shm")
	}
	if found == 0 {
		t.Error("no flipped bit was found at all")
	}
}

// readsRight reads everything and reports whether nothing was wrong. Wrong bytes
// that are not reported as wrong fail the test.
func readsRight(t *testing.T, dir string, hs []dag.Hash) bool {
	t.Helper()
	s, err := sqlite.Open(t.Context(), sqlite.Config{Dir: dir})
	if err != nil {
		return false
	}
	defer s.Close()
	right := true
	for _, h := range hs {
		o, err := s.Get(t.Context(), h)
		if err != nil {
			right = false
		} else if dag.Sum(o.Data) != h {
			t.Errorf("Get returned wrong bytes for %s", h)
		}
	}
	lines, err := s.Check(t.Context())
	return right && err == nil && len(lines) == 0
}

func TestCheckFinds(t *testing.T) {
	for name, x := range map[string]struct {
		harm func(t *testing.T, dir string, large dag.Hash)
		want string
	}{
		"a missing file": {func(t *testing.T, dir string, large dag.Hash) {
			os.Remove(filepath.Join(dir, "objects", large.String()[:2], large.String()))
		}, "is missing"},
		"a cut file": {func(t *testing.T, dir string, large dag.Hash) {
			os.Truncate(filepath.Join(dir, "objects", large.String()[:2], large.String()), 7)
		}, "has 7 bytes"},
		"a foreign file": {func(t *testing.T, dir string,
			_ dag.Hash) {
			os.WriteFile(dir+"/objects/x", nil, 0o600)
		}, "does not belong to Plait"},
		"a foreign table":          {statement("CREATE TABLE extra (x)"), "extra does not belong to Plait"},
		"a lost event":             {statement("DROP TRIGGER events_removed; DELETE FROM events WHERE pos = 3"), "gap"},
		"a lost trigger":           {statement("DROP TRIGGER events_changed"), "events_changed is missing"},
		"a lost log":               {statement("DELETE FROM log"), "the log is lost"},
		"a lost body":              {statement("DELETE FROM bodies WHERE id = 2"), "has no body"},
		"a body of nobody":         {statement("INSERT INTO bodies VALUES (99, x'00')"), "belongs to no object"},
		"a counter that is behind": {statement("UPDATE tasks SET seq = 1"), "is behind"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			_, large := filled(t, dir, 5)
			x.harm(t, dir, large)
			s := open(t, dir)
			defer s.Close()
			lines, err := s.Check(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(strings.Join(lines, "\n"), x.want) {
				t.Errorf("found %q, want one that says %q", lines, x.want)
			}
		})
	}
}

// statement changes the database behind the store's back.
func statement(q string) func(*testing.T, string, dag.Hash) {
	return func(t *testing.T, dir string, _ dag.Hash) {
		t.Helper()
		c, err := zombiezen.OpenConn(filepath.Join(dir, "plait.db"), zombiezen.OpenReadWrite)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := sqlitex.ExecuteScript(c, q, nil); err != nil {
			t.Fatal(err)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	for name, x := range map[string]struct {
		harm func(t *testing.T, dir string, _ dag.Hash)
		is   error
		says string
	}{
		"a newer schema":     {statement("PRAGMA user_version = 1000"), store.ErrNewer, "update Plait"},
		"a foreign database": {statement("PRAGMA application_id = 1"), nil, "not made by Plait"},
		"no database at all": {func(t *testing.T, dir string, _ dag.Hash) {
			os.WriteFile(dir+"/plait.db", bytes.Repeat([]byte("not a database"), 1000), 0o600)
		}, store.ErrCorrupt, "plait.db"},
		"a directory in its place": {func(t *testing.T, dir string, _ dag.Hash) {
			os.Remove(dir + "/plait.db")
			os.Mkdir(dir+"/plait.db", 0o700)
		}, nil, "unable to open"},
		"a directory of everyone's": {func(t *testing.T, dir string, _ dag.Hash) { os.Chmod(dir, 0o777) }, nil, "chmod 700"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "home")
			filled(t, dir, 1)
			x.harm(t, dir, dag.Hash{})
			s, err := sqlite.Open(t.Context(), sqlite.Config{Dir: dir})
			if err == nil {
				s.Close()
				t.Fatal("it was opened")
			}
			if x.is != nil && !errors.Is(err, x.is) || !strings.Contains(err.Error(), x.says) {
				t.Errorf("got %v, want one that says %q and is %v", err, x.says, x.is)
			}
		})
	}
	t.Run("a file in place of the directory", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "file")
		os.WriteFile(path, nil, 0o600)
		if _, err := sqlite.Open(t.Context(), sqlite.Config{Dir: path}); err == nil ||
			!strings.Contains(err.Error(), "not a directory") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a missing directory, for reading", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "none")
		if _, err := sqlite.Open(t.Context(), sqlite.Config{Dir: dir, ReadOnly: true}); err == nil {
			t.Error("it was opened")
		}
		if _, err := os.Stat(dir); err == nil {
			t.Error("it was made")
		}
	})
}

func TestModes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "home")
	filled(t, dir, 1)
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestCheckBesideWriters checks that objects put and removed during a check are not taken for damage.
func TestCheckBesideWriters(t *testing.T) {
	s := open(t, t.TempDir())
	put := func(from, n int) (hs []dag.Hash) {
		var b store.Batch
		for i := range n {
			b.Objects = append(b.Objects, object(fmt.Sprint("object ", from+i), store.Node))
			hs = append(hs, b.Objects[i].Hash)
		}
		if err := s.Commit(context.Background(), b); err != nil {
			t.Error(err)
		}
		return hs
	}
	put(0, 5_000)
	over := make(chan struct{})
	var writer sync.WaitGroup
	writer.Go(func() {
		for i := 5_000; ; i += 20 {
			select {
			case <-over:
				return
			default:
			}
			old := put(i, 20)[:10]
			if _, err := s.Sweep(context.Background(), 0, func(store.View) ([]dag.Hash, error) { return old, nil }); err != nil {
				t.Error(err)
			}
		}
	})
	for range 10 {
		if lines, err := s.Check(t.Context()); err != nil || len(lines) > 0 {
			t.Errorf("%d problems, such as %q, %v", len(lines), lines[:min(1, len(lines))], err)
		}
	}
	close(over)
	writer.Wait()
}
