package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/engine"
	"github.com/plait-run/plait/internal/gate"
	"github.com/plait-run/plait/internal/git"
	"github.com/plait-run/plait/internal/store"
)

// maxAskedDiff is how much of a patch a person is shown in a gate, in bytes. The branches
// have the whole.
const maxAskedDiff = 64 << 10

// askMerge asks a person about a merge, once: the gate binds the trees, what conflicts and
// what is protected.
func (d *drive) askMerge(ctx context.Context, at engine.Stand, f *engine.Fork, repo *git.Repo, from string, sides []sided, merged git.Merged) (store.Gate, error) {
	conflicts := map[string][]string{}
	for _, c := range merged.Conflicts {
		conflicts[c.Name] = shownAll(c.Paths)
	}
	overlaps := map[string][]string{}
	for file, names := range merged.Touched {
		if len(names) > 1 {
			overlaps[shown(file)] = names
		}
	}
	list := make([]map[string]any, len(sides))
	for i, s := range sides {
		list[i] = map[string]any{"path": s.Path, "branch": s.Branch, "base": s.Base, "tree": s.Tree, "protected": s.Protected}
	}
	diff, err := repo.Diff(ctx, from, merged.Tree)
	if err != nil && !errors.Is(err, git.ErrTooLarge) {
		return store.Gate{}, err
	}
	params, err := json.Marshal(map[string]any{"sides": list, "conflicts": conflicts, "overlaps": overlaps})
	if err != nil {
		return store.Gate{}, err
	}
	patch := shown(string(diff))
	if len(patch) > maxAskedDiff {
		patch = strings.ToValidUTF8(patch[:maxAskedDiff], "") + "\n… the branches have the rest\n"
	}
	action, err := json.Marshal(gate.Action{Type: gate.Merging, Diff: patch, Params: params})
	if err != nil {
		return store.Gate{}, err
	}
	g := store.Gate{
		Kind: store.GateApproval, Source: store.SourceMerge, Task: at.Task, Thread: at.ID, Node: f.Node, From: at.Head,
		Options: []string{"approve", "deny"}, Action: action, Question: mergeQuestion(sides, conflicts, overlaps),
	}
	if g.Digest, err = gate.Digest(at.ID, action); err != nil {
		return store.Gate{}, err
	}
	standing, ok, err := d.gates.Standing(ctx, at.ID, at.Head, g.Digest)
	if err == nil && !ok {
		standing, err = d.gates.Open(ctx, g)
	}
	if err == nil && standing.State == store.GateApproved && standing.UsedAt == 0 {
		standing, err = d.gates.Use(ctx, standing)
	}
	return standing, err
}

// mergeQuestion tells a person what the files of the paths come to.
func mergeQuestion(sides []sided, conflicts, overlaps map[string][]string) string {
	var b strings.Builder
	b.WriteString("May the files that agents changed be merged?\n")
	for _, s := range sides {
		fmt.Fprintf(&b, "- %s (branch %s)", s.Path, s.Branch)
		if files := conflicts[s.Path]; len(files) > 0 {
			fmt.Fprintf(&b, ": conflicts in %s", strings.Join(files, ", "))
		}
		if len(s.Protected) > 0 {
			fmt.Fprintf(&b, ": changes %s", strings.Join(s.Protected, ", "))
		}
		b.WriteByte('\n')
	}
	for _, file := range slices.Sorted(maps.Keys(overlaps)) {
		fmt.Fprintf(&b, "%s is changed by %s\n", file, strings.Join(overlaps[file], ", "))
	}
	b.WriteString("approve: what merges is merged, and what conflicts stays on its branch. deny: all of it stays on branches.")
	return b.String()
}

func asksMerge(g store.Gate) *store.Reason {
	return &store.Reason{Kind: store.ReasonConflict, Message: "the files of agents cannot be merged without a person; look with: plait gate show " + g.ID + ", then plait gate approve (or deny)"}
}
