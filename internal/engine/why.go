package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/engine/attempt"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// maxListed is how many threads a reason tells of; of more it tells of the first, and how many the others are.
const maxListed = 3

// describeStopped says why threads are blocked or have failed. What is the same for several is said once.
func describeStopped(rows []store.Thread) string {
	parts, failed, asking := []string{}, 0, 0
	seen := map[string]bool{}
	for i, row := range rows {
		name, why := whyOf(row)
		switch {
		case !seen[why] && (i == 0 || len(rows) <= maxListed):
			seen[why] = true
			parts = append(parts, name+why)
		case row.Status == store.Blocked && needsAnswer(row.Reason):
			asking++
		default:
			failed++
		}
	}
	if failed > 0 {
		parts = append(parts, fmt.Sprintf("+ %d more failed", failed))
	}
	if asking > 0 {
		parts = append(parts, fmt.Sprintf("+ %d more need an answer", asking))
	}
	return event.Brief(strings.Join(parts, "; "))
}

func needsAnswer(why *store.Reason) bool {
	return why != nil && slices.Contains([]store.ReasonKind{store.ReasonGate, store.ReasonInput, store.ReasonConflict},
		why.Kind)
}

// whyOf returns the name of a path or flow, and why its thread stopped: "api", " could not start: …".
func whyOf(row store.Thread) (name, why string) {
	name = row.Flow
	if row.Path != nil {
		name = row.Path.ID
	}
	if row.Reason == nil || row.Reason.Message == "" {
		return name, " " + string(row.Status)
	}
	message := thread.Plainly(row.Reason.Message)
	rest, ok := strings.CutPrefix(message, name)
	if ok && (strings.HasPrefix(rest, " ") || strings.HasPrefix(rest, ": ")) {
		return name, rest
	}
	return name, ": " + message
}

// missingPrograms says which paths of a fork could not start, since the program of an agent is not in the PATH, or is a
// file of the tree that their worktrees will not have, or "".
func (e *Engine) missingPrograms(ctx context.Context, c *threadState, d flow.Fork) (string, error) {
	var rows []store.Thread
	known := map[string]bool{} // by program
	for _, p := range d.Paths {
		def, roles := c.Def, c.Def.Inside(p.ID)
		if d.Plan != nil {
			worker, err := e.record.Flow(ctx, c.Row.Bundle, flow.WorkerFlow)
			if err != nil {
				return "", err
			}
			def, roles = worker.SpawnedAction(d.Plan, p.ID), []string{p.ID}
		}
		writes, err := e.Writes(ctx, c.Row, def, roles)
		if err != nil {
			return "", err
		}
		for _, role := range roles {
			if def.Roles[role].Flow != "" {
				continue
			}
			at := c.Thread
			at.Def = def
			w, err := e.attempts.Worker(&at, role)
			if err != nil {
				continue // an attempt will say what is wrong
			}
			why, err := e.missing(ctx, c.Row, w, writes, known)
			if err != nil {
				return "", err
			}
			if why != "" {
				why := &store.Reason{Message: role + " " + why}
				rows = append(rows, store.Thread{Status: store.Failed, Reason: why, Path: &store.Path{ID: p.ID}})
				break
			}
		}
	}
	return describeStopped(rows), nil
}

// missing says why the program of an agent cannot start, "" if it can. known has the programs that were looked for in
// the tree.
func (e *Engine) missing(ctx context.Context, row store.Thread, w attempt.Worker, writes bool, known map[string]bool) (
	why string, err error) {
	if p, ok := w.Agent.(agent.Program); ok && e.cfg.Worker == "" { // another worker may have it
		why = p.Missing()
	}
	if why != "" || w.Program == "" || !writes {
		return why, nil
	}
	if _, ok := known[w.Program]; !ok {
		if known[w.Program], err = e.cfg.Trees.Lacks(ctx, row, w.Program); err != nil {
			return "", err
		}
	}
	if known[w.Program] {
		why = thread.CouldNotStart + w.Program + " does not exist in its worktree (worktrees have no files that Git " +
			"ignores, and nothing of .plait)"
	}
	return why, nil
}
