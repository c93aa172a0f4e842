package blame_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/app/blame"
)

var whole = flag.Bool("whole", false, "a repository of 500 files and 200 steps")

// TestRandomLines lets agents and people change a repository at random for a while, in all ways, and blames lines at
// random, of files that were changed: none is attributed wrongly. Of the 300 of the whole test at least 290 are
// attributed; in few files, which agents come back to more often, of ten lines at least nine.
func TestRandomLines(t *testing.T) {
	files, steps, lines, least := 30, 15, 60, 54
	if *whole {
		files, steps, lines, least = 500, 200, 300, 290
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	w := newWorld(t, seed, files, 20)
	touched := map[string]bool{}
	pick := func() string {
		paths := slices.Sorted(maps.Keys(w.files))
		path := paths[w.rng.IntN(len(paths))]
		if len(touched) > 0 && w.rng.IntN(2) == 0 { // agents come back to files
			paths = slices.Sorted(maps.Keys(touched))
			path = paths[w.rng.IntN(len(paths))]
		}
		touched[path] = true
		return path
	}
	var current *task
	for n := 0; n < steps; {
		if current == nil || w.rng.IntN(3) == 0 {
			current = w.task()
		}
		switch k := w.rng.IntN(20); {
		case k < 10:
			a, b := pick(), pick()
			current.step(func(by string) { w.edit(a, by, nil); w.edit(b, by, nil) })
			n++
		case k < 12:
			a, b := pick(), pick()
			current.fork([]string{a, b}, [2]func(string){
				func(by string) { w.edit(a, by, odd) },
				func(by string) { w.edit(b, by, even); w.edit(a, by, even) }})
			n += 2
		case k < 13:
			w.byHand(pick())
		case k < 15:
			w.write()
			w.commit("work")
		case k < 16:
			w.write()
			w.commit("amended", "--amend")
		case k < 17:
			w.write()
			w.commit("part")
			w.byHand(pick())
			w.git("reset", "-q", "--soft", "HEAD^")
			w.commit("squashed")
		case k < 18:
			w.write()
			w.commit("before")
			before := w.files.copy()
			a := pick()
			current.step(func(by string) { w.edit(a, by, nil) })
			n++
			w.commit("to be reverted")
			w.git("revert", "--no-edit", "HEAD")
			w.files = before
		case k < 19:
			from := pick()
			w.write()
			w.commit("before")
			to := fmt.Sprintf("moved/file%d.go", w.next)
			w.next++
			os.MkdirAll(w.dir+"/moved", 0o755)
			w.git("mv", from, to)
			w.files[to] = w.files[from]
			delete(w.files, from)
			delete(touched, from)
			touched[to] = true
			w.commit("moved")
		default:
			w.write()
			w.commit("before")
			before := w.files.copy()
			a := pick()
			current.step(func(by string) { w.edit(a, by, nil) })
			n++
			w.git("checkout", "-q", "--", ".") // thrown away
			w.files = before
		}
	}
	w.write()
	if !w.agrees() {
		t.Fatal("the model and the files differ")
	}
	var all score
	began := time.Now()
	paths := slices.Sorted(maps.Keys(touched))
	known := map[string][]blame.Line{}
	for range lines {
		path := paths[w.rng.IntN(len(paths))]
		if known[path] == nil {
			known[path] = w.blame(path)
		}
		i := w.rng.IntN(len(known[path]))
		all.add(t, path, known[path][i], w.lines(path)[i])
	}
	t.Logf("%+v, %v for each of %d files", all, time.Since(began)/time.Duration(len(known)), len(known))
	if all.wrong > 0 || all.right < least {
		t.Errorf("of %d lines: %+v", lines, all)
	}
}
