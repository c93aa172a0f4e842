package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/files/worktree"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// maxAskedDiff is how much of a patch a gate shows a person, in bytes. The branches have the whole patch.
const maxAskedDiff = 64 << 10

// askMerge asks a person about a merge, once. The gate binds the trees, the conflicts and the protected files.
func (e *Engine) askMerge(ctx context.Context, at store.Thread, f *forkState, m *thread.Merge,
	merged worktree.Merged) (store.Gate, error) {
	list := make([]map[string]any, len(m.Sides))
	for i, s := range m.Sides {
		list[i] = map[string]any{"path": s.Path, "branch": s.Branch, "base": s.Base, "tree": s.Tree,
			"protected": s.Protected}
	}
	patch, err := e.cfg.Trees.Diff(ctx, at, m.From, merged.Tree)
	if err != nil && !errors.Is(err, worktree.ErrTooLarge) {
		return store.Gate{}, err
	}
	if len(patch) > maxAskedDiff {
		patch = strings.ToValidUTF8(patch[:maxAskedDiff], "") + "\n… the branches have the rest\n"
	}
	g, err := approval(store.Gate{
		Source: store.SourceMerge, Task: at.Task, Thread: at.ID, Node: f.Node, From: at.Head,
		Options: []string{"approve", "deny"}, Question: mergeQuestion(m.Sides, merged),
	}, gate.Action{Type: gate.Merging, Diff: patch},
		map[string]any{"sides": list, "conflicts": merged.Conflicts, "overlaps": merged.Overlaps})
	if err != nil {
		return store.Gate{}, err
	}
	effective, err := e.gates.Ask(ctx, g)
	if err == nil && effective.State == store.GateApproved && effective.UsedAt == 0 {
		effective, err = e.gates.Use(ctx, effective)
	}
	return effective, err
}

// mergeQuestion returns the question about a merge: what merges, what conflicts, what is protected.
func mergeQuestion(sides []thread.MergedSide, merged worktree.Merged) string {
	var b strings.Builder
	b.WriteString("Merge the agents' changes?\n")
	for _, s := range sides {
		fmt.Fprintf(&b, "- %s (branch %s)", s.Path, s.Branch)
		if files := merged.Conflicts[s.Path]; len(files) > 0 {
			fmt.Fprintf(&b, ": conflicts in %s", strings.Join(files, ", "))
		}
		if len(s.Protected) > 0 {
			fmt.Fprintf(&b, ": changes %s", strings.Join(s.Protected, ", "))
		}
		b.WriteByte('\n')
	}
	for _, file := range slices.Sorted(maps.Keys(merged.Overlaps)) {
		fmt.Fprintf(&b, "%s is changed by %s\n", file, strings.Join(merged.Overlaps[file], ", "))
	}
	b.WriteString("Approve: changes without conflicts are merged, the others stay on their branches. Deny: all " +
		"changes stay on branches.")
	return b.String()
}

func mergeReason(g store.Gate) *store.Reason {
	return &store.Reason{Kind: store.ReasonConflict, Gate: g.ID, Message: "the agents' changes cannot be merged " +
		"without your decision"}
}
