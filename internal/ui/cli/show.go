package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/record"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
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
Summarized steps take one line unless --expand is given. --prompt STEP prints the exact prompt
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
			ctx := cmd.Context()
			switch {
			case callsOf != "":
				v, err := w.calls(ctx, what, callsOf, call)
				return show(a, cmd, v, err, writeCalls)
			case digest:
				v, err := w.view().Digest(ctx, what)
				return show(a, cmd, v, err, func(out page, v *view.Digest) { out.line("%s", v.Digest) })
			case promptOf != "":
				v, err := w.view().Prompt(ctx, what.Head, promptOf)
				if errors.Is(err, view.ErrNoPrompt) {
					err = badUsage{err}
				}
				return show(a, cmd, v, err, writePrompt)
			case stack:
				v, err := w.view().Stack(ctx, what)
				return show(a, cmd, v, err, writeStack)
			case tree:
				v, err := w.view().Tree(ctx, what, depth)
				states, statesErr := w.displays(ctx, what.Row)
				return show(a, cmd, v, cmp.Or(err, statesErr), treeText{states: states}.write)
			case what.Row.ID == "":
				v, err := w.view().Step(ctx, what.Head, expand)
				return show(a, cmd, v, err, func(out page, v *view.WholeStep) { writeWholeStep(out, v, expand) })
			case before < 0 || limit < 0:
				return usagef("--before and -n take a number from 1")
			}
			v, err := w.view().Thread(ctx, what.Row, before, limit)
			states, statesErr := w.displays(ctx, what.Row)
			return show(a, cmd, v, cmp.Or(err, statesErr), func(out page, v *view.Thread) {
				writeThread(out, v, states, whole, expand)
			})
		},
	}
	cmd.Flags().BoolVar(&digest, "digest", false, "print the outcome digest alone")
	cmd.Flags().BoolVar(&whole, "full", false, "print the full text of each step")
	cmd.Flags().BoolVar(&stack, "stack", false, "print the callers, up to the task")
	cmd.Flags().BoolVar(&tree, "tree", false, "print everything below: steps, sub-flows and paths")
	cmd.Flags().IntVar(&depth, "depth", -1, "with --tree: at most `N` levels (default: all)")
	cmd.Flags().IntVarP(&limit, "limit", "n", 0, "only the newest `N` steps")
	cmd.Flags().IntVar(&before, "before", 0, "only steps before step `N`")
	cmd.Flags().BoolVar(&expand, "expand", false, "also print summarized steps")
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
	h, stepErr := findObject(ctx, w.store, typed)
	switch {
	case stepErr == nil:
		return view.Subject{Head: h}, nil
	case errors.As(stepErr, new(ambiguousHash)):
		return view.Subject{}, stepErr
	}
	return view.Subject{}, err
}

// writeWholeStep prints a step in full.
func writeWholeStep(out page, v *view.WholeStep, expand bool) {
	for _, c := range v.Covers {
		out.line("  %3d  %-16s %s", c.N, text.Safe(c.Role), out.dim(c.Hash.Short()))
	}
	writeStep(out, &v.Step, true)
	if v.Covered > 0 && !expand {
		out.note("summarizes %s before it (--expand lists them)", text.Count(v.Covered, "step"))
	}
	out.line("\n       meta       %s\n       content    %s\n       detail     %s\n       start      %s",
		text.Safe(string(v.Meta)), v.Content.Short(), v.DetailHash.Short(), v.Start.Short())
	if v.Detail == nil {
		return
	}
	for _, e := range v.Detail.Attempts {
		out.line("       attempt    %s failed (%s): %s", e.ID, e.Failure.Kind, text.FirstLine(e.Failure.Message, 120))
	}
	if v.Detail.Agent != "" {
		out.line("       transcript %s\n       sandbox    %s", v.Detail.Transcript.Short(), text.Safe(v.Detail.Sandbox))
	}
}

// calls reads the requests of the agent of a step to its model, or only the one with a number.
func (w *workplace) calls(ctx context.Context, what view.Subject, step string, one int) (*view.Calls, error) {
	v, err := w.view().Calls(ctx, what.Head, step, one)
	if !errors.Is(err, view.ErrNoCalls) {
		return v, err
	}
	if opts, bad := record.OptionsOf(what.Row); bad == nil && opts.Replay != "" {
		return nil, view.Advise(badUsage{err},
			"a replay asks no model; see the task that it replays: `plait thread show %s --calls %s`",
			w.view().Names().In(ctx, opts.Replay), step)
	}
	return nil, view.Advise(badUsage{err},
		"record them with `plait run --record`; docs/gateway.md says for which agents")
}

// writeCalls prints requests in a table, and those that were read whole.
func writeCalls(out page, v *view.Calls) {
	t := table{head: []string{"CALL", "SENT", "PATH", "MODEL", "STATUS", "IN", "CACHED", "OUT"}, elastic: []int{3}}
	for _, c := range v.Calls {
		about := ""
		if c.Estimated {
			about = "~"
		}
		status := strconv.Itoa(c.Status)
		if c.Cut {
			status += " cut"
		}
		u := c.Usage
		t.add(strconv.Itoa(c.N), time.UnixMilli(c.At).Format("15:04:05.000"), c.Path, text.Safe(c.Model), status,
			about+strconv.FormatInt(u.InputTokens, 10), strconv.FormatInt(u.CachedInputTokens, 10),
			about+strconv.FormatInt(u.OutputTokens, 10))
	}
	out.table(t)
	for _, c := range v.Calls {
		if c.Request != nil {
			out.line("%s\n%s\n%s\n%s", out.dim("request"), text.Safe(*c.Request), out.dim("response"),
				strings.TrimRight(text.Safe(*c.Response), "\n"))
		}
	}
}

// formMeans explains the forms that are not self-explanatory.
var formMeans = map[string]string{
	thread.FormBrief:   "without what its main path said",
	thread.FormSummary: "replaces everything before it",
	thread.FormSession: "the session knew it, and everything before it",
	thread.FormLossy:   "a session that is lost knew it, and everything before it",
	thread.FormOmitted: "left out, and everything before it that is not listed",
}

// promptSize says how long a part of a prompt is.
func promptSize(bytes, tokens int) string {
	return text.Count(bytes, "byte") + ", about " + text.Count(tokens, "token")
}

// writePrompt prints how a prompt was assembled, and its text.
func writePrompt(out page, v *view.Prompt) {
	out.line("prompt of step %d (%s): %s", v.N, text.Safe(v.Role), promptSize(v.Bytes, v.Tokens))
	for _, u := range v.Context {
		number := "–"
		if u.N > 0 {
			number = fmt.Sprint(u.N)
		}
		what := formMeans[u.Form]
		if u.Bytes > 0 {
			what = strings.TrimSuffix(promptSize(u.Bytes, u.Tokens)+"; "+what, "; ")
		}
		out.line("  %3s  %-16s %-8s %s  %s", number, text.Safe(u.Role), text.Safe(u.Form), out.dim(u.Step.Short()),
			out.dim(what))
	}
	if len(v.Context) == 0 {
		out.line("  no earlier step is included")
	}
	out.line("%s\n%s", out.dim(strings.Repeat("─", 60)), strings.TrimRight(text.Safe(v.Text), "\n"))
}

// writeStack prints the callers of a thread or a step, up to the task.
func writeStack(out page, v *view.Stack) {
	var t table
	for _, f := range v.Stack {
		t.add(f.Type, f.Hash.Short(), text.Safe(f.Role), text.Safe(f.Flow), fmt.Sprintf("depth %d", f.Depth),
			text.Safe(out.names.ByID(out.ctx, f.Thread)))
	}
	out.table(t)
}
