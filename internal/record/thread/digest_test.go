package thread

import (
	"testing"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
)

// forked is a chain with n forks of three paths, each joined after its first or at the fork, with a called
// thread, a cancelled path and a summary.
func forked(t *testing.T, n int, pointing bool) (*chain, *grown) {
	c := newChain(t)
	c.pointing = pointing
	g := c.root()
	for i := range n {
		c.step(g, Draft{Role: "plan", Text: "plan"})
		child := c.call(g, "check", i+1, 1)
		c.step(child, Draft{Role: "checker", Text: "checked"})
		c.step(g, Draft{Role: "check", Text: "called", ChildThread: child.row.Head})
		paths := c.fork(g, "a", "b", "c")
		for _, p := range paths {
			c.step(p, Draft{Role: "worker", Text: "of " + p.row.Path.ID})
		}
		main := paths[0]
		if i%2 == 1 {
			main = nil
			c.mark(paths[2], store.Cancelled)
		}
		c.join(g, main, paths...)
		c.step(g, Draft{Role: RoleCompact, Text: "summary", Compact: true})
	}
	return c, g
}

// TestDigestOfJoins checks the digest of a record with all kinds of steps, and that each step is digested once: a path
// shares the chain before its fork.
func TestDigestOfJoins(t *testing.T) {
	digest := func(joins int, pointing bool) (d dag.Hash, work float64) {
		c, g := forked(t, joins, pointing)
		work = testing.AllocsPerRun(1, func() {
			var err error
			if d, err = c.r.Digest(t.Context(), g.row.Head); err != nil {
				t.Fatal(err)
			}
		})
		return d, work
	}
	for pointing, want := range map[bool]string{
		true:  "598af84c05a68eec85a824b28d0570c33cefb12e227879a5c1c86782bde322f1", // as before schema 9
		false: "0ec62e85a08424b59a0d80b22d4b3f1585cda2d7de4ec9a7bddcc3d1437f4745",
	} {
		if d, _ := digest(3, pointing); d.String() != want {
			t.Errorf("the digest is %s, want %s", d, want)
		}
	}
	_, few := digest(3, false)
	if _, many := digest(6, false); many > 3*few {
		t.Fatalf("three joins take %.0f allocations, six %.0f", few, many)
	}
	digest(20, false)
}
