package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/text"
	"github.com/plait-run/plait/internal/view"
)

// A treeText prints a thread, or the chain of a step, with everything below it.
type treeText struct {
	page
	states displays
}

func (t treeText) write(out page, v *view.Tree) {
	t.page = out
	t.line("%s", t.title(v))
	t.draw("", t.branches(v.Steps, v.Loose, v.Cut))
}

// title returns the line of a thread.
func (t treeText) title(v *view.Tree) string {
	words := []string{}
	if v.Path != nil && v.Kind == store.KindPath {
		words = append(words, "path "+text.Safe(v.Path.ID))
	} else {
		words = append(words, text.Safe(v.Flow))
	}
	if v.Status != "" {
		words = append(words, t.state(t.states.of(v.ID, v.Status)))
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
	return text.FirstLine(t.named(reason.Message), 80)
}

// A branch is a line of the tree with the lines below it.
type branch struct {
	line  string
	below []branch
}

func (t treeText) branches(steps []view.TreeStep, loose []view.Tree, cut bool) []branch {
	var out []branch
	for _, s := range steps {
		b := branch{line: fmt.Sprintf("%d  %s  %s  %s", s.N, roleIn(s.Role, s.Path), s.Status, t.dim(s.Hash.Short()))}
		if s.Child != nil {
			b.below = append(b.below, t.branch("", s.Child))
		}
		for _, p := range s.Paths {
			line := strings.TrimRight(fmt.Sprintf("path %s  %s  %s", text.Safe(p.ID), t.state(t.states.of(p.Thread, p.Status)),
				t.why(p.Status, p.Reason)), " ") + "  " + t.named(p.Thread)
			if p.Main {
				line += t.dim("  main: its steps are above")
			}
			b.below = append(b.below, branch{line, t.branches(p.Steps, p.Loose, p.Cut)})
		}
		out = append(out, b)
	}
	for i := range loose {
		out = append(out, t.branch("…  ", &loose[i]))
	}
	if cut {
		out = append(out, branch{line: t.dim("… more below")})
	}
	return out
}

// branch returns a thread with everything below it.
func (t treeText) branch(mark string, v *view.Tree) branch {
	return branch{mark + t.title(v), t.branches(v.Steps, v.Loose, v.Cut)}
}

// draw draws branches with box lines.
func (t treeText) draw(indent string, list []branch) {
	for i, b := range list {
		knot, next := "├─ ", "│  "
		if i == len(list)-1 {
			knot, next = "└─ ", "   "
		}
		t.line("%s", t.dim(indent+knot)+b.line)
		t.draw(indent+next, b.below)
	}
}
