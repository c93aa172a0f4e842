package thread

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
)

func TestStackOfACall(t *testing.T) {
	c := newChain(t)
	root := c.root()
	prepared := c.step(root, Draft{Role: "preparer", Text: "ready"})
	child := c.call(root, "developer", 0, 1)
	start := child.row.Start
	planned := c.step(child, Draft{Role: "planner", Text: "a plan"})
	first := c.call(child, "reader", 0, 2)
	read := c.step(first, Draft{Role: "read", Text: "read"})
	want := []Frame{
		{read.Hash, dag.TypeState, "read", "flow-of-reader", 2},
		{first.row.Start, dag.TypeStart, "", "flow-of-reader", 2},
		{planned.Hash, dag.TypeState, "planner", "flow-of-developer", 1},
		{start, dag.TypeStart, "", "flow-of-developer", 1},
		{prepared.Hash, dag.TypeState, "preparer", "f", 0},
		{c.row.Start, dag.TypeStart, "", "f", 0},
	}
	got, err := c.r.Stack(t.Context(), read.Hash)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	// From a start, and from the middle.
	for i := 1; i < len(want); i++ {
		got, err := c.r.Stack(t.Context(), want[i].Hash)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want[i:], got); diff != "" {
			t.Errorf("from frame %d: -want +got\n%s", i, diff)
		}
	}
	if _, err := c.r.Stack(t.Context(), read.State.Content); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the stack of a text: %v, want ErrNotFound", err)
	}
	if _, err := c.r.Stack(t.Context(), dag.Sum([]byte("nothing"))); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the stack of nothing: %v, want ErrNotFound", err)
	}
}

// TestDeepStacks checks that a call before any step has its caller's start as parent.
func TestDeepStacks(t *testing.T) {
	const deep = 64
	c := newChain(t)
	g := c.root()
	for depth := 1; depth <= deep; depth++ {
		g = c.call(g, fmt.Sprintf("r%d", depth), 0, depth)
	}
	frames, err := NewReader(c.store).Stack(t.Context(), g.row.Head)
	if err != nil {
		t.Fatal(err)
	}
	if len(frames) != deep+1 || frames[0].Depth != deep || frames[deep].Hash != c.row.Start {
		t.Fatalf("%d frames, from depth %d", len(frames), frames[0].Depth)
	}
}

func TestStackFindsAWrongDepth(t *testing.T) {
	for _, tt := range []struct {
		name  string
		depth int
	}{{"too deep", 2}, {"not deep enough", 0}, {"below the top", -1}} {
		t.Run(tt.name, func(t *testing.T) {
			c := newChain(t)
			root := c.root()
			c.step(root, Draft{Role: "preparer", Text: "ready"})
			child := c.call(root, "developer", 0, tt.depth)
			if _, err := c.r.Stack(t.Context(), child.row.Head); !errors.Is(err, store.ErrCorrupt) {
				t.Errorf("got %v, want ErrCorrupt", err)
			}
		})
	}
	t.Run("a top that was called", func(t *testing.T) {
		c := newChain(t)
		s := c.grow(1).steps[0]
		start, err := c.r.Start(t.Context(), c.row.Start)
		if err != nil {
			t.Fatal(err)
		}
		forged := *start
		forged.Depth = 3
		node, err := NewNode(dag.TypeStart, forged)
		if err != nil {
			t.Fatal(err)
		}
		r := NewReader(edited{c.store, c.row.Start, node.Data})
		if _, err := r.Stack(t.Context(), s.Hash); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("got %v, want ErrCorrupt", err)
		}
	})
}

// TestStacksOfAnyTree checks that, however threads call each other, a step's stack has one
// start for each level, with its own and its callers' steps in between.
func TestStacksOfAnyTree(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := newChain(t)
		threads := []*grown{c.root()}
		depth := []int{0}
		parent := []int{-1}
		heads := [][]dag.Hash{{}} // steps of each thread
		called := []int{0}        // how many steps the caller had
		for i := range rapid.IntRange(0, 30).Draw(rt, "moves") {
			at := rapid.IntRange(0, len(threads)-1).Draw(rt, "thread")
			if rapid.Bool().Draw(rt, "call") {
				threads = append(threads, c.call(threads[at], fmt.Sprintf("r%d", i), 0, depth[at]+1))
				depth, parent = append(depth, depth[at]+1), append(parent, at)
				called, heads = append(called, len(heads[at])), append(heads, nil)
				continue
			}
			s := c.step(threads[at], Draft{Role: "worker", Text: fmt.Sprint(i)})
			heads[at] = append(heads[at], s.Hash)
		}
		for i, g := range threads {
			frames, err := c.r.Stack(t.Context(), g.row.Head)
			if err != nil {
				rt.Fatal(err)
			}
			var want []dag.Hash
			for at, steps := i, len(heads[i]); at >= 0; at, steps = parent[at], called[at] {
				if steps > 0 {
					want = append(want, heads[at][steps-1])
				}
				want = append(want, threads[at].row.Start)
			}
			var got []dag.Hash
			for _, f := range frames {
				got = append(got, f.Hash)
			}
			starts := len(slices.DeleteFunc(slices.Clone(frames), func(f Frame) bool { return f.Type != dag.TypeStart }))
			if starts != depth[i]+1 {
				rt.Errorf("a thread at depth %d has %d starts above it", depth[i], starts)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				rt.Errorf("-want +got\n%s", diff)
			}
		}
	})
}
