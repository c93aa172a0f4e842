package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/thread"
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

// showPrompt prints the exact prompt of a step of the chain of head, preceded by
// how it was assembled.
func (a *app) showPrompt(cmd *cobra.Command, w *workplace, head dag.Hash, name string) error {
	v, err := w.view().Prompt(cmd.Context(), head, name)
	if errors.Is(err, view.ErrNoPrompt) {
		return badUsage{err}
	}
	if err != nil {
		return err
	}
	return a.print(cmd, v, func(out io.Writer) {
		writeUses(out, a.style(out), v)
		fmt.Fprintln(out, strings.TrimRight(safe(v.Text), "\n"))
	})
}

// writeUses prints how a prompt was assembled.
func writeUses(out io.Writer, st style, v *view.Prompt) {
	fmt.Fprintf(out, "prompt of step %d (%s): %d bytes, about %d tokens\n", v.N, safe(v.Role), v.Bytes, v.Tokens)
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
		fmt.Fprintf(out, "  %3s  %-16s %-8s %s  %s\n", number, safe(u.Role), safe(u.Form), st.dim(u.Step.Short()),
			st.dim(what))
	}
	if len(v.Context) == 0 {
		fmt.Fprintln(out, "  no earlier step is included")
	}
	fmt.Fprintf(out, "%s\n", st.dim(strings.Repeat("─", 60)))
}
