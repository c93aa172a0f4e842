package main

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/testing/soak"
)

// hunts is what an agent does to find canaries. It puts some of its own where it and nobody else may find them, waits
// until all others have done so, and looks everywhere: at variables, processes, open files, names, and files that are
// newer than the test. The pattern does not match itself in the list of processes.
const hunts = `
mine=canar; mine=${mine}yREST.TASK
echo $mine.file > file
echo $mine.open > open; exec 7<open; rm open
VARIABLE=$mine.environ sh -c 'sleep 600; :' sh $mine.argument &
look() {
	env
	cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline /proc/[0-9]*/mountinfo
	for f in /proc/[0-9]*/fd/*; do
		ls -l $f
		test -f $f && cat $f
	done
	find / -path /proc -prune -o -path /sys -prune -o -print
	find / -path /proc -prune -o -path /sys -prune -o -type f -newermt @SINCE -size -2048k -exec cat {} +
}
touch ready; until test -e GATE/look; do sleep 0.05; done
look 2>/dev/null | grep -aoE 'canar[y]REST[-._a-zA-Z0-9]*' | sort -u > found
touch looked; until test -e GATE/end; do sleep 0.05; done
echo user $(id -u); cat found; kill $!
`

// TestWorkersIsolate has agents of several tasks on each of three workers hunt for canaries, all at once. What they
// find is what they may see, and all of it: a hunt that overlooks it proves nothing.
func TestWorkersIsolate(t *testing.T) {
	since := time.Now().Unix() - 1
	w := isolate(t, "ann", "ben", "cleo")
	tasks := map[string]*apart{}
	for _, a := range w.all {
		tasks[a.name+"1"], tasks[a.name+"2"] = a, a
	}
	var running sync.WaitGroup
	for task, a := range tasks {
		running.Go(func() {
			gate := filepath.Join(a.places, "mirrors", "work.sha256.git")
			script := strings.NewReplacer("REST", w.canary[len("canary"):], "TASK", task, "GATE", gate,
				"SINCE", strconv.FormatInt(since, 10)).Replace(hunts)
			out := w.run(t, w.work, asks(runs(script, ", env: {GIVEN: "+w.canary+"."+task+".given}")), "--needs", a.name)
			found := map[string]bool{}
			for _, canary := range regexp.MustCompile(w.canary+`[-._a-zA-Z0-9]*`).FindAllString(out, -1) {
				found[strings.TrimPrefix(canary, w.canary+".")] = true
			}
			want := []string{task + ".argument", task + ".environ", task + ".file", task + ".given", task + ".open", "seen"}
			if got := slices.Sorted(maps.Keys(found)); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
				t.Errorf("%s finds %q, want %q; it says:\n%s", task, got, want, out)
			}
			if a.user != nil && !strings.Contains(out, "user "+strconv.Itoa(int(a.user.Uid))) {
				t.Errorf("%s is not the user of worker %s:\n%s", task, a.name, out)
			}
		})
	}
	for _, step := range []struct{ done, next string }{{"ready", "look"}, {"looked", "end"}} {
		for end := time.Now().Add(2 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
			done, _ := filepath.Glob(filepath.Join(w.dir, "*", "places", "tasks", "work", "*", ".plait", "worktrees", "*",
				step.done))
			if len(done) == len(tasks) || t.Failed() || time.Now().After(end) {
				break
			}
		}
		for _, a := range w.all {
			w.must(os.WriteFile(filepath.Join(a.places, "mirrors", "work.sha256.git", step.next), nil, 0o644))
		}
	}
	running.Wait()
	soak.Figure(t, "%d agents on %d workers, at once: each finds what it may see, and nothing else", len(tasks),
		len(w.all))
}
