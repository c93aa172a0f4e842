package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/view"
)

// showTree prints a thread, or the chain of a step, and everything below it.
func (a *app) showTree(cmd *cobra.Command, w *workplace, what view.Subject, depth int) error {
	v, err := w.view().Tree(cmd.Context(), what, depth)
	if err != nil {
		return err
	}
	return a.print(cmd, v, func(out io.Writer) {
		st := a.style(out)
		fmt.Fprintln(out, treeTitle(st, v))
		printer{out, st}.branches("", treeBranches(v))
	})
}

// treeTitle is the line of a thread.
func treeTitle(st style, v *view.Tree) string {
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
func why(status store.Status, reason *store.Reason) string {
	if reason == nil || status == store.Completed {
		return ""
	}
	return oneLine(reason.Message, 80)
}

// A branch is a line of the tree with the lines below it.
type branch struct {
	line  func(st style) string
	below []branch
}

func treeBranches(v *view.Tree) []branch { return branches(v.Steps, v.Loose, v.Cut) }

func branches(steps []view.TreeStep, loose []view.Tree, cut bool) []branch {
	var out []branch
	for _, s := range steps {
		b := branch{line: func(st style) string {
			return fmt.Sprintf("%d  %s  %s  %s", s.N, roleIn(s.Role, s.Path), s.Status, st.dim(s.Hash.Short()))
		}}
		if s.Child != nil {
			b.below = append(b.below, branch{func(st style) string { return treeTitle(st, s.Child) }, treeBranches(s.Child)})
		}
		for _, p := range s.Paths {
			b.below = append(b.below, branch{func(st style) string {
				line := strings.TrimRight(fmt.Sprintf("path %s  %s  %s", safe(p.ID), st.status(safe(string(p.Status))),
					why(p.Status, p.Reason)), " ") + "  " + safe(p.Thread)
				if p.Main {
					line += st.dim("  main: its steps are above")
				}
				return line
			}, branches(p.Steps, p.Loose, p.Cut)})
		}
		out = append(out, b)
	}
	for i := range loose {
		out = append(out, branch{func(st style) string { return "…  " + treeTitle(st, &loose[i]) }, treeBranches(&loose[i])})
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
