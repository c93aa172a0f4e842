package verify_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/store/sqlite"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/record/verify"
	"github.com/plait-run/plait/internal/testing/soak"
)

func TestViews(t *testing.T) {
	w, s := memWorld(t)
	rows := w.fill()
	home := t.TempDir()
	views := thread.Views{Dir: home, Index: s}
	draw := func() { w.must(views.Draw(ctx, rows["L"].Bundle)) }
	check := func(what string, h dag.Hash, want string) {
		t.Helper()
		r, err := verify.All(ctx, verify.Config{Store: s, Home: home})
		switch {
		case err != nil:
			t.Errorf("%s: %v", what, err)
		case want == "" && !r.OK():
			t.Errorf("%s: %+v, want no problem", what, r.Problems)
		case want != "" && (!names(r, h, want) || r.Completeness != verify.Failed || r.Integrity != verify.OK):
			t.Errorf("%s: %+v, want %q of %s", what, r, want, h)
		}
	}
	draw()
	old := rows["L"]
	ahead := w.step(old, "planner", "ready", "later")
	check("views that lag", dag.Hash{}, "")
	draw()
	w.change(ahead, old)
	attempt, err := s.Attempt(ctx, "L.15")
	w.must(err)
	attempt.Status = store.AttemptInterrupted
	w.commit(store.Batch{Attempts: []store.AttemptChange{{Row: attempt, From: store.AttemptDone}}})
	check("a head that was lost", ahead.Head, "ahead of the store: thread L")
	w.change(old, ahead)
	check("a head that is back", dag.Hash{}, "")

	w.commit(store.Batch{Remove: []string{"C"}})
	check("a thread that was removed", dag.Hash{}, "")
	s.Lose(rows["C"].Head)
	check("a thread that was lost", rows["C"].Head, "neither thread C nor its head")
	draw()
	check("views drawn again", dag.Hash{}, "")

	for _, file := range []string{"threads.json", "history/2023-11-14.jsonl"} {
		path := filepath.Join(home, "bundles", old.Bundle.String(), file)
		data, err := os.ReadFile(path)
		w.must(err)
		w.must(os.WriteFile(path, data[:len(data)/2], 0o600))
	}
	check("torn views", dag.Hash{}, "")

	// An older release drew the views of all records into the same files.
	other := "{\"X\": {\"head\": \"" + dag.Sum([]byte("x")).String() + "\"}}"
	dir := filepath.Join(home, "bundles", old.Bundle.String())
	w.must(os.WriteFile(filepath.Join(dir, "threads.json"), []byte(other), 0o600))
	check("a thread that no store has", dag.Sum([]byte("x")), "neither thread X nor its head")
	w.must(os.Remove(filepath.Join(dir, "version")))
	check("views of an older release", dag.Hash{}, "")
	w.must(views.Update(ctx, old.Bundle, old.Task))
	check("views of an older release, drawn again", dag.Hash{}, "")
	if data, err := os.ReadFile(filepath.Join(dir, "threads.json")); err != nil || strings.Contains(string(data), "X") {
		t.Errorf("drawn again: %s, %v", data, err)
	}
	w.must(os.WriteFile(filepath.Join(dir, "threads.json"), []byte(other), 0o600))
	r, err := verify.All(ctx, verify.Config{Store: elsewhere{s}, Home: home})
	if err != nil || !r.OK() {
		t.Errorf("views of the record in PLAIT_HOME, for another: %+v, %v", r, err)
	}
	w.must(thread.Views{Dir: home, Record: elsewhere{}.ID(), Index: s}.Draw(ctx, old.Bundle))
	w.must(os.WriteFile(filepath.Join(home, "records/elsewhere/bundles", old.Bundle.String(), "threads.json"), []byte(other),
		0o600))
	r, err = verify.All(ctx, verify.Config{Store: elsewhere{s}, Home: home})
	if err != nil || !names(r, dag.Sum([]byte("x")), "records/elsewhere/bundles/") {
		t.Errorf("a thread that the other record lacks: %+v, %v", r, err)
	}
}

// elsewhere is a record that is not in PLAIT_HOME.
type elsewhere struct{ store.Store }

func (elsewhere) ID() string { return "elsewhere" }

// A disk holds the files of a store's directory.
type disk map[string][]byte

func readDisk(t testing.TB, dir string) disk {
	t.Helper()
	d := disk{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		d[name], err = os.ReadFile(path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func (d disk) write(t testing.TB, dir string) {
	t.Helper()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	for name, data := range d {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// contents reads every object that was put, by its hash.
func contents(s store.Store, of []dag.Hash) (map[dag.Hash]string, error) {
	all := map[dag.Hash]string{}
	for _, h := range of {
		o, err := s.Get(ctx, h)
		if err != nil {
			return nil, err
		}
		all[h] = o.Kind.String() + " " + string(o.Data)
	}
	return all, nil
}

// Every flipped bit is found, or hits nothing: in that case every object reads
// back unchanged.
func TestFlippedBits(t *testing.T) {
	flips := soak.Rounds(t, soak.Tries(120, 10))
	if testing.Short() {
		flips = min(flips, 40)
	}
	for _, merged := range []bool{true, false} {
		t.Run(fmt.Sprintf("log merged %t", merged), func(t *testing.T) {
			dir, home := t.TempDir()+"/home", t.TempDir()
			s := openSQLite(t, dir)
			w := newWorld(t, s)
			rows := w.fill()
			// The last thing to happen is one that the views show.
			w.step(rows["L"], "planner", "ready", "the last")
			w.must(thread.Views{Dir: home, Index: s}.Draw(ctx, rows["L"].Bundle))
			var all []dag.Hash
			for e, err := range s.List(ctx) {
				w.must(err)
				all = append(all, e.Hash)
			}
			want, err := contents(s, all)
			w.must(err)
			clean := readDisk(t, dir)
			if merged {
				w.must(s.Close())
				clean = readDisk(t, dir)
			}
			files := targets(clean)
			if len(files) != map[bool]int{true: 2, false: 3}[merged] {
				t.Fatalf("files %v", files)
			}
			seed := rand.Uint64()
			random := rand.New(rand.NewPCG(seed, 0))
			copied := t.TempDir() + "/copy"
			found, harmless := 0, 0
			for i := range flips {
				file := files[i%len(files)]
				bit := random.IntN(8 * len(clean[file]))
				damaged := disk{}
				for name, data := range clean {
					damaged[name] = data
				}
				damaged[file] = bytes.Clone(clean[file])
				damaged[file][bit/8] ^= 1 << (bit % 8)
				damaged.write(t, copied)
				reported, err := judge(copied, home, want, all)
				if err != nil {
					t.Errorf("seed %d: bit %d of %s: %v", seed, bit, file, err)
				}
				if reported {
					found++
				} else {
					harmless++
				}
				if strings.HasPrefix(file, "objects") && !reported {
					t.Errorf("bit %d of loose file %s: not reported", bit, file)
				}
			}
			if found < flips/4 || found == 0 {
				t.Errorf("only %d of %d flips were found", found, flips)
			}
			t.Logf("%d found, %d hit nothing", found, harmless)
		})
	}
}

// targets are the files whose bits count: the index that readers share is
// rebuilt by the first process that opens the store.
func targets(d disk) []string {
	var out []string
	for _, name := range []string{"plait.db", "plait.db-wal"} {
		if len(d[name]) > 0 {
			out = append(out, name)
		}
	}
	for name := range d {
		if strings.HasPrefix(name, "objects") {
			out = append(out, name)
		}
	}
	return out
}

// judge reports whether a damaged store is reported. If it is not, it must be whole.
func judge(dir, home string, want map[dag.Hash]string, all []dag.Hash) (reported bool, err error) {
	s, err := sqlite.Open(ctx, sqlite.Config{Dir: dir})
	if err != nil {
		return true, nil
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	r, verifyErr := verify.All(ctx, verify.Config{Store: s, Home: home})
	if verifyErr != nil || !r.OK() {
		return true, nil
	}
	got, err := contents(s, all)
	if err != nil {
		return false, fmt.Errorf("reported nothing, but %w", err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		return false, fmt.Errorf("reported nothing, but objects differ:\n%s", diff)
	}
	return false, nil
}
