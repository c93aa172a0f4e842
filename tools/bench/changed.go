package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/plait-run/plait/internal/record/store"
)

// changedLines is how many lines a change has whose page is measured: half of them in one file, the others in files of
// fifty lines.
const changedLines = 10_000

// changed makes the workspace of a thread a git repository in which so many lines change, and returns the path of the
// page of the change.
func (b *bench) changed(ctx context.Context, row store.Thread) (string, error) {
	var trees []string
	git := func(args ...string) (string, error) {
		cmd := exec.CommandContext(ctx, "git", args...)
		cmd.Dir = row.Workspace
		out, err := cmd.Output()
		return strings.TrimSpace(string(out)), err
	}
	if _, err := git("init", "-q"); err != nil {
		return "", fmt.Errorf("git init: %w", err)
	}
	for _, value := range []string{"left", "right"} {
		for i := range changedLines/100 + 1 {
			n := 25 // each is removed and added
			if i == 0 {
				n = changedLines / 4
			}
			text := "package sample\n\n" + strings.Repeat("	if total, err := sum("+value+", 17); err != nil { return \"no\" } // so\n", n)
			if err := os.WriteFile(filepath.Join(row.Workspace, fmt.Sprintf("f%03d.go", i)), []byte(text), 0o644); err != nil {
				return "", err
			}
		}
		if _, err := git("add", "-A"); err != nil {
			return "", fmt.Errorf("git add: %w", err)
		}
		tree, err := git("write-tree")
		if err != nil {
			return "", fmt.Errorf("git write-tree: %w", err)
		}
		trees = append(trees, tree)
	}
	return "/threads/" + row.ID + "/changes?from=" + trees[0] + "&to=" + trees[1], nil
}
