package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/sys/text"
	"github.com/plait-run/plait/internal/view"
)

// diffFewLines is how many lines of a text's diff are shown without --full.
const diffFewLines = 40

func (a *app) threadDiffCmd() *cobra.Command {
	var whole bool
	cmd := &cobra.Command{
		Use:   "diff A B",
		Short: "Compare two tasks or steps from where they differ",
		Long: `Compare two tasks, parts or steps. Steps that they share are left out; after those, steps of the
same role are compared: output fields, text and artifacts. Tokens and cost are those of the steps
that are not shared. The exit code is 0 whether or not they differ.`,
		Example: `  plait diff last last~1
  plait diff k7f2/3 m4xd/3`,
		Args: exactly(2, "two threads or steps"),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 1 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return a.completeThreads()(cmd, nil, typed)
		},
		RunE: read(a, func(ctx context.Context, w *workplace, args []string) (*view.Diff, error) {
			left, err := w.shown(ctx, args[0])
			if err != nil {
				return nil, err
			}
			right, err := w.shown(ctx, args[1])
			if err != nil {
				return nil, err
			}
			return w.view().Diff(ctx, left, right)
		}, func(out page, v *view.Diff) { writeDiff(out, v, whole) }),
	}
	cmd.Flags().BoolVar(&whole, "full", false, "print the full diff of each text")
	return cmd
}

// writeDiff prints two chains from where they diverge.
func writeDiff(out page, v *view.Diff, whole bool) {
	sides := []struct {
		name string
		t    view.DiffSide
	}{{"A", v.A}, {"B", v.B}}
	for _, side := range sides {
		about := "the chain of a step"
		if side.t.ID != "" {
			about = fmt.Sprintf("%s  %s  %s", out.bold(side.t.Short), text.Safe(side.t.Flow),
				out.state(string(side.t.Display.State)))
		}
		out.line("%s  %s  %s  head %s", side.name, about, text.Count(side.t.Steps, "step"), side.t.Head.Short())
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
	out.line("\n%s", out.dim("     "+common))
	for i := 0; i < len(v.Steps); {
		same := 0
		for i+same < len(v.Steps) && v.Steps[i+same].Same {
			same++
		}
		if same > 0 {
			out.line("\n%s", out.dim(fmt.Sprintf("=    %s with the same content", text.Count(same, "step"))))
			i += same
			continue
		}
		writePair(out, &v.Steps[i], whole)
		i++
	}
	if len(v.Steps) == 0 {
		out.line("%s", out.dim("     and nothing else"))
		return
	}
	out.line("")
	for _, side := range sides {
		u := side.t.Usage
		out.line("%s  tokens  %d in (%d cached), %d out (%d reasoning), %s", side.name,
			u.InputTokens, u.CachedInputTokens, u.OutputTokens, u.ReasoningTokens, dollars(u.CostMicroUSD))
	}
}

// writePair prints two steps that correspond, or one alone.
func writePair(out page, p *view.DiffPair, whole bool) {
	switch {
	case p.B == nil:
		writeAlone(out, "-", p.A, p, whole)
		return
	case p.A == nil:
		writeAlone(out, "+", p.B, p, whole)
		return
	}
	number := fmt.Sprint(p.A.N)
	if p.A.N != p.B.N {
		number += "/" + fmt.Sprint(p.B.N)
	}
	role := text.Safe(p.A.Role)
	if p.A.Role != p.B.Role {
		role += " → " + text.Safe(p.B.Role)
	}
	status := view.Outcome(p.A.Role, p.A.Meta)
	if other := view.Outcome(p.B.Role, p.B.Meta); other != status {
		status += " → " + other
	}
	out.line("\n~ %3s  %-16s %-12s %s", number, role, status, out.dim(p.A.Hash.Short()+" → "+p.B.Hash.Short()))
	var a, b map[string]json.RawMessage
	json.Unmarshal(p.A.Meta, &a) // stored meta is an object
	json.Unmarshal(p.B.Meta, &b)
	for _, k := range p.Meta {
		out.line("       meta     %s: %s → %s", text.FirstLine(k, 40), valueOf(a[k]), valueOf(b[k]))
	}
	if len(p.A.Paths)+len(p.B.Paths) > 0 {
		out.line("       paths    %s → %s", pathList(p.A.Paths), pathList(p.B.Paths))
	}
	if p.A.ChildThread != p.B.ChildThread {
		out.line("       called   %s → %s", orNone(p.A.ChildThread.Short()), orNone(p.B.ChildThread.Short()))
	}
	for _, f := range p.Files {
		out.line("       artifact %s: %s → %s", text.FirstLine(f.Name, 80), fileOf(f.A), fileOf(f.B))
	}
	if p.A.Tree != nil && p.B.Tree != nil && *p.A.Tree != *p.B.Tree {
		out.line("       tree     %s → %s", text.FirstLine(*p.A.Tree, 12), text.FirstLine(*p.B.Tree, 12))
	}
	if p.A.Usage != p.B.Usage {
		out.line("       tokens   %d → %d, %s → %s", p.A.Usage.Tokens(), p.B.Usage.Tokens(),
			dollars(p.A.Usage.CostMicroUSD), dollars(p.B.Usage.CostMicroUSD))
	}
	writeTextDiff(out, p, whole)
}

// writeAlone prints a step that only one side has.
func writeAlone(out page, sign string, s *view.DiffStep, p *view.DiffPair, whole bool) {
	out.line("\n%s %3d  %-16s %-12s %s", sign, s.N, text.Safe(s.Role), view.Outcome(s.Role, s.Meta),
		out.dim(s.Hash.Short()))
	for _, art := range s.Artifacts {
		out.line("       artifact %s: %s", text.FirstLine(art.Name, 80), fileOf(&art))
	}
	writeTextDiff(out, p, whole)
}

// writeTextDiff prints a unified diff, or its beginning.
func writeTextDiff(out page, p *view.DiffPair, whole bool) {
	if p.Text == "" {
		return
	}
	lines := strings.Split(strings.TrimRight(text.Safe(p.Text), "\n"), "\n")
	if p.A == nil || p.B == nil { // the whole text belongs to the step
		lines = slices.DeleteFunc(lines, func(l string) bool {
			return strings.HasPrefix(l, "@@") || strings.HasPrefix(l, `\ `)
		})
	}
	most := diffFewLines
	if whole {
		most = 0
	}
	out.lines(lines, most, "… %d more lines (--full)", func(line string) string {
		switch {
		case strings.HasPrefix(line, "+"):
			return out.paint("32", line)
		case strings.HasPrefix(line, "-"):
			return out.paint("31", line)
		case strings.HasPrefix(line, "@@"):
			return out.dim(line)
		}
		return line
	})
	if p.Cut && (whole || len(lines) <= diffFewLines+1) {
		out.note("… and more: the texts are long")
	}
}

// valueOf returns a value of meta in a few characters.
func valueOf(raw json.RawMessage) string {
	return orNone(text.FirstLine(string(raw), 60))
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
		list = append(list, text.Safe(p.ID)+" "+text.Safe(string(p.Status)))
	}
	return orNone(strings.Join(list, ", "))
}
