package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/dag"
	"github.com/plait-run/plait/internal/thread"
)

// A promptView is the exact prompt of a step, and how it was put together.
type promptView struct {
	Step    dag.Hash  `json:"step"`
	N       int       `json:"n"`
	Role    string    `json:"role"`
	Prompt  dag.Hash  `json:"prompt"`
	Bytes   int       `json:"bytes"`
	Tokens  int       `json:"tokens"` // roughly
	Context []useView `json:"context"`
	Text    string    `json:"text"`
}

// A useView is one earlier step and the form in which it went in.
type useView struct {
	Step   dag.Hash `json:"step"`
	Form   string   `json:"form"`
	N      int      `json:"n"` // 0: not a step of this thread
	Role   string   `json:"role"`
	Bytes  int      `json:"bytes"`  // of what went in, without its fence
	Tokens int      `json:"tokens"` // roughly
}

// formMeans says what the forms mean that do not say it themselves.
var formMeans = map[string]string{
	thread.FormSummary: "stands for everything before it",
	thread.FormSession: "the session knew it, and everything before it",
	thread.FormLossy:   "a session that is lost knew it, and everything before it",
	thread.FormOmitted: "left out, and everything before it that is not listed",
}

// showPrompt prints the exact prompt of a step of the chain of head, and before it
// how it was put together.
func (a *app) showPrompt(cmd *cobra.Command, w *workplace, head dag.Hash, name string) error {
	ctx := cmd.Context()
	r := w.control.Reader()
	s, n, err := r.Find(ctx, head, name)
	if err != nil {
		return err
	}
	if s.State == nil || s.State.Detail.IsZero() {
		return usagef("step %d was not made by an agent", n)
	}
	d, err := r.Detail(ctx, s.State.Detail)
	if err != nil {
		return err
	}
	if d.Prompt.IsZero() {
		return usagef("step %d was not made by an agent", n)
	}
	v := promptView{Step: s.Hash, N: n, Role: s.State.Role, Prompt: d.Prompt, Context: []useView{}}
	if v.Text, err = r.Text(ctx, d.Prompt); err != nil {
		return err
	}
	v.Bytes, v.Tokens = len(v.Text), thread.ApproxTokens(len(v.Text))
	steps, err := r.Steps(ctx, s.Hash)
	if err != nil {
		return err
	}
	uses, err := r.Uses(ctx, steps, d.Context)
	if err != nil {
		return err
	}
	for _, u := range uses {
		v.Context = append(v.Context, useView{u.Step, u.Form, u.N, u.Role, u.Bytes, thread.ApproxTokens(u.Bytes)})
	}
	return a.print(cmd, v, func(out io.Writer) {
		writeUses(out, a.style(out), &v)
		fmt.Fprintln(out, strings.TrimRight(safe(v.Text), "\n"))
	})
}

// writeUses prints how a prompt was put together.
func writeUses(out io.Writer, st style, v *promptView) {
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
		fmt.Fprintf(out, "  %3s  %-16s %-8s %s  %s\n", number, safe(u.Role), safe(u.Form), st.dim(u.Step.Short()), st.dim(what))
	}
	if len(v.Context) == 0 {
		fmt.Fprintln(out, "  no earlier step went into it")
	}
	fmt.Fprintf(out, "%s\n", st.dim(strings.Repeat("─", 60)))
}
