package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/control"
	"github.com/plait-run/plait/internal/gate"
	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/view"
)

func (a *app) gateCmd() *cobra.Command {
	cmd := group(&cobra.Command{Use: "gate", Short: "See what waits for a person, and answer it"})
	cmd.AddCommand(a.gateListCmd(), a.gateShowCmd(), a.gateApproveCmd(), a.gateDenyCmd(), a.gateAnswerCmd(),
		a.gateWatchCmd())
	return cmd
}

func (w *workplace) book() *gate.Book { return gate.New(gate.Config{Store: w.store}) }

var gateStates = []string{
	string(store.GateOpen), string(store.GateApproved), string(store.GateRejected),
	string(store.GateAnswered), string(store.GateExpired), string(store.GateWithdrawn),
}

func (a *app) gateListCmd() *cobra.Command {
	var all bool
	var state string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List what waits for a person in this workspace, newest first",
		Args:  exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			if state != "" && !slices.Contains(gateStates, state) {
				return usagef("--state %s: there are %s", safe(state), strings.Join(gateStates, ", "))
			}
			if state == "" && !all {
				state = string(store.GateOpen)
			}
			w, err := a.open(ctx, "")
			if err != nil {
				return err
			}
			gates, err := w.view().Gates(ctx, view.GateFilter{State: store.GateState(state), All: all})
			if err != nil {
				return err
			}
			slices.Reverse(gates)
			return a.print(cmd, map[string]any{"gates": gates}, func(out io.Writer) { gateTable(out, gates, store.GateState(state)) })
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "of every workspace and in every state")
	cmd.Flags().StringVar(&state, "state", "", "only in this state (default open)")
	cmd.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(gateStates, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func gateTable(out io.Writer, gates []store.Gate, state store.GateState) {
	if len(gates) == 0 {
		if state == store.GateOpen {
			fmt.Fprintln(out, "nothing waits for you here; plait gate list --all shows every gate")
			return
		}
		fmt.Fprintln(out, "no such gates here")
		return
	}
	tw := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(tw, "GATE\tOPENED\tTHREAD\tASKED BY\tKIND\tSTATE\tQUESTION")
	for _, g := range gates {
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n",
			g.ID, ago(g.OpenedAt), where(g), oneLine(view.Asker(g), 30), g.Kind, g.State, oneLine(view.About(g), 80))
	}
	tw.Flush()
}

func (a *app) gateApproveCmd() *cobra.Command {
	var session bool
	cmd := a.answerCmd(store.GateApproval, func(ans *gate.Answer) {
		ans.Approve = true
		if session {
			ans.Grant = store.GrantSession
		}
	})
	cmd.Use, cmd.Short = "approve GATE", "Approve exactly what a gate asks for"
	cmd.Long = `Approve exactly what a gate asks for: this command, in this place, or this diff. Anything
else asks again. It holds once, or with --session whenever the same is asked in the same
thread. Look first with plait gate show.`
	cmd.Flags().BoolVar(&session, "session", false, "also when the same is asked again in this thread")
	return cmd
}

func (a *app) gateDenyCmd() *cobra.Command {
	cmd := a.answerCmd(store.GateApproval, func(ans *gate.Answer) { ans.Reject = true })
	cmd.Use, cmd.Short = "deny GATE", "Refuse what a gate asks for"
	return cmd
}

func (a *app) gateAnswerCmd() *cobra.Command {
	cmd := a.answerCmd(store.GateInput, func(*gate.Answer) {})
	cmd.Use, cmd.Short = "answer GATE -m TEXT", "Answer a gate that asks a question"
	return cmd
}

// answerCmd makes a verb that answers gates of one kind.
func (a *app) answerCmd(kind store.GateKind, fill func(*gate.Answer)) *cobra.Command {
	var message string
	var goOn bool
	cmd := &cobra.Command{
		Args: exactly(1, "one gate"), ValidArgsFunction: a.completeGates(kind),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			text, err := a.text(message)
			if err != nil {
				return err
			}
			w, g, err := a.openGate(ctx, args[0])
			if err != nil {
				return err
			}
			if g.Kind != kind {
				return usagef("gate %s %s", g.ID, wrongKind(g))
			}
			if kind == store.GateInput && strings.TrimSpace(text) == "" {
				return usagef(`gate %s asks a question; answer it with -m "…"`, g.ID)
			}
			ans := gate.Answer{Text: text}
			fill(&ans)
			g, err = w.answer(ctx, g, ans)
			if errors.Is(err, gate.ErrInvalid) {
				return badUsage{err}
			}
			if err != nil {
				return err
			}
			if row, free := w.goesOn(ctx, g); goOn && free {
				return a.resumeAnswered(cmd, row, g)
			}
			next, driven := w.whatNext(ctx, g)
			return a.print(cmd, view.NewAnswered(g, driven), func(out io.Writer) {
				state := g.State
				if g.Grant == store.GrantSession {
					state += " for the session"
				}
				fmt.Fprintf(out, "%s  %s\n", g.ID, state)
				if next != "" {
					fmt.Fprintln(a.err, next)
				}
			})
		},
	}
	cmd.Flags().StringVarP(&message, "message", "m", "", "what to say (@FILE reads a file, - reads standard input)")
	cmd.Flags().BoolVar(&goOn, "resume", false, "resume the task here, unless another process drives it")
	return cmd
}

// goesOn returns the task of a gate, and reports whether it can be resumed here: it has not ended and no
// process drives it.
func (w *workplace) goesOn(ctx context.Context, g store.Gate) (store.Thread, bool) {
	row, err := w.store.Thread(ctx, g.Task)
	return row, err == nil && !row.Ended() && !w.view().Driven(ctx, row.ID)
}

// resumeAnswered lets a task go on whose gate was answered just now.
func (a *app) resumeAnswered(cmd *cobra.Command, row store.Thread, g store.Gate) error {
	w, err := a.open(cmd.Context(), row.Workspace)
	if err != nil {
		return err
	}
	if !a.json {
		fmt.Fprintf(a.err, "%s  %s\n", g.ID, g.State)
	}
	return a.drive(cmd, w, row, control.Resume{Wait: a.waits(driveFlags{})}, false)
}

// answer answers a gate for the person at the keyboard.
func (w *workplace) answer(ctx context.Context, g store.Gate, ans gate.Answer) (store.Gate, error) {
	ans.By, ans.Via = gate.Person(), store.ViaCLI
	return w.book().Answer(ctx, g.ID, ans)
}

// openGate opens the workplace of the current directory and finds the one gate
// whose id begins with what was typed, as it is now.
func (a *app) openGate(ctx context.Context, typed string) (*workplace, store.Gate, error) {
	w, err := a.open(ctx, "")
	if err != nil {
		return nil, store.Gate{}, err
	}
	id, err := w.gateID(ctx, typed)
	if err != nil {
		return nil, store.Gate{}, err
	}
	g, err := w.view().Gate(ctx, id)
	return w, g, err
}

// gateID finds the one gate whose id begins with what was typed, with or without
// the letter that all ids begin with.
func (w *workplace) gateID(ctx context.Context, typed string) (string, error) {
	rows, err := w.store.Gates(ctx, store.GateFilter{})
	if err != nil {
		return "", err
	}
	prefix := strings.TrimPrefix(strings.ToLower(typed), "g-")
	var found []string
	for _, g := range rows {
		switch digits := strings.TrimPrefix(g.ID, "g-"); {
		case digits == prefix:
			return g.ID, nil
		case prefix != "" && strings.HasPrefix(digits, prefix):
			found = append(found, g.ID)
		}
	}
	switch len(found) {
	case 0:
		return "", fmt.Errorf("no gate %q; `plait gate list --all` shows them: %w", safe(typed), store.ErrNotFound)
	case 1:
		return found[0], nil
	}
	return "", fmt.Errorf("more than one gate begins with %q: give more of the id: %w", safe(typed), store.ErrNotFound)
}

// completeGates completes ids of open gates of this workspace, of one kind or any.
func (a *app) completeGates(kind store.GateKind) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		w, err := a.open(background(cmd), "")
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		gates, err := w.view().Gates(background(cmd), view.GateFilter{State: store.GateOpen})
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var out []string
		for _, g := range slices.Backward(gates) {
			if kind == "" || g.Kind == kind {
				out = append(out, g.ID+"\t"+oneLine(string(g.Kind)+", "+view.About(g), 60))
			}
		}
		return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}
