package thread

import (
	"context"
	"fmt"
	"slices"

	"github.com/plait-run/plait/internal/dag"
	"github.com/plait-run/plait/internal/store"
)

// A Tree is a thread with everything below it: what its steps called, what ran in
// its forks, and what runs now.
type Tree struct {
	Row   store.Thread // the zero Thread when the index knows none
	Flow  string
	Head  dag.Hash
	Steps []TreeStep // of a path: its own, after the fork
	// Loose are the paths and calls that no step records: those that have not
	// ended, and those that came to nothing.
	Loose []Tree
	Cut   bool // there is more below, beyond the depth asked for
}

// A TreeStep is a step and what hangs on it.
type TreeStep struct {
	Placed
	Via   string     // the path that it was done in, see Via
	Child *Tree      // what it called
	Paths []TreePath // what it joins, in fork order
}

// A TreePath is a path as its join records it.
type TreePath struct {
	PathHead
	Main bool  // the conversation goes on through it: its steps stand before the join
	Tree *Tree // of the others; nil beyond the depth asked for
}

// A treeReader reads one tree.
type treeReader struct {
	*Reader
	kin Kin
	// chains and threads stand in the tree already. In a sound record none is met
	// twice; in a forged one the tree could double with every level.
	chains  map[[2]dag.Hash]bool // that a step records
	threads map[string]bool      // loose ones
}

// Tree reads the tree of the chain at head, depth levels down; a negative depth
// is no bound, 0 reads only the steps themselves. row is the thread whose head it
// is, or the zero Thread.
func (r *Reader) Tree(ctx context.Context, kin Kin, row store.Thread, head dag.Hash, depth int) (*Tree, error) {
	t := treeReader{r, kin, map[[2]dag.Hash]bool{}, map[string]bool{row.ID: true}}
	var from dag.Hash
	first := 1
	if row.Kind == store.KindPath && row.Path != nil {
		from = row.Path.Fork
		n, err := r.Length(ctx, from)
		if err != nil {
			return nil, err
		}
		first = n + 1
	}
	tree, err := t.read(ctx, row, head, from, first, depth)
	if err != nil {
		return nil, fmt.Errorf("read tree of %s: %w", head.Short(), err)
	}
	return tree, nil
}

// read reads the chain at head down to from, which is left out; its first step
// has the number first.
func (t *treeReader) read(ctx context.Context, row store.Thread, head, from dag.Hash, first, depth int) (*Tree, error) {
	tree := &Tree{Row: row, Head: head}
	startHash, err := t.StartOf(ctx, head)
	if err != nil {
		return nil, err
	}
	start, err := t.Start(ctx, startHash)
	if err != nil {
		return nil, err
	}
	tree.Flow = start.Name
	var steps []Step
	for s, err := range t.Walk(ctx, head) {
		if err != nil {
			return nil, err
		}
		if s.Hash == from {
			break
		}
		steps = append(steps, s)
	}
	slices.Reverse(steps)
	number := map[dag.Hash]int{from: first - 1, startHash: 0}
	known := map[string]bool{}
	via := Via(steps, PathOf(row))
	for i, s := range steps {
		number[s.Hash] = first + i
		step := TreeStep{Placed: Placed{s, first + i}, Via: via[i]}
		if err := t.below(ctx, &step, number, known, depth); err != nil {
			return nil, err
		}
		tree.Cut = tree.Cut || depth == 0 && (!s.State.ChildThread.IsZero() || s.State.Paths != nil)
		tree.Steps = append(tree.Steps, step)
	}
	return tree, t.loose(ctx, tree, number, known, depth)
}

// recorded reads a chain that a step names.
func (t *treeReader) recorded(ctx context.Context, row store.Thread, head, from dag.Hash, first, depth int) (*Tree, error) {
	key := [2]dag.Hash{head, from}
	if t.chains[key] && head != from {
		return &Tree{Row: row, Flow: row.Flow, Head: head, Cut: true}, nil
	}
	t.chains[key] = true
	return t.read(ctx, row, head, from, first, depth)
}

// below reads what hangs on step, and notes which threads it records.
func (t *treeReader) below(ctx context.Context, step *TreeStep, number map[dag.Hash]int, known map[string]bool, depth int) error {
	s := step.State
	if !s.ChildThread.IsZero() {
		row, _ := t.kin.Child(s.ChildThread)
		known[row.ID] = true
		if depth != 0 {
			var err error
			if step.Child, err = t.recorded(ctx, row, s.ChildThread, dag.Hash{}, 1, depth-1); err != nil {
				return err
			}
		}
	}
	main := s.Main()
	for i, p := range s.Paths {
		known[p.Thread] = true
		path := TreePath{PathHead: p, Main: i == main}
		row, ok := t.kin.Thread(p.Thread)
		if !ok {
			row = store.Thread{ID: p.Thread, Kind: store.KindPath, Status: p.Status}
		}
		row.Status = p.Status
		if depth != 0 && !path.Main {
			from := s.Fork
			first := number[from] + 1
			if row.Kind != store.KindPath { // a spawned child has a chain of its own
				from, first = dag.Hash{}, 1
			}
			var err error
			if path.Tree, err = t.recorded(ctx, row, p.Head, from, first, depth-1); err != nil {
				return err
			}
		}
		step.Paths = append(step.Paths, path)
	}
	return nil
}

// loose adds the threads below tree's that no step records, and those below the
// paths that the chain goes through.
func (t *treeReader) loose(ctx context.Context, tree *Tree, number map[dag.Hash]int, known map[string]bool, depth int) error {
	if tree.Row.ID == "" {
		return nil
	}
	rows := slices.Clone(t.kin.Below(tree.Row.ID))
	for _, s := range tree.Steps {
		for _, p := range s.Paths {
			if p.Main {
				rows = append(rows, t.kin.Below(p.Thread)...)
			}
		}
	}
	for _, row := range rows {
		if known[row.ID] || t.threads[row.ID] {
			continue
		}
		if depth == 0 {
			tree.Cut = true
			return nil
		}
		t.threads[row.ID] = true
		var from dag.Hash
		first := 1
		if row.Kind == store.KindPath && row.Path != nil {
			from = row.Path.Fork
			first = number[from] + 1
		}
		sub, err := t.read(ctx, row, row.Head, from, first, depth-1)
		if err != nil {
			return err
		}
		tree.Loose = append(tree.Loose, *sub)
	}
	return nil
}
