package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/sys/text"
	"github.com/plait-run/plait/internal/view"
)

// writeThread prints a thread for people. named replaces the ids of threads by what users type for them.
func (a *app) writeThread(
	out io.Writer, named func(string) string, v *view.Thread, states displays, whole, expand bool,
) {
	st := a.style(out)
	fmt.Fprintf(out, "%s  %s  %s  %s\n", st.bold(named(v.ID)), safe(v.Flow), st.state(states.of(v.ID, v.Status)),
		st.dim(v.ID))
	if v.Reason != nil && v.Reason.Message != "" {
		fmt.Fprintf(out, "  %s\n", oneLine(named(thread.Plainly(v.Reason.Message)), 400))
	}
	fmt.Fprintf(out, "  prompt     %s\n", oneLine(v.Prompt, 100))
	fmt.Fprintf(out, "  workspace  %s\n", safe(v.Workspace))
	if v.Path != nil {
		fmt.Fprintf(out, "  path       %s, of the fork at %s, until %s\n", safe(v.Path.ID), v.Path.Fork.Short(),
			safe(v.Path.Join))
	}
	if v.Parent != nil {
		fmt.Fprintf(out, "  parent     %s at %s\n", named(v.Parent.Thread), v.Parent.From.Short())
	}
	if v.ForkedFrom != nil {
		fmt.Fprintf(out, "  forked     from %s at %s\n", named(v.ForkedFrom.Thread), v.ForkedFrom.Step.Short())
	}
	if !v.ParentState.IsZero() {
		fmt.Fprintf(out, "  called     from %s, depth %d\n", v.ParentState.Short(), v.Depth)
	}
	fmt.Fprintf(out, "  bundle     %s   head %s\n", v.Bundle.Short(), v.Head.Short())
	if t := v.Usage.Tokens(); t > 0 {
		fmt.Fprintf(out, "  tokens     %d in, %d out, %s\n", v.Usage.InputTokens, v.Usage.OutputTokens,
			dollars(v.Usage.CostMicroUSD))
	}
	fmt.Fprintf(out, "\n  %3d  %-16s %s\n", 0, "start", st.dim(v.Start.Short()))
	if v.Next > 0 {
		fmt.Fprintf(out, "\n  %s\n", st.dim(fmt.Sprintf("  …  %s before these (--before %d)", text.Count(v.Next-1, "step"),
			v.Next)))
	}
	for i := range v.Steps {
		if i < v.Summarised && !expand {
			if i == 0 {
				fmt.Fprintf(out, "\n  %s\n", st.dim(fmt.Sprintf("  …  %s, summarised (--expand shows what they said)",
					text.Count(v.Summarised, "step"))))
			}
			continue
		}
		if v.Own > 0 && i == v.Own-1 {
			fmt.Fprintf(out, "\n  %s\n", st.dim("── the path "+safe(v.Path.ID)+" begins here ──"))
		}
		a.writeStep(out, st, &v.Steps[i], whole)
	}
	for _, at := range v.Trying {
		what := string(at.Status)
		if at.Failure != nil {
			what += " (" + string(at.Failure.Kind) + "): " + oneLine(at.Failure.Message, 120)
		}
		fmt.Fprintf(out, "\n    …  %-16s attempt %d %s\n", safe(at.Role), at.N, what)
	}
	for _, b := range v.WaitsFor {
		fmt.Fprintf(out, "\n    …  %-16s %s  %s\n", belowName(b.Path, b.Flow),
			st.state(states.of(b.ID, b.Status)), b.ID)
	}
}

// belowName returns the name of a path or a called thread.
func belowName(path *store.Path, flow string) string {
	if path != nil {
		return "path " + safe(path.ID)
	}
	return safe(flow)
}

// roleIn returns a role, and the path in which a step of it was done.
func roleIn(role, path string) string {
	if path == "" {
		return safe(role)
	}
	return safe(role) + " [" + safe(path) + "]"
}

func (a *app) writeStep(out io.Writer, st style, s *view.Step, whole bool) {
	extra := ""
	if d := s.Detail; d != nil && d.Agent != "" {
		extra = safe(d.Agent) + ", " + text.Took(d.EndedAt-d.StartedAt)
		if s.Attempts > 1 {
			extra += fmt.Sprintf(", %d attempts", s.Attempts)
		}
		if t := s.Usage.Tokens(); t > 0 {
			extra += fmt.Sprintf(", %d tokens", t)
		}
	}
	fmt.Fprintf(out, "\n  %3d  %-16s %-12s %s  %s\n", s.N, roleIn(s.Role, s.Path), view.Outcome(s.Role, s.Meta),
		st.dim(s.Hash.Short()), st.dim(extra))
	writeLinks(out, st, s)
	writeDoings(out, st, s, whole)
	lines := strings.Split(strings.Trim(safe(s.Text), "\n"), "\n")
	if !whole {
		lines = slices.DeleteFunc(lines, func(l string) bool { return strings.TrimSpace(l) == "" })
	}
	if s.Text == "" {
		lines = nil
	}
	const few = 4
	for i, line := range lines {
		if i == few && !whole && len(lines) > few+1 {
			fmt.Fprintf(out, "       %s\n", st.dim(fmt.Sprintf("… %d more lines (thread show %s)", len(lines)-few,
				s.Hash.Short())))
			break
		}
		if !whole {
			line = text.Shorten(line, 140)
		}
		fmt.Fprintf(out, "       %s\n", line)
	}
	for _, art := range s.Artifacts {
		fmt.Fprintf(out, "       %s %s (%d bytes, %s)\n", st.dim("artifact"), safe(art.Name), art.Size, art.Blob.Short())
	}
}

// writeLinks prints what a step called, or which paths it joins.
func writeLinks(out io.Writer, st style, s *view.Step) {
	if !s.ChildThread.IsZero() {
		fmt.Fprintf(out, "       %s\n", st.dim(strings.TrimRight("called     "+s.Child+"  ended at "+s.ChildThread.Short(),
			" ")))
	}
	if s.Paths == nil {
		return
	}
	for _, p := range s.Paths {
		mark := ""
		if p.ID == s.Main {
			mark = "  main: it continues the conversation"
		}
		state := st.state(displays(nil).of("", p.Status))
		fmt.Fprintf(out, "       path %-12s %-10s %s%s\n", safe(p.ID), state, safe(p.Thread), st.dim(mark))
		if f := s.Failure(p.ID); f != nil {
			fmt.Fprintf(out, "         %s: %s\n", safe(string(f.Kind)), strings.ReplaceAll(safe(f.Message), "\n", "\n         "))
		}
	}
	var meta struct{ DecidedBy *string }
	json.Unmarshal(s.Meta, &meta) // a flow's own join says no more than its paths
	by := "every path"
	if meta.DecidedBy != nil {
		by = *meta.DecidedBy
	}
	fmt.Fprintf(out, "       %s\n", st.dim("decided by "+oneLine(by, 80)))
}

// writeDoings prints who worked in a step, and what was run and changed.
func writeDoings(out io.Writer, st style, s *view.Step, whole bool) {
	d := s.Detail
	if d == nil || d.Session == "" {
		return
	}
	about := []string{"session " + safe(d.Session)}
	if d.Model != "" {
		about = append([]string{"model " + safe(d.Model)}, about...)
	}
	if d.Sandbox != "" {
		about = append(about, "sandbox "+safe(d.Sandbox))
	}
	if slices.ContainsFunc(d.Context, func(u thread.ContextUse) bool { return u.Form == thread.FormLossy }) {
		about = append(about, "lossy: an earlier session could not be continued")
	}
	fmt.Fprintf(out, "       %s\n", st.dim(strings.Join(about, ", ")))
	fmt.Fprintf(out, "       %s\n", st.dim(fmt.Sprintf("tokens  %d in (%d cached), %d out (%d reasoning)",
		s.Usage.InputTokens, s.Usage.CachedInputTokens, s.Usage.OutputTokens, s.Usage.ReasoningTokens)))
	if s.Done == nil {
		return
	}
	lines := []string{}
	for _, c := range s.Done.Commands {
		end := c.Status
		if c.Exit != nil {
			end = fmt.Sprintf("exit %d", *c.Exit)
		}
		lines = append(lines, "ran     "+oneLine(c.Command, 100)+"  → "+end)
	}
	for _, t := range s.Done.Tools {
		lines = append(lines, "called  "+oneLine(t, 100))
	}
	for _, f := range s.Done.Files {
		lines = append(lines, "changed "+oneLine(f.Path, 100)+"  ("+f.Change+")")
	}
	const few = 12
	for i, line := range lines {
		if i == few && !whole && len(lines) > few+1 {
			fmt.Fprintf(out, "       %s\n", st.dim(fmt.Sprintf("… and %d more (thread show %s)", len(lines)-few,
				s.Hash.Short())))
			break
		}
		fmt.Fprintf(out, "       %s\n", st.dim(line))
	}
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
