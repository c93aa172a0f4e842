package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/dag"
	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/thread"
)

// A treeView is a thread with everything below it.
type treeView struct {
	ID     string         `json:"id"` // "" where the index knows none
	Flow   string         `json:"flow"`
	Kind   string         `json:"kind"`
	Status string         `json:"status"`
	Reason *store.Reason  `json:"reason"`
	Path   *store.Path    `json:"path"`
	Head   dag.Hash       `json:"head"`
	Steps  []treeStepView `json:"steps"` // of a path: its own, after the fork
	Loose  []treeView     `json:"loose"` // paths and calls that no step records (yet)
	Cut    bool           `json:"cut"`   // there is more below than was asked for
}

type treeStepView struct {
	N      int            `json:"n"`
	Hash   dag.Hash       `json:"hash"`
	Role   string         `json:"role"`
	Status string         `json:"status"`
	Path   string         `json:"path"` // the path that it was done in, or ""
	Child  *treeView      `json:"child"`
	Paths  []treePathView `json:"paths"` // null when the step is no join
}

type treePathView struct {
	ID     string         `json:"id"`
	Status string         `json:"status"`
	Reason *store.Reason  `json:"reason"`
	Thread string         `json:"thread"`
	Main   bool           `json:"main"`  // its steps stand before the join
	Steps  []treeStepView `json:"steps"` // of the others
	Loose  []treeView     `json:"loose"`
	Cut    bool           `json:"cut"`
}

// showTree prints a thread, or the chain of a step, and everything below it.
func (a *app) showTree(cmd *cobra.Command, w *workplace, what shown, depth int) error {
	ctx := cmd.Context()
	kin, err := w.kin(ctx, what.row)
	if err != nil {
		return err
	}
	t, err := w.control.Reader().Tree(ctx, kin, what.row, what.head, depth)
	if err != nil {
		return err
	}
	v := w.treeView(ctx, t)
	return a.print(cmd, v, func(out io.Writer) {
		st := a.style(out)
		fmt.Fprintln(out, treeTitle(st, v))
		printer{out, st}.branches("", v.branches())
	})
}

func (w *workplace) treeView(ctx context.Context, t *thread.Tree) *treeView {
	v := &treeView{
		ID: t.Row.ID, Flow: t.Flow, Kind: t.Row.Kind, Status: w.shownStatus(ctx, t.Row), Reason: t.Row.Reason, Path: t.Row.Path,
		Head: t.Head, Steps: []treeStepView{}, Loose: []treeView{}, Cut: t.Cut,
	}
	for _, s := range t.Steps {
		sv := treeStepView{N: s.N, Hash: s.Hash, Role: s.State.Role, Status: outcome(s.State.Role, s.State.Meta), Path: s.Via}
		if s.Child != nil {
			sv.Child = w.treeView(ctx, s.Child)
		}
		for _, p := range s.Paths {
			pv := treePathView{ID: p.ID, Status: p.Status, Thread: p.Thread, Main: p.Main, Steps: []treeStepView{}, Loose: []treeView{}}
			if p.Tree != nil {
				sub := w.treeView(ctx, p.Tree)
				pv.Reason, pv.Steps, pv.Loose, pv.Cut = sub.Reason, sub.Steps, sub.Loose, sub.Cut
			}
			sv.Paths = append(sv.Paths, pv)
		}
		v.Steps = append(v.Steps, sv)
	}
	for i := range t.Loose {
		v.Loose = append(v.Loose, *w.treeView(ctx, &t.Loose[i]))
	}
	return v
}

// treeTitle is the line of a thread.
func treeTitle(st style, v *treeView) string {
	words := []string{}
	if v.Path != nil && v.Kind == store.KindPath {
		words = append(words, "path "+safe(v.Path.ID))
	} else {
		words = append(words, safe(v.Flow))
	}
	if v.Status != "" {
		words = append(words, st.status(safe(reasoned(v.Status, v.Reason))))
	}
	words = append(words, why(v.Status, v.Reason))
	if v.ID != "" {
		words = append(words, safe(v.ID))
	}
	return strings.Join(slices.DeleteFunc(words, func(s string) bool { return s == "" }), "  ")
}

// why says why a path or thread did not complete.
func why(status string, reason *store.Reason) string {
	if reason == nil || status == store.Completed {
		return ""
	}
	return oneLine(reason.Message, 80)
}

// A branch is a line of the tree and what hangs on it.
type branch struct {
	line  func(st style) string
	below []branch
}

func (v *treeView) branches() []branch { return branches(v.Steps, v.Loose, v.Cut) }

func branches(steps []treeStepView, loose []treeView, cut bool) []branch {
	var out []branch
	for _, s := range steps {
		b := branch{line: func(st style) string {
			return fmt.Sprintf("%d  %s  %s  %s", s.N, roleIn(s.Role, s.Path), s.Status, st.dim(s.Hash.Short()))
		}}
		if s.Child != nil {
			b.below = append(b.below, branch{func(st style) string { return treeTitle(st, s.Child) }, s.Child.branches()})
		}
		for _, p := range s.Paths {
			b.below = append(b.below, branch{func(st style) string {
				line := strings.TrimRight(fmt.Sprintf("path %s  %s  %s", safe(p.ID), st.status(safe(p.Status)), why(p.Status, p.Reason)), " ") + "  " + safe(p.Thread)
				if p.Main {
					line += st.dim("  main: its steps are above")
				}
				return line
			}, branches(p.Steps, p.Loose, p.Cut)})
		}
		out = append(out, b)
	}
	for i := range loose {
		out = append(out, branch{func(st style) string { return "…  " + treeTitle(st, &loose[i]) }, loose[i].branches()})
	}
	if cut {
		out = append(out, branch{line: func(st style) string { return st.dim("… more below") }})
	}
	return out
}

// A printer draws branches with box lines.
type printer struct {
	out io.Writer
	st  style
}

func (p printer) branches(indent string, list []branch) {
	for i, b := range list {
		knot, next := "├─ ", "│  "
		if i == len(list)-1 {
			knot, next = "└─ ", "   "
		}
		fmt.Fprintln(p.out, p.st.dim(indent+knot)+b.line(p.st))
		p.branches(indent+next, b.below)
	}
}
