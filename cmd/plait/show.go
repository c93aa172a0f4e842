package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/dag"
	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/thread"
)

// A threadView is what thread show prints: design §10.
type threadView struct {
	ID          string            `json:"id"`
	Task        string            `json:"task"`
	Kind        string            `json:"kind"`
	Flow        string            `json:"flow"`
	Status      string            `json:"status"`
	Reason      *store.Reason     `json:"reason"`
	Start       dag.Hash          `json:"start"`
	Head        dag.Hash          `json:"head"`
	Bundle      dag.Hash          `json:"bundle"`
	ParentState dag.Hash          `json:"parentState"`
	Depth       int               `json:"depth"`
	Parent      *store.Parent     `json:"parent"`
	Path        *store.Path       `json:"path"`
	ForkedFrom  *store.ForkedFrom `json:"forkedFrom"`
	Workspace   string            `json:"workspace"`
	Prompt      string            `json:"prompt"`
	Usage       store.Usage       `json:"usage"`
	Steps       []stepView        `json:"steps"`
	Trying      []store.Attempt   `json:"trying"`   // attempts at the step after the head
	WaitsFor    []belowView       `json:"waitsFor"` // its paths and calls that have not ended

	summarised int // steps that the newest summary stands for
	own        int // the first step of a path that is its own
}

// A belowView is a path or a call of a thread.
type belowView struct {
	ID     string        `json:"id"`
	Kind   string        `json:"kind"`
	Flow   string        `json:"flow"`
	Path   *store.Path   `json:"path"`
	Status string        `json:"status"`
	Reason *store.Reason `json:"reason"`
	Steps  int           `json:"steps"`
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
	Child       string            `json:"child"` // the id of that thread, or ""
	Path        string            `json:"path"`  // the path that it was done in, or ""
	Main        string            `json:"main"`  // of a join: the path that the conversation went on through, or ""
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

// A shown thread or step is what thread show was asked for.
type shown struct {
	row  store.Thread // the zero Thread for a step
	head dag.Hash
}

func (a *app) threadShowCmd() *cobra.Command {
	var digest, whole, stack, tree, expand bool
	var promptOf string
	depth := -1
	cmd := &cobra.Command{
		Use:   "show THREAD|STEP",
		Short: "Show a thread and its steps, or one step",
		Long: `Show a thread: where it stands and its steps. A prefix of a step's hash shows that
step whole. --stack goes up, from the newest step through everything that called it;
--tree goes down, through everything that it called and forked. What a summary
stands for is one line unless --expand is given. --prompt STEP prints the exact
prompt a step's agent was sent, and how it was put together.`,
		Args:              exactly(1, "one thread or step"),
		ValidArgsFunction: a.completeThreads(),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := oneView(cmd, "digest", "prompt", "stack", "tree"); err != nil {
				return err
			}
			if cmd.Flags().Changed("depth") && (!tree || depth < 0) {
				return usagef("--depth N goes with --tree, and N is 0 or more")
			}
			w, what, err := a.openShown(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			switch {
			case digest:
				return a.showDigest(cmd, w, what)
			case promptOf != "":
				return a.showPrompt(cmd, w, what.head, promptOf)
			case stack:
				return a.showStack(cmd, w, what)
			case tree:
				return a.showTree(cmd, w, what, depth)
			case what.row.ID == "":
				return a.showStep(cmd, w, what.head, expand)
			}
			v, err := w.view(cmd.Context(), what.row)
			if err != nil {
				return err
			}
			return a.print(cmd, v, func(out io.Writer) { a.writeThread(out, v, whole, expand) })
		},
	}
	cmd.Flags().BoolVar(&digest, "digest", false, "print the outcome digest alone")
	cmd.Flags().BoolVar(&whole, "full", false, "print each step's text whole")
	cmd.Flags().BoolVar(&stack, "stack", false, "print the way up: the step, its start, the caller's state, and so on to the top")
	cmd.Flags().BoolVar(&tree, "tree", false, "print the way down: steps, what they called, and the paths of forks")
	cmd.Flags().IntVar(&depth, "depth", -1, "with --tree: so many levels down (default: all)")
	cmd.Flags().BoolVar(&expand, "expand", false, "print the steps that a summary stands for")
	cmd.Flags().StringVar(&promptOf, "prompt", "", "print the exact prompt that this step's agent was sent")
	return cmd
}

// oneView refuses flags that ask for different things at once.
func oneView(cmd *cobra.Command, names ...string) error {
	var given []string
	for _, n := range names {
		if cmd.Flags().Changed(n) {
			given = append(given, "--"+n)
		}
	}
	if len(given) > 1 {
		return usagef("%s: give one of them", strings.Join(given, " and "))
	}
	return nil
}

// openShown opens the workplace of the current directory and finds the one thread
// or step that was typed.
func (a *app) openShown(ctx context.Context, typed string) (*workplace, shown, error) {
	w, err := a.open(ctx, "")
	if err != nil {
		return nil, shown{}, err
	}
	what, err := w.shown(ctx, typed)
	return w, what, err
}

func (w *workplace) shown(ctx context.Context, typed string) (shown, error) {
	row, err := w.threadID(ctx, typed)
	if !errors.Is(err, store.ErrNotFound) {
		return shown{row, row.Head}, err
	}
	h, stepErr := w.object(ctx, typed)
	switch {
	case stepErr == nil:
		return shown{head: h}, nil
	case strings.Contains(stepErr.Error(), "not unique"):
		return shown{}, stepErr
	}
	return shown{}, err
}

func (a *app) showDigest(cmd *cobra.Command, w *workplace, what shown) error {
	if what.row.ID == "" { // a thread without steps has a digest, a start has none
		if _, err := w.control.Reader().State(cmd.Context(), what.head); err != nil {
			return err
		}
	}
	d, err := w.control.Reader().Digest(cmd.Context(), what.head)
	if err != nil {
		return err
	}
	data := map[string]any{"head": what.head, "digest": d}
	if what.row.ID != "" {
		data["thread"] = what.row.ID
	}
	return a.print(cmd, data, func(out io.Writer) { fmt.Fprintln(out, d) })
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
		Kind: row.Kind, Parent: row.Parent, Path: row.Path,
		ForkedFrom: row.ForkedFrom, Workspace: row.Workspace, Steps: []stepView{}, Trying: []store.Attempt{}, WaitsFor: []belowView{},
	}
	if v.Prompt, err = r.Text(ctx, start.Prompt); err != nil {
		return nil, err
	}
	steps, err := r.Steps(ctx, row.Head)
	if err != nil {
		return nil, err
	}
	kin, err := thread.ReadKin(ctx, w.store, row)
	if err != nil {
		return nil, err
	}
	v.summarised = thread.Summarised(steps)
	via := thread.Via(steps)
	if row.Path != nil && row.Path.Fork == row.Start {
		v.own = 1
	}
	for i, s := range steps {
		sv, err := w.step(ctx, s, i+1)
		if err != nil {
			return nil, err
		}
		sv.Path = via[i]
		if child, ok := kin.Child(s.State.ChildThread); ok {
			sv.Child = child.ID
		}
		if row.Path != nil && s.Hash == row.Path.Fork {
			v.own = i + 2
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
	for _, t := range kin.Below(row.ID) {
		if !t.Ended() {
			v.WaitsFor = append(v.WaitsFor, belowView{t.ID, t.Kind, t.Flow, t.Path, w.shownStatus(ctx, t), t.Reason, t.Steps})
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
	if main := st.Main(); main >= 0 {
		v.Main = st.Paths[main].ID
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

// A wholeStep is one step, and with --expand what it stands for.
type wholeStep struct {
	stepView
	Covers []coveredStep `json:"covers,omitempty"`
}

// A coveredStep is one of the steps that a summary stands for.
type coveredStep struct {
	N    int      `json:"n"`
	Hash dag.Hash `json:"hash"`
	Role string   `json:"role"`
}

// showStep shows the one step under h.
func (a *app) showStep(cmd *cobra.Command, w *workplace, h dag.Hash, expand bool) error {
	ctx := cmd.Context()
	state, err := w.control.Reader().State(ctx, h)
	if err != nil {
		return err
	}
	steps, err := w.control.Reader().Steps(ctx, h)
	if err != nil {
		return err
	}
	var v wholeStep
	if v.stepView, err = w.step(ctx, thread.Step{Hash: h, State: state}, len(steps)); err != nil {
		return err
	}
	if !state.ChildThread.IsZero() {
		child, err := w.threadOf(ctx, state.ChildThread)
		if err != nil {
			return err
		}
		v.Child = child.ID
	}
	one := []stepView{v.stepView}
	if err := w.withDoings(ctx, one); err != nil {
		return err
	}
	v.stepView = one[0]
	covered := 0
	if !state.Compact.IsZero() {
		covered = len(steps) - 1
	}
	if expand {
		for i, s := range steps[:covered] {
			v.Covers = append(v.Covers, coveredStep{i + 1, s.Hash, s.State.Role})
		}
	}
	return a.print(cmd, v, func(out io.Writer) {
		st := a.style(out)
		for _, c := range v.Covers {
			fmt.Fprintf(out, "  %3d  %-16s %s\n", c.N, safe(c.Role), st.dim(c.Hash.Short()))
		}
		a.writeStep(out, st, &v.stepView, true)
		if covered > 0 && !expand {
			fmt.Fprintf(out, "       %s\n", st.dim(fmt.Sprintf("stands for %s before it (--expand lists them)", count(covered, "step"))))
		}
		fmt.Fprintf(out, "\n       meta       %s\n       content    %s\n       detail     %s\n       start      %s\n",
			safe(string(v.Meta)), v.Content.Short(), state.Detail.Short(), v.Start.Short())
		if v.Detail != nil {
			for _, e := range v.Detail.Attempts {
				fmt.Fprintf(out, "       attempt    %s failed (%s): %s\n", e.ID, e.Failure.Kind, oneLine(e.Failure.Message, 120))
			}
			if v.Detail.Agent != "" {
				fmt.Fprintf(out, "       transcript %s\n       sandbox    %s\n", v.Detail.Transcript.Short(), safe(v.Detail.Sandbox))
			}
		}
	})
}
