package verify_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/record/verify"
)

const (
	done  = "---\n$status: done\n---\nYes."
	fails = ""
)

func tree(join string) []string { return []string{fmt.Sprintf(treeFlow, join), subFlow, leafFlow} }

// A record that the engine wrote is sound, whatever happened in it, at every
// point at which it may be read.
func TestTreesAreSound(t *testing.T) {
	tests := []struct {
		name string
		join string
		grow func(g *grove)
	}{
		{"everything completes", "", func(g *grove) { ended(g, g.drive(g.plant().ID), store.Completed) }},
		{"another main path", ", mainPathId: b", func(g *grove) { ended(g, g.drive(g.plant().ID), store.Completed) }},
		{"loops within loops", "", func(g *grove) {
			g.answers["more"] = []string{"---\n$status: back\n---\nOnce more.", done}
			g.answers["report"] = []string{"---\n$status: again\n---\nAgain.", done}
			ended(g, g.drive(g.plant().ID), store.Completed)
		}},
		{"a path fails, the others are cancelled before they begin", "", func(g *grove) {
			g.answers["api"] = []string{fails}
			ended(g, g.drive(g.plant().ID), store.Completed)
		}},
		{"a path fails inside", "", func(g *grove) {
			g.answers["more"] = []string{fails}
			g.answers["inner-left"] = []string{fails}
			ended(g, g.drive(g.plant().ID), store.Completed)
		}},
		{"both inner paths fail", "", func(g *grove) {
			g.answers["inner-left"], g.answers["inner-right"] = []string{fails}, []string{fails}
			ended(g, g.drive(g.plant().ID), store.Completed)
		}},
		{"losers cancelled in the middle", ", joinStrategy: ANY_COMPLETED", func(g *grove) {
			g.held["a"], g.held["b"] = 1, 0
			ended(g, g.drive(g.plant().ID), store.Completed)
		}},
		{"cancelled in an inner fork", ", joinStrategy: ANY_COMPLETED", func(g *grove) {
			g.held["x"], g.held["y"], g.held["b"] = 0, 0, 0
			ended(g, g.drive(g.plant().ID), store.Completed)
		}},
		{"failures wanted", ", joinStrategy: ALL_FAILED", func(g *grove) {
			g.answers["api"], g.answers["first"], g.answers["ui"] = []string{fails}, []string{fails}, []string{fails}
			row := g.drive(g.plant().ID)
			ended(g, row, store.Blocked) // like the called thread
			g.cancel(g.path("b").ID)
			ended(g, g.drive(row.ID), store.Completed)
		}},
		{"one failure wanted", ", joinStrategy: ANY_FAILED, losers: wait", func(g *grove) {
			g.answers["ui"] = []string{fails}
			ended(g, g.drive(g.plant().ID), store.Completed)
		}},
		{"a threshold", ", joinStrategy: SUCCESS_COUNT_THRESHOLD, threshold: 2", func(g *grove) {
			g.answers["api"] = []string{fails}
			ended(g, g.drive(g.plant().ID), store.Completed)
		}},
		{"time is up", ", timeout: 60", func(g *grove) {
			g.late, g.held["a"] = true, 1
			ended(g, g.drive(g.plant().ID), store.Completed)
		}},
		{"a called thread fails", "", func(g *grove) {
			g.answers["dig"] = []string{"---\n$status: lost\n---\nNothing."}
			ended(g, g.drive(g.plant().ID), store.Completed)
		}},
		{"a person is asked inside a path", "", func(g *grove) {
			g.answers["more"] = []string{`{"$status":"$SUSPEND","reason":"which?"}`, done}
			row := g.drive(g.plant().ID)
			ended(g, row, store.Blocked)
			g.sound()
			g.input(g.path("a"), "that one")
			ended(g, g.drive(row.ID), store.Completed)
		}},
		{"a person adds something before a path begins", "", func(g *grove) {
			g.held["a"] = 0
			row := g.drive(g.plant().ID)
			g.input(g.path("a"), "mind the gap")
			g.sound()
			delete(g.held, "a")
			ended(g, g.drive(row.ID), store.Completed)
		}},
		{"the whole is cancelled in a fork", "", func(g *grove) {
			g.held["a"], g.held["x"] = 2, 0
			row := g.drive(g.plant().ID)
			g.sound()
			g.cancel(row.ID)
			ended(g, g.row(row.ID), store.Cancelled)
		}},
		{"an engine that remembers nothing goes on", "", func(g *grove) {
			g.held["b"] = 0
			row := g.drive(g.plant().ID)
			g.restart()
			delete(g.held, "b")
			ended(g, g.drive(row.ID), store.Completed)
		}},
		{"forks by hand, in paths and out of them", "", func(g *grove) {
			row := g.drive(g.plant().ID)
			ended(g, row, store.Completed)
			a, x := g.path("a"), g.path("x")
			for _, f := range []store.Thread{g.byHand(a, 2), g.byHand(a, 4), g.byHand(a, 5), g.byHand(x, 3), g.byHand(row, 1)} {
				g.sound()
				g.input(g.row(f.ID), "differently")
				f = g.drive(f.ID)
				ended(g, f, store.Completed)
			}
			g.commit(store.Batch{Remove: []string{row.ID}})
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := newGrove(t, tree(tt.join)...)
			tt.grow(g)
			g.sound()
		})
	}
}

// A fork may come first in a flow, and a call first in a path.
func TestForkAtTheStartIsSound(t *testing.T) {
	text := strings.Replace(fmt.Sprintf(treeFlow, ""), `{new: {role: plan, prompt: "{{ prompt }}"}}`,
		`{new: {role: look, prompt: "{{ prompt }}"}}`, 1)
	text = strings.Replace(text, "  plan: {ready: {role: look, prompt: \"look\"}}\n", "", 1)
	text = strings.Replace(text, "  plan: {description: plans}\n", "", 1)
	text = strings.Replace(text, `, prompt: "read {{ what }}"`, "", 1)
	g := newGrove(t, text, subFlow, leafFlow)
	g.held["c"] = 0
	row := g.drive(g.plant().ID)
	g.sound()
	delete(g.held, "c")
	ended(t, g.drive(row.ID), store.Completed)
	g.sound()
}

// A join that cannot be met and has no route blocks; successors continue the paths.
func TestSuccessorsAreSound(t *testing.T) {
	text := strings.Replace(fmt.Sprintf(treeFlow, ", losers: wait"), "    failed: {role: report, prompt: \"no\"}\n", "", 1)
	g := newGrove(t, text, subFlow, leafFlow)
	g.answers["more"] = []string{fails, fails, done}
	g.answers["ui"] = []string{fails, done}
	row := g.drive(g.plant().ID)
	for range 2 {
		ended(t, row, store.Blocked)
		g.sound()
		err := g.engine.RetryPaths(ctx, row.ID, row.Head)
		g.must(err)
		g.sound()
		row = g.drive(row.ID)
	}
	ended(t, row, store.Completed)
	if n := g.path("a").Path.N; n != 3 {
		t.Errorf("path a was tried %d times, want 3", n)
	}
	g.sound()
}

// A caller calls again when its child failed and the flow has no route for that.
func TestCalledAgainIsSound(t *testing.T) {
	caller := `
version: 1
name: caller
roles: {ask: {flow: leaf}}
graph:
  $START: {new: {role: ask, prompt: "{{ prompt }}"}}
  ask: {done: {role: $END, prompt: "{{ _body }}"}}
`
	g := newGrove(t, caller, leafFlow)
	g.answers["dig"] = []string{"---\n$status: lost\n---\nNothing.", "---\n$status: found\n---\nGold."}
	row := g.drive(g.plant().ID)
	ended(t, row, store.Blocked)
	g.sound()
	if called, err := g.engine.CallAgain(ctx, row.ID, row.Head); err != nil || !called {
		t.Fatalf("called again: %t, %v", called, err)
	}
	g.sound()
	ended(t, g.drive(row.ID), store.Completed)
	g.sound()
}

// Whatever the agents answer, in whatever order paths end, and wherever the task
// is left, the record is sound.
func TestAnyTreeIsSound(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		join := rapid.SampledFrom([]string{
			"", ", joinStrategy: ANY_COMPLETED", ", joinStrategy: ALL_FAILED", ", joinStrategy: ANY_FAILED",
			", joinStrategy: SUCCESS_COUNT_THRESHOLD, threshold: 2",
		}).Draw(r, "strategy")
		join += rapid.SampledFrom([]string{"", ", losers: wait"}).Draw(r, "losers")
		join += rapid.SampledFrom([]string{"", ", mainPathId: b", ", mainPathId: c"}).Draw(r, "main")
		join += rapid.SampledFrom([]string{"", ", timeout: 60"}).Draw(r, "timeout")
		flows := tree(join)
		if rapid.Bool().Draw(r, "no route for failure") {
			flows[0] = strings.Replace(flows[0], "    failed: {role: report, prompt: \"no\"}\n", "", 1)
		}
		g := newGrove(r, flows...)
		g.late = strings.Contains(join, "timeout")
		said := func(role string, answers ...string) {
			g.answers[role] = append(rapid.SliceOfN(rapid.SampledFrom(append(answers, done)), 0, 3).Draw(r, role), done)
		}
		said("api", fails)
		said("inner-left", fails)
		said("inner-right", fails)
		said("ui", fails)
		said("more", fails, "---\n$status: back\n---\nOnce more.", `{"$status":"$SUSPEND","reason":"which?"}`)
		said("report", "---\n$status: again\n---\nAgain.")
		g.answers["dig"] = rapid.SliceOfN(rapid.SampledFrom([]string{
			"---\n$status: found\nn: 1\n---\nGold.", "---\n$status: found\n---\nGold.", "---\n$status: lost\n---\nNo.",
		}), 1, 3).Draw(r, "dig")
		for _, path := range []string{"a", "b", "c", "x", "y"} {
			if rapid.IntRange(0, 3).Draw(r, "hold "+path) == 0 {
				g.held[path] = rapid.IntRange(0, 2).Draw(r, "steps of "+path)
			}
		}
		row := g.drive(g.plant().ID)
		g.whole()
		if rapid.Bool().Draw(r, "restart") {
			g.restart()
		}
		clear(g.held)
		for range 3 {
			if row = g.drive(row.ID); row.Status == store.Blocked && row.Reason.Kind == "join" {
				err := g.engine.RetryPaths(ctx, row.ID, row.Head)
				g.must(err)
			}
			rows, err := g.s.Threads(ctx, store.ThreadFilter{})
			g.must(err)
			for _, t := range rows {
				if t.Status == store.Blocked && t.Reason.Kind == "input" {
					g.input(t, "that one")
				}
			}
		}
		g.whole()
		if from, at, ok := g.drawStep(r, 1); ok {
			f := g.byHand(from, at)
			g.input(f, "differently")
			g.drive(f.ID)
			g.whole()
		}
		if row = g.row(row.ID); !row.Ended() {
			g.cancel(row.ID)
			g.whole()
		}
	})
}

// drawStep draws a step at which a thread can be forked manually, and reports whether there is one. In a path it
// comes after own of the path's own steps: before those it is not in the path.
func (g *grove) drawStep(r *rapid.T, own int) (from store.Thread, at int, ok bool) {
	rows, err := g.s.Threads(ctx, store.ThreadFilter{})
	g.must(err)
	from = rapid.SampledFrom(rows).Draw(r, "forked by hand")
	least := 0
	if from.Kind == store.KindPath {
		least, err = g.reader.Length(ctx, from.Path.Fork)
		g.must(err)
		least += own
	}
	if from.Steps <= least {
		return from, 0, false
	}
	at = rapid.IntRange(least, from.Steps-1).Draw(r, "step")
	if through, err := g.reader.Steps(ctx, from.Head); err == nil && at > 0 && inside(through, at) {
		at = least // of a path that has been joined: the row does not say which
	}
	return from, at, true
}

// inside reports whether the n-th of steps was done in a path that they join later.
func inside(steps []thread.Step, n int) bool {
	for _, s := range steps[n:] {
		at := slices.IndexFunc(steps, func(t thread.Step) bool { return t.Hash == s.State.Fork })
		if s.State.Paths != nil && at < n-1 {
			return true
		}
	}
	return false
}

// loseEach loses each object once: it is missing, and nothing else is wrong.
func (g *grove) loseEach() {
	g.Helper()
	for e, err := range g.s.List(ctx) {
		g.must(err)
		o, err := g.s.Get(ctx, e.Hash)
		g.must(err)
		g.mem.Lose(e.Hash)
		r := mustReport(g, g.mem)
		if r.Integrity != verify.OK || r.Completeness != verify.Failed || !names(r, e.Hash, "missing") {
			g.Errorf("lost %s (%s):\n%.600s", e.Hash.Short(), o.Data[:min(len(o.Data), 60)], lines(r))
		}
		g.commit(store.Batch{Objects: []store.Object{o}})
	}
}

// What is lost of a tree is missing, and makes nothing else wrong.
func TestLostInATree(t *testing.T) {
	g := newGrove(t, tree(", joinStrategy: ANY_FAILED, losers: wait")...)
	g.answers["ui"] = []string{fails}
	row := g.drive(g.plant().ID)
	ended(t, row, store.Completed)
	g.drive(g.byHand(g.path("x"), 3).ID)
	g.whole()
	g.loseEach()
}
