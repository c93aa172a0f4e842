package thread

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
)

// handFork makes a manual fork of c's thread after n steps.
func (c *chain) handFork(id byte, n int) *grown {
	c.t.Helper()
	at := Step{Hash: c.row.Start}
	if n > 0 {
		at = c.steps[n-1]
	}
	row := Fork(c.row, "01JZ000000000000000000000"+string(id), at, n, 5)
	c.commit(nil, row, nil)
	return c.begin(row)
}

func (c *chain) diff(a, b store.Thread) Difference {
	c.t.Helper()
	d, err := NewReader(c.store).Diff(c.t.Context(), Side{a.Head, a.Steps}, Side{b.Head, b.Steps})
	if err != nil {
		c.t.Fatal(err)
	}
	return d
}

// drawPairs formats pairs as "3 role | 3 role", equal ones with "=".
func drawPairs(pairs []Pair) []string {
	out := []string{}
	side := func(p *NumberedStep) string {
		if p == nil {
			return "-"
		}
		return fmt.Sprintf("%d %s", p.N, p.State.Role)
	}
	for _, p := range pairs {
		mid := " | "
		if p.Same {
			mid = " = "
		}
		out = append(out, side(p.A)+mid+side(p.B))
	}
	return out
}

func TestDiffOfAHandFork(t *testing.T) {
	c := newChain(t).grow(3)
	f := c.handFork('A', 2)
	c.step(f, Draft{Role: RoleInput, Text: "mind the gap"})
	c.step(f, Draft{Role: "worker", Text: "minded"})
	d := c.diff(c.row, f.row)
	if d.N != 2 || d.Common != c.steps[1].Hash {
		t.Errorf("%d steps in common, up to %s", d.N, d.Common.Short())
	}
	want := []string{"- | 3 __input__", "3 worker | 4 worker"}
	if diff := cmp.Diff(want, drawPairs(d.Pairs)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	// Also the other way round, with itself, and with its own beginning.
	want = []string{"3 __input__ | -", "4 worker | 3 worker"}
	if diff := cmp.Diff(want, drawPairs(c.diff(f.row, c.row).Pairs)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if d := c.diff(f.row, f.row); len(d.Pairs) != 0 || d.N != 4 || d.Common != f.row.Head {
		t.Errorf("a thread differs from itself: %+v", d)
	}
	again := c.handFork('B', 1)
	if d := c.diff(c.row, again.row); len(d.Pairs) != 2 || d.N != 1 || d.Pairs[0].B != nil {
		t.Errorf("a thread and its beginning: %v", drawPairs(d.Pairs))
	}
	if d := c.diff(again.row, f.row); d.N != 1 || len(d.Pairs) != 3 {
		t.Errorf("two forks of one thread: %d in common, %v", d.N, drawPairs(d.Pairs))
	}
}

// TestDiffDoesNotReadWhatIsEqual checks that the cost depends only on the difference, however
// long the threads are.
func TestDiffDoesNotReadWhatIsEqual(t *testing.T) {
	c := newChain(t).grow(10_000)
	for i, tt := range []struct{ at, more int }{{10_000, 3}, {9_990, 3}, {9_997, 12}, {0, 0}, {9_000, 0}} {
		f := c.handFork(byte('A'+i), tt.at)
		for j := range tt.more {
			c.step(f, Draft{Role: "worker", Text: fmt.Sprint("other ", j)})
		}
		c.reads = 0
		d := c.diff(c.row, f.row)
		if d.N != tt.at || len(d.Pairs) != max(10_000-tt.at, tt.more) {
			t.Errorf("fork at %d: %d in common, %d pairs", tt.at, d.N, len(d.Pairs))
		}
		if most := 10_000 - tt.at + tt.more; c.reads > most {
			t.Errorf("fork at %d: %d nodes read, want at most the %d that differ", tt.at, c.reads, most)
		}
	}
	c.reads = 0
	if n, err := NewReader(c.store).Length(t.Context(), c.row.Head); err != nil || n != 10_000 ||
		c.reads > 10_000/Window+2 {
		t.Errorf("length %d (%v), with %d nodes read", n, err, c.reads)
	}
}

// TestDiffOfTwoRuns checks that equal steps of two runs of a flow are recognized, although the
// runs share no step.
func TestDiffOfTwoRuns(t *testing.T) {
	c := newChain(t)
	a := c.root()
	row := c.row
	row.ID, row.Task, row.Root = "01JB0000000000000000000000", "01JB0000000000000000000000", "01JB0000000000000000000000"
	c.commit(nil, row, nil)
	b := c.begin(row)
	b.made = 1000
	for i, role := range []string{"plan", "code", "review", "code", "review"} {
		c.step(a, Draft{Role: role, Text: "same " + fmt.Sprint(i)})
	}
	c.end(a, 0)
	c.step(b, Draft{Role: "plan", Text: "same 0"})
	c.step(b, Draft{Role: "code", Text: "another way"})
	c.step(b, Draft{Role: "test", Text: "in place of a review"})
	c.end(b, 0)
	d := c.diff(a.row, b.row)
	want := []string{
		"1 plan = 1 plan", "2 code | 2 code", "3 review | 3 test", "4 code | -", "5 review | -", "6 __end__ = 4 __end__",
	}
	if diff := cmp.Diff(want, drawPairs(d.Pairs)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if d.N != 0 || d.Common != c.row.Start {
		t.Errorf("%d steps in common, from %s", d.N, d.Common.Short())
	}

	// Another prompt: not even the start is shared.
	objects, other, err := Begin(NewTask{
		Row: store.Thread{ID: "01JC0000000000000000000000", CreatedAt: 1}, Prompt: "another task",
		Bundle: Bundle{Name: "f", Flows: map[string]json.RawMessage{"f": json.RawMessage(`{}`)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	c.commit(objects, other, nil)
	g := c.begin(other)
	c.step(g, Draft{Role: "plan", Text: "same 0", At: 77})
	if d := c.diff(a.row, g.row); d.N != 0 || !d.Common.IsZero() || !d.Pairs[0].Same || len(d.Pairs) != 6 {
		t.Errorf("%d in common at %q, %v", d.N, d.Common.Short(), drawPairs(d.Pairs))
	}
}

// TestDiffAcrossAJoin checks that the loser and the thread diverge at the fork.
func TestDiffAcrossAJoin(t *testing.T) {
	c, root, lost, _ := solve(t)
	d := c.diff(root.row, lost.row)
	if d.N != 2 || d.Common != lost.row.Path.Fork {
		t.Errorf("%d in common, up to %s", d.N, d.Common.Short())
	}
	if got := drawPairs(d.Pairs)[0]; got != "3 look-right | 3 read-db" {
		t.Errorf("first pair: %s", got)
	}
}

// TestDiffsOfAnyTwoForks compares with a walk of both entire chains, also when the
// given lengths are wrong.
func TestDiffsOfAnyTwoForks(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := newChain(t).grow(rapid.IntRange(0, 20).Draw(rt, "shared"))
		make := func(id byte, name string) *grown {
			g := c.handFork(id, rapid.IntRange(0, len(c.steps)).Draw(rt, name+" at"))
			for i := range rapid.IntRange(0, 6).Draw(rt, name+" more") {
				role := rapid.SampledFrom([]string{"plan", "code", RoleInput}).Draw(rt, "role")
				c.step(g, Draft{Role: role, Text: string(id) + fmt.Sprint(i)})
			}
			return g
		}
		a, b := make('A', "a"), make('B', "b")
		steps := func(g *grown) []dag.Hash {
			all, err := c.r.Steps(t.Context(), g.row.Head)
			if err != nil {
				rt.Fatal(err)
			}
			return hashes(all)
		}
		as, bs := steps(a), steps(b)
		n := 0
		for n < min(len(as), len(bs)) && as[n] == bs[n] {
			n++
		}
		d := c.diff(a.row, b.row)
		if d.N != n {
			rt.Fatalf("%d steps in common, want %d", d.N, n)
		}
		gotA, gotB := []dag.Hash{}, []dag.Hash{}
		for _, p := range d.Pairs {
			if p.A != nil {
				gotA = append(gotA, p.A.Hash)
			}
			if p.B != nil {
				gotB = append(gotB, p.B.Hash)
			}
		}
		if diff := cmp.Diff(as[n:], gotA); diff != "" {
			rt.Errorf("a: -want +got\n%s", diff)
		}
		if diff := cmp.Diff(bs[n:], gotB); diff != "" {
			rt.Errorf("b: -want +got\n%s", diff)
		}
		wrong, err := c.r.Diff(t.Context(), Side{a.row.Head, rapid.IntRange(0, 30).Draw(rt, "wrong a")},
			Side{b.row.Head, rapid.IntRange(0, 30).Draw(rt, "wrong b")})
		if err != nil {
			rt.Fatal(err)
		}
		if wrong.Common != d.Common || len(wrong.Pairs) != len(d.Pairs) {
			rt.Errorf("with wrong lengths the chains meet elsewhere")
		}
	})
}
