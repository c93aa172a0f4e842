package cli

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/record"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/view"
)

// showCalls prints the requests of the agent of a step of the chain of head to its model: all of them in a table,
// or one with its contents.
func (a *app) showCalls(cmd *cobra.Command, w *workplace, row store.Thread, head dag.Hash, step string, one int) error {
	v, err := w.view().Calls(cmd.Context(), head, step, one)
	if errors.Is(err, view.ErrNoCalls) {
		if opts, bad := record.OptionsOf(row); bad == nil && opts.Replay != "" {
			return view.Advise(badUsage{err},
				"a replay asks no model; see the task that it replays: `plait thread show %s --calls %s`",
				w.view().Names().In(cmd.Context(), opts.Replay), step)
		}
		return view.Advise(badUsage{err}, "record them with `plait run --record`; docs/gateway.md says for which agents")
	}
	if err != nil {
		return err
	}
	return a.print(cmd, v, func(out io.Writer) {
		st := a.style(out)
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
			t.add(strconv.Itoa(c.N), time.UnixMilli(c.At).Format("15:04:05.000"), c.Path, safe(c.Model), status,
				about+strconv.FormatInt(u.InputTokens, 10), strconv.FormatInt(u.CachedInputTokens, 10),
				about+strconv.FormatInt(u.OutputTokens, 10))
		}
		t.write(out, st, columns(out))
		for _, c := range v.Calls {
			if c.Request != nil {
				fmt.Fprintf(out, "%s\n%s\n%s\n%s\n", st.dim("request"), safe(*c.Request), st.dim("response"),
					strings.TrimRight(safe(*c.Response), "\n"))
			}
		}
	})
}
