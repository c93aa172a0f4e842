package cli

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/plait-run/plait/internal/record"
	"github.com/plait-run/plait/internal/sys/text"
	"github.com/plait-run/plait/internal/view"
)

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
