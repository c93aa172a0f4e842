package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/view/taskdir"
)

// A checkedEntry is an entry in task evidence check.
type checkedEntry struct {
	ID      string              `json:"id"`
	Kind    string              `json:"kind"`
	Title   string              `json:"title"`
	Node    dag.Hash            `json:"node"`
	State   string              `json:"state"`
	Sources []taskdir.Freshness `json:"sources"`
	Broken  []string            `json:"broken"`
}

// A checkResult is what task evidence check prints.
type checkResult struct {
	Evidence  []checkedEntry     `json:"evidence"`
	Citations int                `json:"citations"` // in the files of the task
	Dangling  []taskdir.Citation `json:"dangling"`  // those that name nothing
	Unproven  []taskdir.Citation `json:"unproven"`  // those that name what was declined or interrupted
}

// worst orders the states of sources: an entry has the state of its worst source.
var worst = []string{taskdir.Fresh, taskdir.Unknown, taskdir.Moved, taskdir.Stale, taskdir.Gone, taskdir.Wrong,
	taskdir.Unfinished}

func (a *app) evidenceCheckCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "check [TASK]",
		Short: "Check that the evidence of a task is complete and still true",
		Long: `Check the evidence of a task: hash its content again, compare files with the working tree and
tool calls with the transcripts, and look up every citation (evidence:ID) in the reports,
contracts, decisions and final.json files of the task.

The exit code is 6 if content is damaged, or if a citation names missing evidence, or a command
or tool call that was declined or interrupted; 1 if a file has changed or is gone; and 0 otherwise.`,
		Example: `  plait task evidence check
  plait task evidence check k7f2`,
		Args: atMost(1, "one task"), ValidArgsFunction: a.completeThreads(),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			w, row, entries, err := a.openEvidence(ctx, newest(args))
			if err != nil {
				return err
			}
			res, err := w.checkEvidence(ctx, row, entries)
			if err != nil {
				return err
			}
			a.code = res.code()
			return a.print(cmd, res, func(out io.Writer) { writeChecked(out, res) })
		},
	}
}

func (r checkResult) code() int {
	code := exitDone
	for _, e := range r.Evidence {
		if len(e.Broken) > 0 {
			return exitVerify
		}
		if e.State == taskdir.Stale || e.State == taskdir.Gone {
			code = exitFailed
		}
	}
	if len(r.Dangling)+len(r.Unproven) > 0 {
		return exitVerify
	}
	return code
}

func (w *workplace) checkEvidence(ctx context.Context, row store.Thread, entries []taskdir.Entry) (checkResult, error) {
	res := checkResult{Evidence: []checkedEntry{}, Dangling: []taskdir.Citation{}, Unproven: []taskdir.Citation{}}
	trees := taskdir.NewTrees(w.store, row)
	defer trees.Close()
	for _, e := range entries {
		c := checkedEntry{ID: e.ID, Kind: e.Kind, Title: e.Title, Node: e.Node, State: taskdir.Unknown, Broken: []string{}}
		if e.Broken != "" {
			c.Broken = append(c.Broken, e.Broken)
		}
		for _, h := range append(refsOf(e), e.ArtifactRefs...) {
			if err := w.whole(ctx, h); errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrCorrupt) {
				c.Broken = append(c.Broken, fmt.Sprintf("%s: %v", h, err))
			} else if err != nil {
				return res, err
			}
		}
		root, err := trees.Of(ctx, e)
		if err != nil {
			return res, err
		}
		if c.Sources, err = taskdir.Check(ctx, w.store, e, root); err != nil {
			return res, err
		}
		for i, s := range c.Sources {
			if s.State == taskdir.Wrong {
				c.Broken = append(c.Broken, "the lines of the transcript that it names are not what they were")
			}
			if i == 0 || slices.Index(worst, s.State) > slices.Index(worst, c.State) {
				c.State = s.State
			}
		}
		res.Evidence = append(res.Evidence, c)
	}
	cited, err := taskdir.At(row.Workspace, row.ID).Citations()
	if err != nil {
		return res, err
	}
	res.Citations = len(cited)
	index := taskdir.NewIndex(entries)
	for _, c := range cited {
		switch e, ok := index.Resolve(c.ID, c.Instance); {
		case !ok:
			res.Dangling = append(res.Dangling, c)
		case e.Unfinished:
			res.Unproven = append(res.Unproven, c)
		}
	}
	return res, nil
}

// whole reads all of an object, which checks its hash.
func (w *workplace) whole(ctx context.Context, h dag.Hash) error {
	r, _, err := w.store.Open(ctx, h)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, r)
	return errors.Join(err, r.Close())
}

func writeChecked(out io.Writer, r checkResult) {
	counts := map[string]int{}
	tw := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	for _, e := range r.Evidence {
		state := e.State
		switch {
		case len(e.Broken) > 0:
			state = "broken"
		case state == taskdir.Unknown:
			state = "not checkable"
		}
		counts[state]++
		fmt.Fprintf(tw, "%s\t%s\t%s\n", state, oneLine(cmp.Or(e.ID, e.Node.Short()), 100), oneLine(e.Title, 80)+newPlaces(e))
		for _, b := range e.Broken {
			fmt.Fprintf(tw, "\t  %s\n", oneLine(b, 300))
		}
	}
	tw.Flush()
	for _, c := range r.Dangling {
		fmt.Fprintf(out, "%s cites evidence:%s, which does not exist\n", oneLine(c.File, 200), c.ID)
	}
	for _, c := range r.Unproven {
		fmt.Fprintf(out, "%s cites evidence:%s, which was declined or interrupted and proves nothing\n",
			oneLine(c.File, 200), c.ID)
	}
	var parts []string
	for _, state := range []string{"broken", taskdir.Unfinished, taskdir.Gone, taskdir.Stale, taskdir.Moved, taskdir.Fresh,
		"not checkable"} {
		if n := counts[state]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, state))
		}
	}
	fmt.Fprintf(out, "%d entries%s; %d citations, %d of them to evidence that does not exist", len(r.Evidence),
		strings.TrimSuffix(": "+strings.Join(parts, ", "), ": "), r.Citations, len(r.Dangling))
	if n := len(r.Unproven); n > 0 {
		fmt.Fprintf(out, ", %d unproven", n)
	}
	fmt.Fprintln(out)
}

// newPlaces says where moved lines are now.
func newPlaces(e checkedEntry) string {
	text := ""
	for _, s := range e.Sources {
		if s.State == taskdir.Moved {
			text += fmt.Sprintf(" (now at lines %d-%d)", s.StartLine, s.EndLine)
		}
	}
	return text
}
