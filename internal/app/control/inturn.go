package control

import (
	"context"
	"encoding/json"

	"github.com/plait-run/plait/internal/files/worktree"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// InTurn returns why parts of a flow that change files take turns in a directory, "" if they do not: without
// git they cannot have their own working trees. It is an error if the directory's repository cannot be used.
func (c *Controller) InTurn(ctx context.Context, b thread.Bundle, dir string) (string, error) {
	leased, err := worktree.UnderGit(ctx, dir)
	if leased || err != nil {
		return "", err
	}
	defs := map[string]*flow.Definition{}
	for name, text := range b.Flows {
		def := new(flow.Definition)
		if json.Unmarshal(text, def) == nil {
			defs[name] = def
		}
	}
	for _, def := range defs {
		if writersOverlap(def, func(name string) *flow.Definition { return defs[name] }) {
			return "This directory is not in a git repository: agents that change files work in it one after another. " +
				"In one, each gets a worktree of its own.", nil
		}
	}
	return "", nil
}

// UnderGit reports whether the directory of a task is in a git repository, so that changes of its files are recorded.
func (c *Controller) UnderGit(ctx context.Context, root store.Thread) bool {
	leased, err := worktree.UnderGit(ctx, worktree.Of(root))
	return leased && err == nil
}

// writersOverlap reports whether several parts of a flow may change files at the same time.
func writersOverlap(def *flow.Definition, called func(name string) *flow.Definition) bool {
	if len(def.Plans()) > 0 {
		return true
	}
	for _, f := range def.Forks {
		writers := 0
		for _, p := range f.Paths {
			if f.Strategy != flow.Serial && def.Writes(def.Inside(p.ID), called) {
				writers++
			}
		}
		if writers > 1 {
			return true
		}
	}
	return false
}
