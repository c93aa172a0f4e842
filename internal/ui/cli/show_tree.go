package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/view"
)

// showTree prints a thread, or the chain of a step, and everything below it.
func (a *app) showTree(cmd *cobra.Command, w *workplace, what view.Subject, depth int) error {
	v, err := w.view().Tree(cmd.Context(), what, depth)
	if err != nil {
		return err
	}
	states, err := w.displays(cmd.Context(), what.Row)
	if err != nil {
		return err
	}
	return a.print(cmd, v, func(out io.Writer) {
		names := w.view().Names()
		t := treeText{a.style(out), states, func(text string) string { return safe(names.In(cmd.Context(), text)) }}
		fmt.Fprintln(out, t.title(v))
		printer{out, t.st}.branches("", t.branches(v.Steps, v.Loose, v.Cut))
	})
}

// A treeText turns a tree into lines. named replaces the ids of threads by what users type for them.
type treeText struct {
	st     style
	states displays
	named  func(text string) string
}

// title returns the line of a thread.
func (t treeText) title(v *view.Tree) string {
	words := []string{}
	if v.Path != nil && v.Kind == store.KindPath {
		words = append(words, "path "+safe(v.Path.ID))
	} else {
		words = append(words, safe(v.Flow))
	}
	if v.Status != "" {
		words = append(words, t.st.state(t.states.of(v.ID, v.Status)))
	}
	words = append(words, t.why(v.Status, v.Reason))
	if v.ID != "" {
		words = append(words, t.named(v.ID))
	}
	return strings.Join(slices.DeleteFunc(words, func(s string) bool { return s == "" }), "  ")
}

// why says why a path or thread did not complete.
func (t treeText) why(status store.Status, reason *store.Reason) string {
	if reason == nil || status == store.Completed {
		return ""
	}
	return oneLine(t.named(reason.Message), 80)
}

// A branch is a line of the tree with the lines below it.
type branch struct {
	line  string
	below []branch
}

func (t treeText) branches(steps []view.TreeStep, loose []view.Tree, cut bool) []branch {
	var out []branch
	for _, s := range steps {
		b := branch{line: fmt.Sprintf("%d  %s  %s  %s", s.N, roleIn(s.Role, s.Path), s.Status, t.st.dim(s.Hash.Short()))}
		if s.Child != nil {
			b.below = append(b.below, t.branch("", s.Child))
		}
		for _, p := range s.Paths {
			line := strings.TrimRight(fmt.Sprintf("path %s  %s  %s", safe(p.ID), t.st.state(t.states.of(p.Thread, p.Status)),
				t.why(p.Status, p.Reason)), " ") + "  " + t.named(p.Thread)
			if p.Main {
				line += t.st.dim("  main: its steps are above")
			}
			b.below = append(b.below, branch{line, t.branches(p.Steps, p.Loose, p.Cut)})
		}
		out = append(out, b)
	}
	for i := range loose {
		out = append(out, t.branch("…  ", &loose[i]))
	}
	if cut {
		out = append(out, branch{line: t.st.dim("… more below")})
	}
	return out
}

// branch returns a thread with everything below it.
func (t treeText) branch(mark string, v *view.Tree) branch {
	return branch{mark + t.title(v), t.branches(v.Steps, v.Loose, v.Cut)}
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
		fmt.Fprintln(p.out, p.st.dim(indent+knot)+b.line)
		p.branches(indent+next, b.below)
	}
}
