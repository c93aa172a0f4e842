package view

import (
	"context"
	"encoding/json"
	"fmt"

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
