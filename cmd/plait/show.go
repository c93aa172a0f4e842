package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/dag"
	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/thread"
)

// A threadView is what thread show prints: design §10.
type threadView struct {
	ID          string            `json:"id"`
	Task        string            `json:"task"`
	Flow        string            `json:"flow"`
	Status      string            `json:"status"`
	Reason      *store.Reason     `json:"reason"`
	Start       dag.Hash          `json:"start"`
	Head        dag.Hash          `json:"head"`
	Bundle      dag.Hash          `json:"bundle"`
	ParentState dag.Hash          `json:"parentState"`
	Depth       int               `json:"depth"`
	ForkedFrom  *store.ForkedFrom `json:"forkedFrom"`
	Workspace   string            `json:"workspace"`
	Prompt      string            `json:"prompt"`
	Usage       store.Usage       `json:"usage"`
	Steps       []stepView        `json:"steps"`
	Trying      []store.Attempt   `json:"trying"` // attempts at the step after the head
}

// A stepView is one step, oldest first, numbered from 1.
type stepView struct {
	N           int               `json:"n"`
	Hash        dag.Hash          `json:"hash"`
	Role        string            `json:"role"`
	Meta        json.RawMessage   `json:"meta"`
	Content     dag.Hash          `json:"content"`
	Text        string            `json:"text"`
	Artifacts   []artifactView    `json:"artifacts"`
	Ancestors   []dag.Hash        `json:"ancestors"`
	Start       dag.Hash          `json:"start"`
	ChildThread dag.Hash          `json:"childThread"`
	Paths       []thread.PathHead `json:"paths"`
	Fork        dag.Hash          `json:"fork"`
	Compact     dag.Hash          `json:"compact"`
	Detail      *thread.Detail    `json:"detail"`
	Timestamp   int64             `json:"timestamp"`
	Usage       store.Usage       `json:"usage"`
	Attempts    int               `json:"attempts"`
	Done        *doings           `json:"done"` // null when nothing is known of it
}

type artifactView struct {
	Hash      dag.Hash `json:"hash"`
	Name      string   `json:"name"`
	MediaType string   `json:"mediaType"`
	Size      int64    `json:"size"`
	Blob      dag.Hash `json:"blob"`
}

func (a *app) threadShowCmd() *cobra.Command {
	var digest, whole bool
	var promptOf string
	cmd := &cobra.Command{
		Use:   "show THREAD|STEP",
		Short: "Show a thread and its steps, or one step",
		Long: `Show a thread: where it stands and its steps. A prefix of a step's hash shows that
step whole. --prompt STEP prints the exact prompt a step's agent was sent.`,
		Args:              exactly(1, "one thread or step"),
		ValidArgsFunction: a.completeThreads(),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			w, err := a.open(ctx, "")
			if err != nil {
				return err
			}
			r := w.control.Reader()
			row, err := w.threadID(ctx, args[0])
			if errors.Is(err, store.ErrNotFound) {
				h, stepErr := w.object(ctx, args[0])
				if stepErr == nil {
					return a.showStep(cmd, w, h, digest)
				}
				if strings.Contains(stepErr.Error(), "not unique") {
					return stepErr
				}
			}
			if err != nil {
				return err
			}
			switch {
			case digest:
				d, err := r.Digest(ctx, row.Head)
				if err != nil {
					return err
				}
				return a.print(cmd, map[string]any{"thread": row.ID, "head": row.Head, "digest": d}, func(out io.Writer) { fmt.Fprintln(out, d) })
			case promptOf != "":
				return a.showPrompt(cmd, w, row, promptOf)
			}
			v, err := w.view(ctx, row)
			if err != nil {
				return err
			}
			return a.print(cmd, v, func(out io.Writer) { a.writeThread(out, v, whole) })
		},
	}
	cmd.Flags().BoolVar(&digest, "digest", false, "print the outcome digest alone")
	cmd.Flags().BoolVar(&whole, "full", false, "print each step's text whole")
	cmd.Flags().StringVar(&promptOf, "prompt", "", "print the exact prompt that this step's agent was sent")
	return cmd
}

// view reads all of a thread that thread show prints.
func (w *workplace) view(ctx context.Context, row store.Thread) (*threadView, error) {
	r := w.control.Reader()
	start, err := r.Start(ctx, row.Start)
	if err != nil {
		return nil, err
	}
	v := &threadView{
		ID: row.ID, Task: row.Task, Flow: row.Flow, Status: w.shownStatus(ctx, row), Reason: row.Reason,
		Start: row.Start, Head: row.Head, Bundle: row.Bundle, ParentState: start.ParentState, Depth: start.Depth,
		ForkedFrom: row.ForkedFrom, Workspace: row.Workspace, Steps: []stepView{}, Trying: []store.Attempt{},
	}
	if v.Prompt, err = r.Text(ctx, start.Prompt); err != nil {
		return nil, err
	}
	steps, err := r.Steps(ctx, row.Head)
	if err != nil {
		return nil, err
	}
	for i, s := range steps {
		sv, err := w.step(ctx, s, i+1)
		if err != nil {
			return nil, err
		}
		v.Usage = v.Usage.Add(sv.Usage)
		v.Steps = append(v.Steps, sv)
	}
	if err := w.withDoings(ctx, v.Steps); err != nil {
		return nil, err
	}
	attempts, err := w.store.Attempts(ctx, store.AttemptFilter{Thread: row.ID})
	if err != nil {
		return nil, err
	}
	for _, at := range attempts {
		if at.From == row.Head && at.Status != store.AttemptDone {
			v.Trying = append(v.Trying, at)
			v.Usage = v.Usage.Add(at.Usage)
		}
	}
	return v, nil
}

func (w *workplace) step(ctx context.Context, s thread.Step, n int) (stepView, error) {
	r := w.control.Reader()
	st := s.State
	v := stepView{
		N: n, Hash: s.Hash, Role: st.Role, Meta: st.Meta, Content: st.Content, Ancestors: st.Ancestors, Start: st.Start,
		ChildThread: st.ChildThread, Paths: st.Paths, Fork: st.Fork, Compact: st.Compact, Timestamp: st.Timestamp,
		Artifacts: []artifactView{},
	}
	content, err := r.Content(ctx, st.Content)
	if err != nil {
		return v, err
	}
	v.Text = content.Text
	for _, h := range content.Artifacts {
		art, err := r.Artifact(ctx, h)
		if err != nil {
			return v, err
		}
		v.Artifacts = append(v.Artifacts, artifactView{h, art.Name, art.MediaType, art.Size, art.Blob})
	}
	if v.Detail, err = r.Detail(ctx, st.Detail); err != nil {
		return v, err
	}
	if v.Detail != nil {
		v.Usage, v.Attempts = v.Detail.Usage, len(v.Detail.Attempts)+1
	}
	return v, nil
}

// withDoings fills in what was done in each step.
func (w *workplace) withDoings(ctx context.Context, steps []stepView) error {
	threads := map[string]bool{}
	for _, s := range steps {
		if s.Detail != nil && s.Detail.Session != "" {
			id, _, _ := strings.Cut(s.Detail.Attempt, ".")
			threads[id] = true
		}
	}
	done, err := w.doings(ctx, threads)
	if err != nil {
		return err
	}
	for i := range steps {
		if d := steps[i].Detail; d != nil {
			steps[i].Done = done[d.Attempt]
		}
	}
	return nil
}

// writeThread prints a thread the way a person reads it.
func (a *app) writeThread(out io.Writer, v *threadView, whole bool) {
	st := a.style(out)
	status := v.Status
	if v.Status == store.Blocked && v.Reason != nil {
		status += "{" + v.Reason.Kind + "}"
	}
	fmt.Fprintf(out, "%s  %s  %s\n", st.bold(v.ID), safe(v.Flow), st.status(status))
	if v.Reason != nil && v.Reason.Message != "" {
		fmt.Fprintf(out, "  %s\n", oneLine(v.Reason.Message, 400))
	}
	fmt.Fprintf(out, "  prompt     %s\n", oneLine(v.Prompt, 100))
	fmt.Fprintf(out, "  workspace  %s\n", safe(v.Workspace))
	if v.ForkedFrom != nil {
		fmt.Fprintf(out, "  forked     from %s at %s\n", v.ForkedFrom.Thread, v.ForkedFrom.Step.Short())
	}
	if !v.ParentState.IsZero() {
		fmt.Fprintf(out, "  called     from %s, depth %d\n", v.ParentState.Short(), v.Depth)
	}
	fmt.Fprintf(out, "  bundle     %s   head %s\n", v.Bundle.Short(), v.Head.Short())
	if t := v.Usage.Tokens(); t > 0 {
		fmt.Fprintf(out, "  tokens     %d in, %d out, %s\n", v.Usage.InputTokens, v.Usage.OutputTokens, dollars(v.Usage.CostMicroUSD))
	}
	fmt.Fprintf(out, "\n  %3d  %-16s %s\n", 0, "start", st.dim(v.Start.Short()))
	for i := range v.Steps {
		a.writeStep(out, st, &v.Steps[i], whole)
	}
	for _, at := range v.Trying {
		what := at.Status
		if at.Failure != nil {
			what += " (" + at.Failure.Kind + "): " + oneLine(at.Failure.Message, 120)
		}
		fmt.Fprintf(out, "\n    …  %-16s attempt %d %s\n", safe(at.Role), at.N, what)
	}
}

func (a *app) writeStep(out io.Writer, st style, s *stepView, whole bool) {
	var meta map[string]any
	json.Unmarshal(s.Meta, &meta) // stored meta is an object
	status, _ := meta["$status"].(string)
	if s.Role == thread.RoleEnd {
		status = fmt.Sprintf("code %v", meta["returnCode"])
	}
	extra := ""
	if d := s.Detail; d != nil && d.Agent != "" {
		extra = fmt.Sprintf("%s, %s", safe(d.Agent), time.Duration(d.EndedAt-d.StartedAt)*time.Millisecond)
		if s.Attempts > 1 {
			extra += fmt.Sprintf(", %d attempts", s.Attempts)
		}
		if t := s.Usage.Tokens(); t > 0 {
			extra += fmt.Sprintf(", %d tokens", t)
		}
	}
	fmt.Fprintf(out, "\n  %3d  %-16s %-12s %s  %s\n", s.N, safe(s.Role), oneLine(status, 40), st.dim(s.Hash.Short()), st.dim(extra))
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
			fmt.Fprintf(out, "       %s\n", st.dim(fmt.Sprintf("… %d more lines (thread show %s)", len(lines)-few, s.Hash.Short())))
			break
		}
		if r := []rune(line); !whole && len(r) > 140 {
			line = string(r[:139]) + "…"
		}
		fmt.Fprintf(out, "       %s\n", line)
	}
	for _, art := range s.Artifacts {
		fmt.Fprintf(out, "       %s %s (%d bytes, %s)\n", st.dim("artifact"), safe(art.Name), art.Size, art.Blob.Short())
	}
}

// writeDoings prints who worked in a step, and what was run and changed.
func writeDoings(out io.Writer, st style, s *stepView, whole bool) {
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
		about = append(about, "lossy: an earlier session could not be gone on with")
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
			fmt.Fprintf(out, "       %s\n", st.dim(fmt.Sprintf("… and %d more (thread show %s)", len(lines)-few, s.Hash.Short())))
			break
		}
		fmt.Fprintf(out, "       %s\n", st.dim(line))
	}
}

func dollars(micro int64) string {
	if micro == 0 {
		return "cost unknown"
	}
	return fmt.Sprintf("$%.4f", float64(micro)/1e6)
}

// showStep shows the one step under h.
func (a *app) showStep(cmd *cobra.Command, w *workplace, h dag.Hash, digest bool) error {
	ctx := cmd.Context()
	state, err := w.control.Reader().State(ctx, h)
	if err != nil {
		return err
	}
	if digest {
		d, err := w.control.Reader().Digest(ctx, h)
		if err != nil {
			return err
		}
		return a.print(cmd, map[string]any{"head": h, "digest": d}, func(out io.Writer) { fmt.Fprintln(out, d) })
	}
	steps, err := w.control.Reader().Steps(ctx, h)
	if err != nil {
		return err
	}
	v, err := w.step(ctx, thread.Step{Hash: h, State: state}, len(steps))
	if err != nil {
		return err
	}
	one := []stepView{v}
	if err := w.withDoings(ctx, one); err != nil {
		return err
	}
	v = one[0]
	return a.print(cmd, v, func(out io.Writer) {
		a.writeStep(out, a.style(out), &v, true)
		fmt.Fprintf(out, "\n       meta       %s\n       content    %s\n       detail     %s\n       start      %s\n",
			safe(string(v.Meta)), v.Content.Short(), state.Detail.Short(), v.Start.Short())
		if v.Detail != nil {
			for _, e := range v.Detail.Attempts {
				fmt.Fprintf(out, "       attempt    %s failed (%s): %s\n", e.ID, e.Failure.Kind, oneLine(e.Failure.Message, 120))
			}
			fmt.Fprintf(out, "       transcript %s\n       sandbox    %s\n", v.Detail.Transcript.Short(), safe(v.Detail.Sandbox))
		}
	})
}

// showPrompt prints the exact prompt of a step, and how it was put together.
func (a *app) showPrompt(cmd *cobra.Command, w *workplace, row store.Thread, name string) error {
	ctx := cmd.Context()
	r := w.control.Reader()
	s, n, err := r.Find(ctx, row.Head, name)
	if err != nil {
		return err
	}
	if s.State == nil || s.State.Detail.IsZero() {
		return usagef("step %d was not made by an agent", n)
	}
	d, err := r.Detail(ctx, s.State.Detail)
	if err != nil {
		return err
	}
	if d.Prompt.IsZero() {
		return usagef("step %d was not made by an agent", n)
	}
	text, err := r.Text(ctx, d.Prompt)
	if err != nil {
		return err
	}
	return a.print(cmd, map[string]any{"step": s.Hash, "n": n, "prompt": d.Prompt, "text": text, "context": d.Context}, func(out io.Writer) {
		fmt.Fprintln(out, strings.TrimRight(safe(text), "\n"))
	})
}
