package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/files/worktree"
	"github.com/plait-run/plait/internal/sys/text"
	"github.com/plait-run/plait/internal/view/search"
)

func (a *app) searchCmd() *cobra.Command {
	var q search.Query
	var all bool
	var limit int
	cmd := &cobra.Command{
		Use:   "search WORDS…",
		Short: "Find steps by what was asked, said, run or changed in them",
		Long: `Find steps by their words: prompts, outputs, commands that agents ran, names of files that they
changed, and titles of tasks. A step must have all of the words. "A phrase" in quotes is found as a
whole, wor* finds what begins so, and accents and case do not matter. Filters go among the words:
flow:NAME, state:STATE (as in plait ls), agent:NAME, file:PATH (or a part of it), and since:TIME (a
date, a time, or how long ago, such as 7d).

The index is a file of this machine. It is built from the record by the first search, and from then on
kept up to date; it can be deleted.`,
		Example: `  plait search connection refused
  plait search '"connection refused"' since:7d
  plait search file:internal/app.go state:failed
  plait search max-agents agent:codex --json`,
		Args: func(cmd *cobra.Command, args []string) (err error) {
			if len(args) == 0 {
				return misused(cmd, "%s takes words to look for", cmd.CommandPath())
			}
			if err := notNegative("limit", limit); err != nil {
				return err
			}
			if q, err = search.Parse(strings.Join(args, " "), time.Now()); err != nil {
				return badUsage{err}
			}
			q.All, q.Limit = all, limit
			return nil
		},
		RunE: read(a, func(ctx context.Context, w *workplace, _ []string) (*search.Found, error) {
			return a.search(ctx, search.New(w.view(), w.home, worktree.Changed), q)
		}, writeFound),
	}
	cmd.Flags().BoolVar(&all, "all", false, "in every workspace")
	cmd.Flags().IntVarP(&limit, "limit", "n", 20, "at most `N` steps, 0 for all")
	return cmd
}

// search says how far the index is while it is being built.
func (a *app) search(ctx context.Context, index search.Index, q search.Query) (*search.Found, error) {
	for said := false; ; said = true {
		p, err := index.CatchUp(ctx, time.Second)
		if err != nil {
			return nil, err
		}
		if p.Complete {
			if said && isTerminal(a.err) {
				fmt.Fprintln(a.err)
			}
			return index.Search(ctx, q, time.Second)
		}
		if isTerminal(a.err) {
			fmt.Fprintf(a.err, "\rbuilding the search index: %d %%", 100*p.Position/p.Last)
		}
	}
}

func writeFound(out page, f *search.Found) {
	if len(f.Hits) == 0 {
		out.line("nothing was found")
	}
	for _, h := range f.Hits {
		who := h.Found
		if h.Role != "" {
			who = h.Role + ", " + h.Found
		}
		out.line("%s  %s · %s · %s", out.bold(text.Safe(h.Name)), text.Safe(who), text.Ago(h.At, time.Now()),
			text.FirstLine(h.Title, 60))
		var b strings.Builder
		for _, p := range h.Pieces() {
			if p.Match {
				b.WriteString(out.bold(text.Safe(p.Text)))
			} else {
				b.WriteString(text.Safe(p.Text))
			}
		}
		if h.Found != "title" {
			out.line("    %s", b.String())
		}
	}
	if f.More {
		out.line("more was found: add words or filters, or see more with --limit")
	}
}
