package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/text"
	"github.com/plait-run/plait/internal/view"
)

func (a *app) threadShowCmd() *cobra.Command {
	var digest, whole, stack, tree, expand bool
	var promptOf, callsOf string
	depth := -1
	var before, limit, call int
	cmd := &cobra.Command{
		Use:   "show [THREAD|STEP]",
		Short: "Show a thread and its steps, or one step",
		Long: `Show a thread: its state and its steps; or a step in full. --stack shows its callers, from the
newest step up to the task; --tree shows everything below it: sub-flows, paths and actions.
Summarised steps take one line unless --expand is given. --prompt STEP prints the exact prompt
that was sent to the agent of a step, and what it was made of. --calls STEP lists what that agent asked
its model, if the task was started with --record; --call N prints one of these requests and the response.`,
		Example: `  plait thread show k7f2
  plait thread show k7f2/3
  plait thread show k7f2 --prompt 3
  plait thread show k7f2 --calls 3 --call 1`,
		Args:              atMost(1, "one thread or step"),
		ValidArgsFunction: a.completeThreads(),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := oneView(cmd, "calls", "digest", "prompt", "stack", "tree"); err != nil {
				return err
			}
			if cmd.Flags().Changed("depth") && (!tree || depth < 0) {
				return usagef("--depth N goes with --tree, and N is 0 or more")
			}
			if cmd.Flags().Changed("call") && (callsOf == "" || call < 1) {
				return usagef("--call N goes with --calls STEP, and N is 1 or more")
			}
			w, what, err := a.openShown(cmd.Context(), newest(args))
			if err != nil {
				return err
			}
			switch {
			case callsOf != "":
				return a.showCalls(cmd, w, what.Row, what.Head, callsOf, call)
			case digest:
				return a.showDigest(cmd, w, what)
			case promptOf != "":
				return a.showPrompt(cmd, w, what.Head, promptOf)
			case stack:
				return a.showStack(cmd, w, what)
			case tree:
				return a.showTree(cmd, w, what, depth)
			case what.Row.ID == "":
				return a.showStep(cmd, w, what.Head, expand)
			}
			if before < 0 || limit < 0 {
				return usagef("--before and -n take a number from 1")
			}
			v, err := w.view().Thread(cmd.Context(), what.Row, before, limit)
			if err != nil {
				return err
			}
			names := w.view().Names()
			named := func(text string) string { return safe(names.In(cmd.Context(), text)) }
			states, err := w.displays(cmd.Context(), what.Row)
			if err != nil {
				return err
			}
			return a.print(cmd, v, func(out io.Writer) { a.writeThread(out, named, v, states, whole, expand) })
		},
	}
	cmd.Flags().BoolVar(&digest, "digest", false, "print the outcome digest alone")
	cmd.Flags().BoolVar(&whole, "full", false, "print the full text of each step")
	cmd.Flags().BoolVar(&stack, "stack", false,
		"print the callers, up to the task")
	cmd.Flags().BoolVar(&tree, "tree", false, "print everything below: steps, sub-flows and paths")
	cmd.Flags().IntVar(&depth, "depth", -1, "with --tree: at most `N` levels (default: all)")
	cmd.Flags().IntVarP(&limit, "limit", "n", 0, "only the newest `N` steps")
	cmd.Flags().IntVar(&before, "before", 0, "only steps before step `N`")
	cmd.Flags().BoolVar(&expand, "expand", false, "also print summarised steps")
	cmd.Flags().StringVar(&promptOf, "prompt", "", "print the exact prompt of this `step`")
	cmd.Flags().StringVar(&callsOf, "calls", "", "list the recorded requests of this `step` to its model")
	cmd.Flags().IntVar(&call, "call", 0, "with --calls: print request `N` and its response in full")
	return cmd
}

// oneView refuses flags that request different views.
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
func (a *app) openShown(ctx context.Context, typed string) (*workplace, view.Subject, error) {
	w, err := a.open(ctx, "")
	if err != nil {
		return nil, view.Subject{}, err
	}
	what, err := w.shown(ctx, typed)
	return w, what, err
}

func (w *workplace) shown(ctx context.Context, typed string) (view.Subject, error) {
	row, step, err := w.view().Find(ctx, typed)
	if err == nil && step != "" {
		s, _, err := w.control.Reader().Find(ctx, row.Head, step)
		return view.Subject{Head: s.Hash}, err
	}
	if !errors.Is(err, store.ErrNotFound) {
		return view.Subject{Row: row, Head: row.Head}, err
	}
	h, stepErr := w.object(ctx, typed)
	switch {
	case stepErr == nil:
		return view.Subject{Head: h}, nil
	case errors.As(stepErr, new(ambiguousHash)):
		return view.Subject{}, stepErr
	}
	return view.Subject{}, err
}

func (a *app) showDigest(cmd *cobra.Command, w *workplace, what view.Subject) error {
	d, err := w.view().Digest(cmd.Context(), what)
	if err != nil {
		return err
	}
	return a.print(cmd, d, func(out io.Writer) { fmt.Fprintln(out, d.Digest) })
}

// showStep shows the step under h.
func (a *app) showStep(cmd *cobra.Command, w *workplace, h dag.Hash, expand bool) error {
	v, err := w.view().Step(cmd.Context(), h, expand)
	if err != nil {
		return err
	}
	return a.print(cmd, v, func(out io.Writer) {
		st := a.style(out)
		for _, c := range v.Covers {
			fmt.Fprintf(out, "  %3d  %-16s %s\n", c.N, safe(c.Role), st.dim(c.Hash.Short()))
		}
		a.writeStep(out, st, &v.Step, true)
		if v.Covered > 0 && !expand {
			fmt.Fprintf(out, "       %s\n", st.dim(fmt.Sprintf("summarises %s before it (--expand lists them)",
				text.Count(v.Covered, "step"))))
		}
		fmt.Fprintf(out, "\n       meta       %s\n       content    %s\n       detail     %s\n       start      %s\n",
			safe(string(v.Meta)), v.Content.Short(), v.DetailHash.Short(), v.Start.Short())
		if v.Detail != nil {
			for _, e := range v.Detail.Attempts {
				fmt.Fprintf(out, "       attempt    %s failed (%s): %s\n", e.ID, e.Failure.Kind, oneLine(e.Failure.Message, 120))
			}
			if v.Detail.Agent != "" {
				fmt.Fprintf(out, "       transcript %s\n       sandbox    %s\n", v.Detail.Transcript.Short(),
					safe(v.Detail.Sandbox))
			}
		}
	})
}
