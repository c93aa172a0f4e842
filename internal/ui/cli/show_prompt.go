package cli

import (
	"fmt"
	"strings"

	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/sys/text"
	"github.com/plait-run/plait/internal/view"
)

// formMeans explains the forms that are not self-explanatory.
var formMeans = map[string]string{
	thread.FormBrief:   "without what its main path said",
	thread.FormSummary: "replaces everything before it",
	thread.FormSession: "the session knew it, and everything before it",
	thread.FormLossy:   "a session that is lost knew it, and everything before it",
	thread.FormOmitted: "left out, and everything before it that is not listed",
}

// writePrompt prints how a prompt was assembled, and its text.
func writePrompt(out page, v *view.Prompt) {
	out.line("prompt of step %d (%s): %d bytes, about %d tokens", v.N, text.Safe(v.Role), v.Bytes, v.Tokens)
	for _, u := range v.Context {
		number := "–"
		if u.N > 0 {
			number = fmt.Sprint(u.N)
		}
		what := formMeans[u.Form]
		if u.Bytes > 0 {
			size := fmt.Sprintf("%d bytes, about %d tokens", u.Bytes, u.Tokens)
			what = strings.TrimSuffix(size+"; "+what, "; ")
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
