package main

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReferences(t *testing.T) {
	h := build(t, source{"p", []string{
		"package p\n\ntype A struct{ b B }\n\nfunc (a A) do() { a.b.do() }\n",
		"package p\n\ntype B struct{}\n\nfunc (B) do() { a := C(); a.do(); var A interface{ do() }; A.do() }\n",
		"package p\n\nfunc C() A { B := A{}; return B }\n",
	}})
	for _, tt := range []struct {
		methods bool
		want    graph
	}{
		{false, arrows(3, [2]int{0, 1}, [2]int{1, 2}, [2]int{2, 0})},
		{true, arrows(3, [2]int{0, 1}, [2]int{1, 2}, [2]int{2, 0}, [2]int{1, 0})},
	} {
		names, g := h.packages[0].references(h, tt.methods)
		if diff := cmp.Diff([]string{"0.go", "1.go", "2.go"}, names); diff != "" {
			t.Errorf("-want +got\n%s", diff)
		}
		if diff := cmp.Diff(tt.want, g); diff != "" {
			t.Errorf("with methods %t: -want +got\n%s", tt.methods, diff)
		}
	}
}

// arrows makes a graph of n files with references from one to another.
func arrows(n int, of ...[2]int) graph {
	g := newGraph(n)
	for _, a := range of {
		g[a[0]][a[1]] = true
	}
	return g
}

func TestBestOrder(t *testing.T) {
	for _, tt := range []struct {
		name string
		g    graph
		want int
	}{
		{"nothing", arrows(0), 0},
		{"no references", arrows(3), 0},
		{"a chain", arrows(4, [2]int{3, 2}, [2]int{2, 1}, [2]int{1, 0}), 0},
		{"a circle", arrows(3, [2]int{0, 1}, [2]int{1, 2}, [2]int{2, 0}), 1},
		{"each the other", arrows(2, [2]int{0, 1}, [2]int{1, 0}), 1},
		{"two circles with a file in common", arrows(5, [2]int{0, 1}, [2]int{1, 2}, [2]int{2, 0}, [2]int{2, 3},
			[2]int{3, 4}, [2]int{4, 2}), 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := backward(tt.g, bestOrder(tt.g)); got != tt.want {
				t.Errorf("%d run back, want %d", got, tt.want)
			}
		})
	}
}

// TestNoBetterOrder: with few files, no order is better than the one found.
func TestNoBetterOrder(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 100 {
		g := newGraph(6)
		for i := range g {
			for j := range g {
				g[i][j] = i != j && random.IntN(3) == 0
			}
		}
		order := bestOrder(g)
		least := backward(g, order)
		if sorted := slices.Sorted(slices.Values(order)); !slices.Equal(sorted, []int{0, 1, 2, 3, 4, 5}) {
			t.Fatalf("the order is %v", order)
		}
		each([]int{0, 1, 2, 3, 4, 5}, 0, func(other []int) {
			if n := backward(g, other); n < least {
				t.Fatalf("%v: %d run back in %v, %d in %v", g, least, order, n, other)
			}
		})
	}
}

// each calls do with each order of the part from at on.
func each(order []int, at int, do func([]int)) {
	if at == len(order) {
		do(order)
		return
	}
	for i := at; i < len(order); i++ {
		order[at], order[i] = order[i], order[at]
		each(order, at+1, do)
		order[at], order[i] = order[i], order[at]
	}
}
