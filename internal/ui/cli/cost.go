package cli

import (
	"cmp"
	"context"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/sys/text"
	"github.com/plait-run/plait/internal/view"
)

func (a *app) costCmd() *cobra.Command {
	var by, since string
	f := view.TaskFilter{}
	cmd := &cobra.Command{
		Use:   "cost",
		Short: "Add up what agents have used, in tokens and dollars",
		Long: `Add up what the attempts of this workspace's tasks have used, in tokens and dollars. An attempt counts
on the day it began. Cost is what an agent reports, or else the list price of its model, which prices
in the configuration replaces; tokens of other models are counted as unpriced.`,
		Example: `  plait cost                        # by day
  plait cost --by model --since 7d
  plait cost --all --by flow --json`,
		Args: exactly(0, "no arguments"),
		PreRunE: func(*cobra.Command, []string) (err error) {
			if err := oneOf("by", by, view.CostKeys()...); err != nil {
				return err
			}
			if f.Since, _, err = view.Span(since, "", time.Now()); err != nil {
				return badUsage{err}
			}
			return nil
		},
		RunE: read(a, func(ctx context.Context, w *workplace, _ []string) (view.Costs, error) {
			return w.view().Costs(ctx, f, by)
		}, func(out page, v view.Costs) {
			if len(v.Rows) == 0 {
				out.line("no agent has used anything")
				return
			}
			t := table{head: []string{v.By, "cost", "tokens", "unpriced", "tasks", "attempts"}, elastic: []int{0}}
			add := func(name string, c view.Cost) {
				unpriced := ""
				if c.UnpricedTokens > 0 {
					unpriced = text.Number(c.UnpricedTokens)
				}
				t.add(text.Safe(name), price(c.Usage.CostMicroUSD), text.Number(c.Usage.InputTokens+c.Usage.OutputTokens),
					unpriced, strconv.Itoa(c.Tasks), strconv.Itoa(c.Attempts))
			}
			for _, c := range v.Rows {
				add(cmp.Or(c.Name, "not known"), c)
			}
			add("total", v.Total)
			out.table(t)
		}),
	}
	cmd.Flags().StringVar(&by, "by", view.CostByDay, "add up by `key`: day, flow, agent, model or person")
	cmd.Flags().StringVar(&since, "since", "", "only attempts begun since: a date, a `time` (RFC 3339), or a duration ago (24h)")
	cmd.Flags().StringVar(&f.Flow, "flow", "", "only tasks of this `flow`")
	cmd.Flags().BoolVar(&f.All, "all", false, "in every workspace")
	completeFlag(cmd, "by", view.CostKeys()...)
	cmd.RegisterFlagCompletionFunc("flow", a.completeFlows)
	return cmd
}
