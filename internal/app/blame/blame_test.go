package blame_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/testing/housetest"
)

func TestMain(m *testing.M) {
	housetest.OwnMounts()
	flag.Parse()
	home := housetest.GitHome(testing.Short(), "")
	if home == "" {
		return
	}
	code := m.Run()
	os.RemoveAll(home)
	os.Exit(code)
}

// fork lets two agents change the model in paths of their own, and joins what they did.
func (t *task) fork(files []string, do [2]func(by string)) {
	w := t.w
	w.write()
	fork, base, began := t.row, w.snapshot(), w.now.UnixMilli()
	start := w.files
	var sides []thread.MergedSide
	var ends []thread.PathEnd
	var left [2]model
	for i, id := range []string{"api", "ui"} {
		id = fmt.Sprint(id, fork.Steps) // a name of its own in a task that forks again
		w.files = start.copy()
		w.write()
		row := thread.Path(fork, began, store.Path{Key: fork.ID + id, ID: id, Join: "join", N: 1}, w.now.UnixMilli())
		if err := w.store.Commit(w.t.Context(), store.Batch{Threads: []store.ThreadChange{{Row: row}}}); err != nil {
			w.t.Fatal(err)
		}
		do[i](fmt.Sprintf("%s/%s/%d", fork.Short, id, row.Steps+1))
		w.write()
		left[i] = w.files
		tree := w.snapshot()
		row = housetest.Append(w.t.Context(), w.t, w.store, row, draft(&thread.Detail{TreeBefore: &base, TreeAfter: &tree,
			StartedAt: began, EndedAt: w.now.UnixMilli()}))
		sides = append(sides, thread.MergedSide{Path: id, Base: base, Tree: tree, Merged: true})
		ends = append(ends, thread.PathEnd{Row: row, Meta: json.RawMessage("{}")})
	}
	w.files = start.copy()
	for _, path := range files {
		w.files[path] = merged(start[path], left[0][path], left[1][path])
	}
	w.write()
	tree := w.snapshot()
	tip, err := thread.NewReader(w.store).Tip(w.t.Context(), fork.Head)
	if err != nil {
		w.t.Fatal(err)
	}
	ch, err := thread.Join(fork, tip, fork.Steps, thread.JoinDraft{Node: "join", Outcome: "joined", Paths: ends,
		Since: began, At: w.now.UnixMilli(), Merge: &thread.Merge{From: base, To: tree, Sides: sides}})
	if err == nil {
		err = w.store.Commit(w.t.Context(), store.Batch{Objects: ch.Objects,
			Threads: []store.ThreadChange{{Row: ch.Row, From: fork.State()}}})
	}
	if err != nil {
		w.t.Fatal(err)
	}
	t.row = ch.Row
}

const one, other = "pkg0/file0.go", "pkg1/file1.go"

// twice lets agents and then a person change both files.
func (w *world) twice(t *task) {
	for range 3 {
		t.step(func(by string) {
			w.edit(one, by, nil)
			w.edit(one, by, nil)
			w.edit(other, by, nil)
		})
	}
}

func (w *world) byHand(paths ...string) {
	for _, path := range paths {
		w.edit(path, "", nil)
	}
	w.write()
}

// odd and even divide the blocks of a file, so that two who change it do not get in each other's way.
func odd(id int) bool  { return id%2 == 1 }
func even(id int) bool { return id%2 == 0 }

// ways are how the work of a task gets into commits.
var ways = map[string]func(w *world){
	"uncommitted": func(w *world) {
		w.twice(w.task())
		w.byHand(one)
	},
	"commit": func(w *world) {
		w.twice(w.task())
		w.commit("work")
		w.byHand(one)
		w.commit("by hand")
	},
	"squash": func(w *world) {
		start := w.git("rev-parse", "HEAD")
		for range 3 {
			w.twice(w.task())
			w.byHand(one)
			w.commit("part")
		}
		w.git("reset", "-q", "--soft", start)
		w.commit("squashed")
	},
	"rebase": func(w *world) {
		base := w.files.copy()
		w.git("switch", "-q", "-c", "work")
		t := w.task()
		for range 3 {
			t.step(func(by string) { w.edit(one, by, odd); w.edit(other, by, odd) })
		}
		w.commit("work")
		mine := w.files
		w.git("switch", "-q", "-")
		w.files = base.copy()
		w.edit(one, "", even)
		w.edit(one, "", even)
		w.write()
		w.commit("upstream")
		theirs := w.files
		w.git("switch", "-q", "work")
		w.git("rebase", "-q", "main")
		w.files = base.copy()
		for _, path := range []string{one, other} {
			w.files[path] = merged(base[path], theirs[path], mine[path])
		}
	},
	"amend": func(w *world) {
		t := w.task()
		w.twice(t)
		w.commit("work")
		w.byHand(one)
		w.commit("work, amended", "--amend")
		w.twice(t)
		w.commit("work, amended again", "--amend")
	},
	"fixup": func(w *world) {
		w.twice(w.task())
		first := w.commit("work")
		w.byHand(other)
		w.commit("unrelated")
		w.twice(w.task())
		w.git("add", "-A")
		w.git("commit", "-q", "--fixup", first)
		w.tryGit("rebase", "-q", "-i", "--autosquash", first+"^")
	},
	"cherry-pick": func(w *world) {
		base := w.files.copy()
		w.git("switch", "-q", "-c", "work")
		t := w.task()
		t.step(func(by string) { w.edit(one, by, odd); w.edit(one, by, odd) })
		picked := w.commit("work")
		mine := w.files
		w.git("switch", "-q", "main")
		w.files = base.copy()
		w.edit(one, "", even)
		w.write()
		w.commit("upstream")
		theirs := w.files.copy()
		w.git("cherry-pick", picked)
		w.files[one] = merged(base[one], theirs[one], mine[one])
	},
	"revert": func(w *world) {
		w.twice(w.task())
		w.commit("work")
		before := w.files.copy()
		w.twice(w.task())
		second := w.commit("more")
		w.git("revert", "--no-edit", second)
		w.files = before
	},
	"revert of a revert": func(w *world) {
		w.twice(w.task())
		first := w.commit("work")
		after := w.files.copy()
		w.git("revert", "--no-edit", first)
		w.git("revert", "--no-edit", "HEAD")
		w.files = after
	},
	"stash": func(w *world) {
		base := w.files.copy()
		t := w.task()
		t.step(func(by string) { w.edit(one, by, odd); w.edit(one, by, odd) })
		mine := w.files
		w.git("stash", "-q")
		w.files = base.copy()
		w.edit(one, "", even)
		w.write()
		w.commit("meanwhile")
		theirs := w.files.copy()
		w.git("stash", "pop", "-q")
		w.files[one] = merged(base[one], theirs[one], mine[one])
		w.commit("work")
	},
	"rename": func(w *world) {
		w.twice(w.task())
		w.commit("work")
		w.git("mv", other, "other.go")
		w.files["other.go"] = w.files[other]
		delete(w.files, other)
		w.commit("renamed")
		w.byHand("other.go")
	},
	"rename in the same commit": func(w *world) {
		w.twice(w.task())
		w.git("mv", other, "other.go")
		w.files["other.go"] = w.files[other]
		delete(w.files, other)
		w.commit("work, renamed")
	},
	"new file renamed and edited": func(w *world) {
		w.task().step(func(by string) {
			for range 5 {
				w.files["new.go"] = append(w.files["new.go"], w.block(by))
			}
		})
		w.git("add", "-A")
		w.git("mv", "new.go", "renamed.go")
		w.files["renamed.go"] = w.files["new.go"]
		delete(w.files, "new.go")
		w.byHand("renamed.go")
		w.commit("work")
	},
	"renamed by an agent": func(w *world) {
		t := w.task()
		w.twice(t)
		t.step(func(by string) {
			os.Remove(w.dir + "/" + other)
			w.files["other.go"] = w.files[other]
			delete(w.files, other)
			w.edit("other.go", by, nil)
		})
		w.byHand("other.go")
		w.commit("work")
	},
	"parallel paths": func(w *world) {
		t := w.task()
		t.step(func(by string) { w.edit(one, by, nil) })
		t.fork([]string{one, other}, [2]func(string){
			func(by string) { w.edit(one, by, odd); w.edit(one, by, odd) },
			func(by string) { w.edit(one, by, even); w.edit(other, by, nil) }})
		t.step(func(by string) { w.edit(one, by, nil) })
		w.byHand(one)
		w.commit("work")
	},
	"parallel paths, one of which changes nothing": func(w *world) {
		t := w.task()
		t.fork([]string{one}, [2]func(string){func(by string) { w.edit(one, by, nil) }, func(string) {}})
		t.step(func(by string) { w.edit(one, by, nil) })
		w.byHand(one)
		w.commit("work")
	},
	"thrown away": func(w *world) {
		base := w.files.copy()
		w.twice(w.task())
		w.git("checkout", "-q", "--", ".")
		w.files = base
		w.byHand(one, one, other)
		w.commit("by hand")
		w.twice(w.task())
		w.byHand(one)
	},
	"partly committed": func(w *world) {
		t := w.task()
		w.twice(t)
		w.git("add", one)
		w.git("commit", "-q", "-m", "one")
		w.byHand(one)
		w.commit("the other")
	},
}

// TestWays tries each way alone: nothing is attributed wrongly, and at least 95 of 100 lines are.
func TestWays(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(ways)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var all score
			for seed := range uint64(2) {
				w := newWorld(t, seed, 2, 40)
				ways[name](w)
				if !w.agrees() {
					t.Logf("seed %d: git merged otherwise than the model", seed)
					continue
				}
				s := w.score(slices.Sorted(maps.Keys(w.files))...)
				all = score{all.right + s.right, all.wrong + s.wrong, all.unsure + s.unsure}
			}
			if all.wrong > 0 || all.right == 0 || all.right*100 < 95*(all.right+all.unsure) {
				t.Errorf("%+v", all)
			}
		})
	}
}

// TestIndex checks that what an index says is what Git says, that it grows, and that one which is damaged is made again.
func TestIndex(t *testing.T) {
	w := newWorld(t, 1, 2, 40)
	w.index = filepath.Join(t.TempDir(), "index")
	w.twice(w.task())
	w.commit("work")
	want := w.blame(one)
	whole, err := os.ReadFile(w.index)
	if err != nil || len(whole) == 0 {
		t.Fatalf("there is no index: %v", err)
	}
	for _, now := range []string{string(whole), string(whole[:len(whole)/2]), "nonsense\n:", ""} {
		if err := os.WriteFile(w.index, []byte(now), 0o600); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, w.blame(one)); diff != "" {
			t.Errorf("with the index %.20q: -want +got\n%s", now, diff)
		}
		if made, err := os.ReadFile(w.index); err != nil || !bytes.Equal(made, whole) {
			t.Errorf("of %.20q it made %.20q: %v", now, made, err)
		}
	}
	w.twice(w.task())
	if s := w.score(one, other); s.wrong > 0 || s.right == 0 {
		t.Errorf("after more steps: %+v", s)
	}
	if more, err := os.ReadFile(w.index); err != nil || !bytes.HasPrefix(more, whole) || len(more) == len(whole) {
		t.Errorf("it did not grow: %v", err)
	}
}
