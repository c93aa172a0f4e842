package control

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/testing/mem"
	"github.com/plait-run/plait/internal/testing/soak"
)

// TestModel runs random trees of calls, forks, joins and failures, with crashes and
// cancels, against a simple oracle. Each sequence is one program that is run
// undisturbed, and again with its disturbances: the outcome is the same, and nothing
// that was committed was done twice. Whatever came of it replays. rapid checks each part a hundred times.
func TestModel(t *testing.T) {
	for part := range soak.Rounds(t, soak.Tries(12, 1)) {
		t.Run(fmt.Sprint(part), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			empty, err := os.OpenRoot(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			defer empty.Close()
			rapid.Check(t, func(rt *rapid.T) { sequence(rt, dir, empty) })
		})
	}
}

func sequence(rt *rapid.T, dir string, empty *os.Root) {
	p := drawProgram(rt)
	o := foretell(p, func(n int) int { return rapid.IntRange(0, n-1).Draw(rt, "next") })
	rt.Logf("%vturns %v\nends %s{%s}", p, o.turns, o.root.status, o.root.reason)
	wrong := finding(rt.Errorf)

	fresh := func() *world {
		w := newWorld(p, o, dir, empty)
		if err := w.begin(context.Background()); err != nil {
			rt.Fatal(err)
		}
		return w
	}
	clean := fresh()
	row, _, err := clean.drive(context.Background(), nil)
	if err != nil {
		rt.Fatalf("drive: %v", err)
	}
	clean.compare(wrong)
	clean.sound(wrong)
	clean.counts(wrong)
	if rt.Failed() {
		rt.FailNow()
	}

	crashes := rapid.SliceOfN(rapid.Custom(drawCrash), 0, 5).Draw(rt, "crashes")
	w := fresh()
	end, requested := w.through(rt, crashes)
	w.sound(wrong)
	if requested && end.Status == store.Cancelled {
		w.allCancelled(wrong)
	} else {
		w.compare(wrong)
		if a, b := clean.digest(rt, row), w.digest(rt, end); a != b {
			wrong("the outcome is %s, undisturbed it was %s\n%s", b.Short(), a.Short(),
				cmp.Diff(clean.told(rt, row.Head, ""), w.told(rt, end.Head, "")))
		}
	}
	// How far a cancelled path got is in the head, and is a race.
	if len(crashes) == 0 && end.Head != row.Head && !clean.lost() {
		wrong("two runs with one clock have different heads")
	}
	clean.replays(rt, row, wrong)
	w.replays(rt, end, wrong)
}

// through drives a task through crashes until it has ended or is blocked.
func (w *world) through(rt *rapid.T, crashes []crash) (row store.Thread, requested bool) {
	for i := 0; ; i++ {
		var c *crash
		if i < len(crashes) {
			c = &crashes[i]
		}
		row, struck, err := w.drive(context.Background(), c)
		requested = requested || struck && c.Kind == "wish"
		if err := w.log.See(context.Background(), w.disk); err != nil {
			rt.Fatalf("drive %d: %v", i, err)
		}
		switch {
		case w.stalled || err != nil && !struck:
			rt.Fatalf("drive %d: %v", i, err)
		case err == nil && (row.Ended() || row.Status == store.Blocked && !requested):
			return row, requested
		case err == nil && row.Status != store.Blocked && !requested: // a request makes a blocked thread run, to end it
			rt.Fatalf("drive %d left the task %s", i, row.Status)
		}
		if err == nil { // it was cancelled when it was no longer driven
			if row, err = w.disk.Thread(context.Background(), rootID); err != nil {
				rt.Fatal(err)
			}
			return row, requested
		}
	}
}

func drawCrash(rt *rapid.T) crash {
	c := crash{Kind: rapid.SampledFrom([]string{"fault", "kill", "stop", "wish"}).Draw(rt, "kind")}
	ops := []mem.Op{mem.OpCommit, mem.OpCommit, mem.OpCommit, mem.OpGet, mem.OpThread, mem.OpThreads, mem.OpAttempts,
		mem.OpEvents, mem.OpAcquire, mem.OpStage}
	if c.Kind == "stop" || c.Kind == "wish" {
		ops = []mem.Op{"", mem.OpCommit}
	}
	c.Op = rapid.SampledFrom(ops).Draw(rt, "op")
	if c.Op != "" {
		c.When = rapid.SampledFrom([]mem.When{mem.Before, mem.After}).Draw(rt, "when")
	}
	c.N = rapid.IntRange(1, map[mem.Op]int{"": 12, mem.OpCommit: 40, mem.OpThreads: 3, mem.OpAcquire: 1,
		mem.OpStage: 2}[c.Op]+12).Draw(rt, "n")
	return c
}

func (w *world) digest(rt *rapid.T, row store.Thread) dag.Hash {
	d, err := w.reader().Digest(context.Background(), row.Head)
	if err != nil {
		rt.Fatalf("digest: %v", err)
	}
	return d
}

// told lists what the digest at head consists of, one entry per step: those of paths and children
// under their join or call.
func (w *world) told(rt *rapid.T, head dag.Hash, leased string) (list []string) {
	steps, err := w.reader().Steps(context.Background(), head)
	if err != nil {
		rt.Fatalf("chain of %s: %v", head.Short(), err)
	}
	for i, s := range steps {
		text, err := w.reader().Text(context.Background(), s.State.Content)
		if err != nil {
			rt.Fatalf("text of %s: %v", s.Hash.Short(), err)
		}
		at := fmt.Sprintf("%s%d %s", leased, i+1, s.State.Role)
		list = append(list, fmt.Sprintf("%s: %s %q", at, s.State.Meta, text))
		for _, p := range s.State.Paths {
			list = append(list, fmt.Sprintf("%s/%s: %s", at, p.ID, p.Status))
			if p.Status != store.Cancelled {
				list = append(list, w.told(rt, p.Head, at+"/"+p.ID+"/")...)
			}
		}
		if !s.State.ChildThread.IsZero() {
			list = append(list, w.told(rt, s.State.ChildThread, at+"/")...)
		}
	}
	return list
}

// counts checks that in an undisturbed run every agent worked once, and once more if
// its first try failed.
func (w *world) counts(wrong finding) {
	attempts, err := w.disk.Attempts(context.Background(), store.AttemptFilter{})
	if err != nil {
		wrong("attempts: %v", err)
	}
	tried := map[string]int{}
	for _, a := range attempts {
		key := w.from[a.ID]
		if _, ok := w.index[key]; ok {
			tried[key]++
		} else if a.Status != store.AttemptCancelled {
			wrong("attempt %s of %s, whose turn never comes, is %s", a.ID, a.Role, a.Status)
		}
	}
	for _, t := range w.oracle.turns {
		if n := w.tries[t.key]; tried[t.key] != n || n < 1 || n > 2 {
			wrong("%s was tried %d times", t.key, tried[t.key])
		}
	}
}
