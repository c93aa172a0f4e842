package cli

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/sys/text"
	"github.com/plait-run/plait/internal/view"
)

// writeThread prints a thread.
func writeThread(out page, v *view.Thread, states displays, whole, expand bool) {
	out.line("%s  %s  %s  %s", out.bold(out.named(v.ID)), text.Safe(v.Flow), out.state(states.of(v.ID, v.Status)),
		out.dim(v.ID))
	if v.Reason != nil && v.Reason.Message != "" {
		out.line("  %s", text.FirstLine(out.named(thread.Plainly(v.Reason.Message)), 400))
	}
	out.line("  prompt     %s\n  workspace  %s", text.FirstLine(v.Prompt, 100), text.Safe(v.Workspace))
	if p := v.Path; p != nil {
		out.line("  path       %s, of the fork at %s, until %s", text.Safe(p.ID), p.Fork.Short(), text.Safe(p.Join))
	}
	if v.Parent != nil {
		out.line("  parent     %s at %s", out.named(v.Parent.Thread), v.Parent.From.Short())
	}
	if v.ForkedFrom != nil {
		out.line("  forked     from %s at %s", out.named(v.ForkedFrom.Thread), v.ForkedFrom.Step.Short())
	}
	if !v.ParentState.IsZero() {
		out.line("  called     from %s, depth %d", v.ParentState.Short(), v.Depth)
	}
	out.line("  bundle     %s   head %s", v.Bundle.Short(), v.Head.Short())
	if t := v.Usage.Tokens(); t > 0 {
		of := ""
		if len(v.Steps) < v.Count {
			of = " (of the steps shown)"
		}
		out.line("  tokens     %d in, %d out, %s%s", v.Usage.InputTokens, v.Usage.OutputTokens,
			dollars(v.Usage.CostMicroUSD), of)
	}
	out.line("\n  %3d  %-16s %s", 0, "start", out.dim(v.Start.Short()))
	if v.Next > 0 {
		before := fmt.Sprintf("  …  %s before these (--before %d)", text.Count(v.Next-1, "step"), v.Next)
		out.line("\n  %s", out.dim(before))
	}
	shown := 0
	if hidden := min(v.Summarized, len(v.Steps)); hidden > 0 && !expand {
		said := fmt.Sprintf("  …  %s, summarized (--expand shows what they said)", text.Count(v.Summarized, "step"))
		out.line("\n  %s", out.dim(said))
		shown = hidden
	}
	for i := shown; i < len(v.Steps); i++ {
		if v.Own > 0 && i == v.Own-1 {
			out.line("\n  %s", out.dim("── the path "+text.Safe(v.Path.ID)+" begins here ──"))
		}
		writeStep(out, &v.Steps[i], whole)
	}
	for _, at := range v.Trying {
		what := string(at.Status)
		if at.Failure != nil {
			what += " (" + string(at.Failure.Kind) + "): " + text.FirstLine(at.Failure.Message, 120)
		}
		out.line("\n    …  %-16s attempt %d %s", text.Safe(at.Role), at.N, what)
	}
	for _, b := range v.WaitsFor {
		name := b.Flow
		if b.Path != nil {
			name = "path " + b.Path.ID
		}
		out.line("\n    …  %-16s %s  %s", text.Safe(name), out.state(states.of(b.ID, b.Status)), b.ID)
	}
}

// roleIn returns a role, and the path in which a step of it was done.
func roleIn(role, path string) string {
	if path == "" {
		return text.Safe(role)
	}
	return text.Safe(role + " [" + path + "]")
}

func writeStep(out page, s *view.Step, whole bool) {
	extra := ""
	if d := s.Detail; d != nil && d.Agent != "" {
		extra = text.Safe(d.Agent) + ", " + text.Took(d.EndedAt-d.StartedAt)
		if s.Attempts > 1 {
			extra += fmt.Sprintf(", %d attempts", s.Attempts)
		}
		if t := s.Usage.Tokens(); t > 0 {
			extra += ", " + text.Count(int(t), "token")
		}
	}
	out.line("\n  %3d  %-16s %-12s %s  %s", s.N, roleIn(s.Role, s.Path), view.Outcome(s.Role, s.Meta),
		out.dim(s.Hash.Short()), out.dim(extra))
	writeLinks(out, s)
	few, some := 4, 12
	if whole {
		few, some = 0, 0
	}
	see := " (thread show " + s.Hash.Short() + ")"
	writeDoings(out, s, some, "… and %d more"+see)
	if s.Text != "" {
		lines := strings.Split(strings.Trim(text.Safe(s.Text), "\n"), "\n")
		if !whole {
			lines = slices.DeleteFunc(lines, func(l string) bool { return strings.TrimSpace(l) == "" })
		}
		out.lines(lines, few, "… %d more lines"+see, strings.Clone)
	}
	for _, art := range s.Artifacts {
		out.line("       %s %s (%s, %s)", out.dim("artifact"), text.Safe(art.Name), text.Count(int(art.Size), "byte"),
			art.Blob.Short())
	}
}

// writeLinks prints what a step called, or which paths it joins.
func writeLinks(out page, s *view.Step) {
	if !s.ChildThread.IsZero() {
		out.note("%s", strings.TrimRight("called     "+s.Child+"  ended at "+s.ChildThread.Short(), " "))
	}
	if s.Paths == nil {
		return
	}
	for _, p := range s.Paths {
		mark := ""
		if p.ID == s.Main {
			mark = "  main: it continues the conversation"
		}
		out.line("       path %-12s %-10s %s%s", text.Safe(p.ID), out.state(displays(nil).of("", p.Status)),
			text.Safe(p.Thread), out.dim(mark))
		if f := s.Failure(p.ID); f != nil {
			out.line("         %s: %s", text.Safe(string(f.Kind)),
				strings.ReplaceAll(text.Safe(f.Message), "\n", "\n         "))
		}
	}
	var meta struct{ DecidedBy *string }
	json.Unmarshal(s.Meta, &meta) // a flow's own join says no more than its paths
	by := "every path"
	if meta.DecidedBy != nil {
		by = *meta.DecidedBy
	}
	out.note("decided by %s", text.FirstLine(by, 80))
}

// writeDoings prints who worked in a step, and what was run and changed: at most some of it, see page.lines.
func writeDoings(out page, s *view.Step, some int, more string) {
	d := s.Detail
	if d == nil || d.Session == "" {
		return
	}
	about := []string{"session " + text.Safe(d.Session)}
	if d.Model != "" {
		about = append([]string{"model " + text.Safe(d.Model)}, about...)
	}
	if d.Sandbox != "" {
		about = append(about, "sandbox "+text.Safe(d.Sandbox))
	}
	if slices.ContainsFunc(d.Context, func(u thread.ContextUse) bool { return u.Form == thread.FormLossy }) {
		about = append(about, "lossy: an earlier session could not be continued")
	}
	out.note("%s", strings.Join(about, ", "))
	out.note("tokens  %d in (%d cached), %d out (%d reasoning)", s.Usage.InputTokens, s.Usage.CachedInputTokens,
		s.Usage.OutputTokens, s.Usage.ReasoningTokens)
	if s.Done == nil {
		return
	}
	var lines []string
	for _, c := range s.Done.Commands {
		end := c.Status
		if c.Exit != nil {
			end = fmt.Sprintf("exit %d", *c.Exit)
		}
		lines = append(lines, "ran     "+text.FirstLine(c.Command, 100)+"  → "+end)
	}
	for _, t := range s.Done.Tools {
		lines = append(lines, "called  "+text.FirstLine(t, 100))
	}
	for _, f := range s.Done.Files {
		lines = append(lines, "changed "+text.FirstLine(f.Path, 100)+"  ("+f.Change+")")
	}
	out.lines(lines, some, more, out.dim)
}

// price returns what something cost, "" if that is not known.
func price(micro int64) string {
	if micro == 0 {
		return ""
	}
	return dollars(micro)
}

func dollars(micro int64) string {
	if micro == 0 {
		return "cost unknown"
	}
	return text.Dollars(micro)
}
