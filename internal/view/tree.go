package view

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/plait-run/plait/internal/dag"
	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/thread"
)

// A Tree is a thread with everything below it.
type Tree struct {
	ID     string        `json:"id"` // "" where the index knows none
	Flow   string        `json:"flow"`
	Kind   string        `json:"kind"`
	Status string        `json:"status"`
	Reason *store.Reason `json:"reason"`
	Path   *store.Path   `json:"path"`
	Head   dag.Hash      `json:"head"`
	Steps  []TreeStep    `json:"steps"` // of a path: its own, after the fork
	Loose  []Tree        `json:"loose"` // paths and calls that no step records (yet)
	Cut    bool          `json:"cut"`   // there is more below than was asked for
}

// A TreeStep is a step with what it called and joined.
type TreeStep struct {
	N      int        `json:"n"` // along the chain, from 1
	Hash   dag.Hash   `json:"hash"`
	Role   string     `json:"role"`
	Status string     `json:"status"` // see Outcome
	Path   string     `json:"path"`   // the path that it was done in, or ""
	Child  *Tree      `json:"child"`
	Paths  []TreePath `json:"paths"` // null when the step is no join
}

// A TreePath is a path as its join records it.
type TreePath struct {
	ID     string        `json:"id"`
	Status string        `json:"status"`
	Reason *store.Reason `json:"reason"`
	Thread string        `json:"thread"`
	Main   bool          `json:"main"`  // its steps stand before the join
	Steps  []TreeStep    `json:"steps"` // of the others
	Loose  []Tree        `json:"loose"`
	Cut    bool          `json:"cut"`
}

// Tree reads a thread, or the chain of a step, and everything below it, depth
// levels down; a negative depth is no bound.
func (b *Reader) Tree(ctx context.Context, of Subject, depth int) (*Tree, error) {
	kin, err := b.kin(ctx, of.Row)
	if err != nil {
		return nil, err
	}
	t, err := b.Nodes.Tree(ctx, kin, of.Row, of.Head, depth)
	if err != nil {
		return nil, err
	}
	return newTree(ctx, b.statuses(), t), nil
}

func newTree(ctx context.Context, stands statuses, t *thread.Tree) *Tree {
	v := &Tree{
		ID: t.Row.ID, Flow: t.Flow, Kind: t.Row.Kind, Status: stands.of(ctx, t.Row), Reason: t.Row.Reason, Path: t.Row.Path,
		Head: t.Head, Steps: []TreeStep{}, Loose: []Tree{}, Cut: t.Cut,
	}
	for _, s := range t.Steps {
		sv := TreeStep{N: s.N, Hash: s.Hash, Role: s.State.Role, Status: Outcome(s.State.Role, s.State.Meta), Path: s.Via}
		if s.Child != nil {
			sv.Child = newTree(ctx, stands, s.Child)
		}
		for _, p := range s.Paths {
			pv := TreePath{ID: p.ID, Status: p.Status, Thread: p.Thread, Main: p.Main, Steps: []TreeStep{}, Loose: []Tree{}}
			if p.Tree != nil {
				sub := newTree(ctx, stands, p.Tree)
				pv.Reason, pv.Steps, pv.Loose, pv.Cut = sub.Reason, sub.Steps, sub.Loose, sub.Cut
			}
			sv.Paths = append(sv.Paths, pv)
		}
		v.Steps = append(v.Steps, sv)
	}
	for i := range t.Loose {
		v.Loose = append(v.Loose, *newTree(ctx, stands, &t.Loose[i]))
	}
	return v
}

// maxOutcome bounds an outcome, in characters.
const maxOutcome = 40

// Outcome is how a step says that it ended, in a harmless line: the code of an
// end, else its $status.
func Outcome(role string, meta json.RawMessage) string {
	var m map[string]any
	json.Unmarshal(meta, &m) // stored meta is an object
	if role == thread.RoleEnd {
		return fmt.Sprintf("code %v", m["returnCode"])
	}
	status, _ := m["$status"].(string)
	return FirstLine(status, maxOutcome)
}
