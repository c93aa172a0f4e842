package view

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/sys/text"
)

// A Tree is a thread with everything below it.
type Tree struct {
	ID     string           `json:"id"` // "" if not in the index
	Flow   string           `json:"flow"`
	Kind   store.ThreadKind `json:"kind"`
	Status store.Status     `json:"status"`
	Reason *store.Reason    `json:"reason"`
	Path   *store.Path      `json:"path"`
	Head   dag.Hash         `json:"head"`
	Steps  []TreeStep       `json:"steps"` // of a path: its own, after the fork
	Loose  []Tree           `json:"loose"` // paths and calls that no step records yet
	Cut    bool             `json:"cut"`   // there is more below the requested depth
}

// A TreeStep is a step with what it called and joined.
type TreeStep struct {
	N      int        `json:"n"` // along the chain, from 1
	Hash   dag.Hash   `json:"hash"`
	Role   string     `json:"role"`
	Status string     `json:"status"` // see Outcome
	Path   string     `json:"path"`   // the path it belongs to, or ""
	Child  *Tree      `json:"child"`
	Paths  []TreePath `json:"paths"` // null when the step is no join
}

// A TreePath is a path as its join records it.
type TreePath struct {
	ID     string        `json:"id"`
	Status store.Status  `json:"status"`
	Reason *store.Reason `json:"reason"`
	Thread string        `json:"thread"`
	Main   bool          `json:"main"`  // its steps precede the join
	Steps  []TreeStep    `json:"steps"` // of the others
	Loose  []Tree        `json:"loose"`
	Cut    bool          `json:"cut"`
}

// Tree reads a thread, or the chain of a step, and what is below it, depth levels down. A
// negative depth means all levels, 0 only the steps themselves.
func (b *Reader) Tree(ctx context.Context, of Subject, depth int) (*Tree, error) {
	lineage, err := b.lineage(ctx, of.Row)
	if err != nil {
		return nil, err
	}
	t := treeReader{b.Nodes, lineage, b.statuses(), map[[2]dag.Hash]bool{}, map[string]bool{of.Row.ID: true}}
	var from dag.Hash
	first := 1
	if of.Row.Kind == store.KindPath && of.Row.Path != nil {
		from = of.Row.Path.Fork
		n, err := b.Nodes.Length(ctx, from)
		if err != nil {
			return nil, err
		}
		first = n + 1
	}
	tree, err := t.read(ctx, of.Row, of.Head, from, first, depth)
	if err != nil {
		return nil, fmt.Errorf("read tree of %s: %w", of.Head.Short(), err)
	}
	return tree, nil
}

// maxOutcome limits an outcome, in characters.
const maxOutcome = 40

// Outcome returns how a step ended, safe to print on one line: the code of an end,
// otherwise its $status.
func Outcome(role string, meta json.RawMessage) string {
	var m map[string]any
	json.Unmarshal(meta, &m) // stored meta is an object
	if role == thread.RoleEnd {
		return fmt.Sprintf(endOutcome, m["returnCode"])
	}
	status, _ := m["$status"].(string)
	return text.FirstLine(status, maxOutcome)
}

const endOutcome = "code %v"

// EndStatus returns the status of a thread whose end has that Outcome.
func EndStatus(outcome string) store.Status {
	switch outcome {
	case fmt.Sprintf(endOutcome, thread.CodeDone):
		return store.Completed
	case fmt.Sprintf(endOutcome, thread.CodeCancelled):
		return store.Cancelled
	}
	return store.Failed
}

// A treeReader reads one tree.
type treeReader struct {
	*thread.Reader
	lineage  thread.Lineage
	statuses statuses
	// Chains and threads that are already in the tree. In a sound record none occurs twice; in a
	// forged one the tree could double at every level.
	chains  map[[2]dag.Hash]bool // recorded by a step
	threads map[string]bool      // not recorded by a step
}

// read reads the chain at head down to from (exclusive). first is the number of its first step.
func (t *treeReader) read(ctx context.Context, row store.Thread, head, from dag.Hash, first, depth int) (*Tree, error) {
	tree := t.newTree(ctx, row, head)
	startHash, err := t.StartOf(ctx, head)
	if err != nil {
		return nil, err
	}
	start, err := t.Start(ctx, startHash)
	if err != nil {
		return nil, err
	}
	tree.Flow = start.Name
	var steps []thread.Step
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
	via := thread.StepPaths(steps, thread.PathOf(row))
	for i, s := range steps {
		number[s.Hash] = first + i
		role := s.State.Role
		step := TreeStep{N: first + i, Hash: s.Hash, Role: role, Status: Outcome(role, s.State.Meta), Path: via[i]}
		if err := t.below(ctx, &step, s.State, number, known, depth); err != nil {
			return nil, err
		}
		tree.Cut = tree.Cut || depth == 0 && (!s.State.ChildThread.IsZero() || s.State.Paths != nil)
		tree.Steps = append(tree.Steps, step)
	}
	return tree, t.loose(ctx, tree, number, known, depth)
}

// newTree returns a tree without steps.
func (t *treeReader) newTree(ctx context.Context, row store.Thread, head dag.Hash) *Tree {
	return &Tree{
		ID: row.ID, Flow: row.Flow, Kind: row.Kind, Status: t.statuses.of(ctx, row), Reason: row.Reason, Path: row.Path,
		Head: head, Steps: []TreeStep{}, Loose: []Tree{},
	}
}

// recorded reads a chain that a step refers to.
func (t *treeReader) recorded(
	ctx context.Context, row store.Thread, head, from dag.Hash, first, depth int,
) (*Tree, error) {
	key := [2]dag.Hash{head, from}
	if t.chains[key] && head != from {
		tree := t.newTree(ctx, row, head)
		tree.Cut = true
		return tree, nil
	}
	t.chains[key] = true
	return t.read(ctx, row, head, from, first, depth)
}

// below reads what step called and joined, and adds the threads that it records to known.
func (t *treeReader) below(
	ctx context.Context, step *TreeStep, s *thread.State, number map[dag.Hash]int, known map[string]bool, depth int,
) error {
	if !s.ChildThread.IsZero() {
		row, _ := t.lineage.Child(s.ChildThread)
		known[row.ID] = true
		if depth != 0 {
			var err error
			if step.Child, err = t.recorded(ctx, row, s.ChildThread, dag.Hash{}, 1, depth-1); err != nil {
				return err
			}
		}
	}
	main := s.MainPath()
	for i, p := range s.Paths {
		known[p.Thread] = true
		path := TreePath{ID: p.ID, Status: p.Status, Thread: p.Thread, Main: i == main,
			Steps: []TreeStep{}, Loose: []Tree{}}
		row := pathRow(t.lineage, p, s.Fork)
		if depth != 0 && !path.Main {
			from, first := ownFrom(row, s.Fork), 1
			if !from.IsZero() {
				first = number[from] + 1
			}
			sub, err := t.recorded(ctx, row, p.Head, from, first, depth-1)
			if err != nil {
				return err
			}
			path.Reason, path.Steps, path.Loose, path.Cut = sub.Reason, sub.Steps, sub.Loose, sub.Cut
		}
		step.Paths = append(step.Paths, path)
	}
	return nil
}

// pathRow returns the row of a path of the fork, as its join records it.
func pathRow(lineage thread.Lineage, p thread.PathHead, fork dag.Hash) store.Thread {
	row, ok := lineage.Thread(p.Thread)
	if !ok {
		row = store.Thread{ID: p.Thread, Kind: store.KindPath, Path: &store.Path{ID: p.ID, Fork: fork}}
	}
	row.Status, row.Head = p.Status, p.Head
	return row
}

// ownFrom returns the step before the first own step of a thread that began at the fork. A
// spawned thread has its own chain, from its start.
func ownFrom(row store.Thread, fork dag.Hash) dag.Hash {
	if row.Kind == store.KindPath {
		return fork
	}
	return dag.Hash{}
}

// loose adds the threads below tree's that no step records, and those below the paths that the
// chain continues.
func (t *treeReader) loose(
	ctx context.Context, tree *Tree, number map[dag.Hash]int, known map[string]bool, depth int,
) error {
	if tree.ID == "" {
		return nil
	}
	rows := slices.Clone(t.lineage.Children(tree.ID))
	for _, s := range tree.Steps {
		for _, p := range s.Paths {
			if p.Main {
				rows = append(rows, t.lineage.Children(p.Thread)...)
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
