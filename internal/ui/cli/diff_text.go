package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/sys/text"
	"github.com/plait-run/plait/internal/view"
)

// writeDiff prints two chains from where they diverge.
func (a *app) writeDiff(out io.Writer, v *view.Diff, whole bool) {
	st := a.style(out)
	sides := []struct {
		name string
		t    view.DiffSide
	}{{"A", v.A}, {"B", v.B}}
	for _, side := range sides {
		about := "the chain of a step"
		if side.t.ID != "" {
			about = fmt.Sprintf("%s  %s  %s", st.bold(side.t.Short), safe(side.t.Flow), st.state(string(side.t.Display.State)))
		}
		fmt.Fprintf(out, "%s  %s  %s  head %s\n", side.name, about, text.Count(side.t.Steps, "step"), side.t.Head.Short())
	}
	common := text.Count(v.Common.N, "step") + " in common"
	switch {
	case v.Common.Hash.IsZero():
		common = "nothing in common: another flow, another prompt or another caller"
	case v.Common.N == 0:
		common += ", but the same start " + v.Common.Hash.Short()
	default:
		common += ", up to " + v.Common.Hash.Short()
	}
	fmt.Fprintf(out, "\n%s\n", st.dim("     "+common))
	for i := 0; i < len(v.Steps); {
		same := 0
		for i+same < len(v.Steps) && v.Steps[i+same].Same {
			same++
		}
		if same > 0 {
			fmt.Fprintf(out, "\n%s\n", st.dim(fmt.Sprintf("=    %s with the same content", text.Count(same, "step"))))
			i += same
			continue
		}
		writePair(out, st, &v.Steps[i], whole)
		i++
	}
	if len(v.Steps) == 0 {
		fmt.Fprintf(out, "%s\n", st.dim("     and nothing else"))
		return
	}
	fmt.Fprintln(out)
	for _, side := range sides {
		u := side.t.Usage
		fmt.Fprintf(out, "%s  tokens  %d in (%d cached), %d out (%d reasoning), %s\n", side.name,
			u.InputTokens, u.CachedInputTokens, u.OutputTokens, u.ReasoningTokens, dollars(u.CostMicroUSD))
	}
}

// writePair prints two steps that correspond, or one alone.
func writePair(out io.Writer, st style, p *view.DiffPair, whole bool) {
	switch {
	case p.B == nil:
		writeAlone(out, st, "-", p.A, p, whole)
		return
	case p.A == nil:
		writeAlone(out, st, "+", p.B, p, whole)
		return
	}
	number := fmt.Sprint(p.A.N)
	if p.A.N != p.B.N {
		number += "/" + fmt.Sprint(p.B.N)
	}
	role := safe(p.A.Role)
	if p.A.Role != p.B.Role {
		role += " → " + safe(p.B.Role)
	}
	status := view.Outcome(p.A.Role, p.A.Meta)
	if other := view.Outcome(p.B.Role, p.B.Meta); other != status {
		status += " → " + other
	}
	fmt.Fprintf(out, "\n~ %3s  %-16s %-12s %s\n", number, role, status, st.dim(p.A.Hash.Short()+" → "+p.B.Hash.Short()))
	var a, b map[string]json.RawMessage
	json.Unmarshal(p.A.Meta, &a) // stored meta is an object
	json.Unmarshal(p.B.Meta, &b)
	for _, k := range p.Meta {
		fmt.Fprintf(out, "       meta     %s: %s → %s\n", oneLine(k, 40), valueOf(a[k]), valueOf(b[k]))
	}
	if len(p.A.Paths)+len(p.B.Paths) > 0 {
		fmt.Fprintf(out, "       paths    %s → %s\n", pathList(p.A.Paths), pathList(p.B.Paths))
	}
	if p.A.ChildThread != p.B.ChildThread {
		fmt.Fprintf(out, "       called   %s → %s\n", orNone(p.A.ChildThread.Short()), orNone(p.B.ChildThread.Short()))
	}
	for _, f := range p.Files {
		fmt.Fprintf(out, "       artifact %s: %s → %s\n", oneLine(f.Name, 80), fileOf(f.A), fileOf(f.B))
	}
	if p.A.Tree != nil && p.B.Tree != nil && *p.A.Tree != *p.B.Tree {
		fmt.Fprintf(out, "       tree     %s → %s\n", oneLine(*p.A.Tree, 12), oneLine(*p.B.Tree, 12))
	}
	if p.A.Usage != p.B.Usage {
		fmt.Fprintf(out, "       tokens   %d → %d, %s → %s\n", p.A.Usage.Tokens(), p.B.Usage.Tokens(),
			dollars(p.A.Usage.CostMicroUSD), dollars(p.B.Usage.CostMicroUSD))
	}
	writeTextDiff(out, st, p, whole)
}

// writeAlone prints a step that only one side has.
func writeAlone(out io.Writer, st style, sign string, s *view.DiffStep, p *view.DiffPair, whole bool) {
	fmt.Fprintf(out, "\n%s %3d  %-16s %-12s %s\n", sign, s.N, safe(s.Role), view.Outcome(s.Role, s.Meta),
		st.dim(s.Hash.Short()))
	for _, art := range s.Artifacts {
		fmt.Fprintf(out, "       artifact %s: %s\n", oneLine(art.Name, 80), fileOf(&art))
	}
	writeTextDiff(out, st, p, whole)
}

// writeTextDiff prints a unified diff, or its beginning.
func writeTextDiff(out io.Writer, st style, p *view.DiffPair, whole bool) {
	if p.Text == "" {
		return
	}
	lines := strings.Split(strings.TrimRight(safe(p.Text), "\n"), "\n")
	if p.A == nil || p.B == nil { // the whole text belongs to the step
		lines = slices.DeleteFunc(lines, func(l string) bool {
			return strings.HasPrefix(l, "@@") ||
				strings.HasPrefix(l, `\ `)
		})
	}
	for i, line := range lines {
		if i == diffFewLines && !whole && len(lines) > diffFewLines+1 {
			fmt.Fprintf(out, "       %s\n", st.dim(fmt.Sprintf("… %d more lines (--full)", len(lines)-diffFewLines)))
			return
		}
		if !whole {
			line = text.Shorten(line, 140)
		}
		switch {
		case strings.HasPrefix(line, "+"):
			line = st.paint("32", line)
		case strings.HasPrefix(line, "-"):
			line = st.paint("31", line)
		case strings.HasPrefix(line, "@@"):
			line = st.dim(line)
		}
		fmt.Fprintf(out, "       %s\n", line)
	}
	if p.Cut {
		fmt.Fprintf(out, "       %s\n", st.dim("… and more: the texts are long"))
	}
}

// valueOf returns a value of meta in a few characters.
func valueOf(raw json.RawMessage) string {
	return orNone(oneLine(string(raw), 60))
}

func fileOf(f *view.Artifact) string {
	if f == nil {
		return "–"
	}
	return fmt.Sprintf("%d bytes %s", f.Size, f.Blob.Short())
}

func orNone(s string) string {
	if s == "" {
		return "–"
	}
	return s
}

// pathList says how the paths of a join ended.
func pathList(paths []thread.PathHead) string {
	var list []string
	for _, p := range paths {
		list = append(list, safe(p.ID)+" "+safe(string(p.Status)))
	}
	return orNone(strings.Join(list, ", "))
}
