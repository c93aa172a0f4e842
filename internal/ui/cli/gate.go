package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/text"
	"github.com/plait-run/plait/internal/view"
)

func (a *app) gateCmd() *cobra.Command {
	cmd := group(&cobra.Command{Use: "gate", Short: "List, show, watch and answer questions and approvals"})
	cmd.AddCommand(a.gateListCmd(), a.gateShowCmd(), a.gateApproveCmd(), a.gateDenyCmd(), a.gateAnswerCmd(),
		a.gateWatchCmd())
	return cmd
}

var gateStates = []string{
	string(store.GateOpen), string(store.GateApproved), string(store.GateRejected),
	string(store.GateAnswered), string(store.GateExpired), string(store.GateWithdrawn),
}

func (a *app) gateListCmd() *cobra.Command {
	var all, quiet bool
	var state string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List what needs you in this workspace, newest first",
		Long:  `List the questions and approvals that wait for a person in this workspace, newest first.`,
		Example: `  plait gate list
  plait gate list --state approved     # past answers`,
		Args:    exactly(0, "no arguments"),
		PreRunE: func(*cobra.Command, []string) error { return oneOf("state", state, gateStates...) },
		RunE: read(a, func(ctx context.Context, w *workplace, _ []string) (gateList, error) {
			if state == "" && !all {
				state = string(store.GateOpen)
			}
			gates, err := w.view().Gates(ctx, view.GateFilter{State: store.GateState(state), All: all})
			slices.Reverse(gates)
			return gateList{gates}, err
		}, func(out page, v gateList) { a.gateTable(out, v.Gates, store.GateState(state), quiet) }),
	}
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "print ids only")
	cmd.Flags().BoolVar(&all, "all", false, "in every workspace and every state")
	cmd.Flags().StringVar(&state, "state", "", "only in this `state` (default open)")
	completeFlag(cmd, "state", gateStates...)
	return cmd
}

// A gateList is what gate list prints.
type gateList struct {
	Gates []store.Gate `json:"gates"`
}

func (a *app) gateTable(out page, gates []store.Gate, state store.GateState, quiet bool) {
	switch {
	case quiet || len(gates) > 0:
	case state == store.GateOpen:
		out.line("%s", a.says("no open questions or approvals here; see past answers with: plait gate list --all"))
		return
	default:
		out.line("no questions or approvals match")
		return
	}
	t := table{head: []string{"ID", "TASK", "OPENED", "ASKED BY", "KIND", "STATE", "QUESTION"}, elastic: []int{1, 3, 6}}
	for _, g := range gates {
		shown := string(g.State)
		if state != "" {
			shown = "" // all are in the requested state
		}
		t.add(g.ID, text.Safe(out.names.ByID(out.ctx, g.Thread)), text.Ago(g.OpenedAt, time.Now()),
			text.FirstLine(cmp.Or(g.Node, string(g.Source)), 30), view.KindWord(g.Kind), shown,
			text.FirstLine(view.About(g), 120))
	}
	out.list(t, quiet)
	if state == store.GateOpen && !quiet {
		out.line(a.says("\nLook at one with: plait gate show %s"), gates[0].ID)
	}
}

func (a *app) gateApproveCmd() *cobra.Command {
	var session bool
	var change inputFlags
	cmd := a.answerCmd(store.GateApproval, func(cmd *cobra.Command, g store.Gate, ans *gate.Answer) (err error) {
		ans.Approve = true
		if session {
			ans.Grant = store.GrantSession
		}
		ans.Input, err = a.input(cmd, change, g)
		return err
	})
	cmd.Use, cmd.Short = "approve ID", "Approve an action that an agent asks for"
	cmd.Long = `Approve exactly the action that is asked for: this command in this directory, or this diff.
Anything else asks again. The approval holds once, or with --session for the same action in
the same thread: a task's paths and actions ask separately. Look first with plait gate show.

With --edit or --input you approve the action with another input: another command, other
arguments of the tool. The agent carries out exactly what you wrote, once; both are in the
record. Claude Code and models can be given another input for a command, Claude Code for a
tool too. For other agents, deny it and say with -m what to do instead.

ID identifies the approval. On a terminal, ID can also be a task: its pending action is shown,
and you are asked to confirm.

` + afterSigned
	cmd.Example = `  plait approve g-35aeb9441b
  plait approve g-35aeb9441b --resume     # and continue the task here
  plait approve g-35aeb9441b --edit       # another command in its place`
	cmd.Flags().BoolVar(&session, "session", false, "approve the same action for the rest of this thread")
	change.add(cmd)
	return cmd
}

func (a *app) gateDenyCmd() *cobra.Command {
	cmd := a.answerCmd(store.GateApproval, func(_ *cobra.Command, _ store.Gate, ans *gate.Answer) error {
		ans.Reject = true
		return nil
	})
	cmd.Use, cmd.Short = "deny ID", "Deny an action that an agent asks for"
	cmd.Long = `Deny the action that is asked for. The agent is told, with your message, and continues
without it. ID identifies the approval; on a terminal it can also be a task.

` + afterSigned
	cmd.Example = `  plait deny g-35aeb9441b -m "use the staging server"`
	return cmd
}

func (a *app) gateAnswerCmd() *cobra.Command {
	cmd := a.answerCmd(store.GateInput, func(*cobra.Command, store.Gate, *gate.Answer) error { return nil })
	cmd.Use, cmd.Short = "answer ID|TASK -m TEXT", "Answer a question that an agent asks"
	cmd.Long = cmd.Short + ".\n\n" + afterAnswer
	cmd.Example = `  plait answer g-a545474512 -m 8080
  plait answer g-a545474512 -m @notes.md --resume`
	return cmd
}

// afterAnswer is the part of the help of each answer that says what happens then.
const afterAnswer = `The answer is recorded, and the process that runs the task continues. If none runs it, plait resume
continues it, or this command with --resume. The page and the full screen need neither: they run
on, and so can continue it themselves.`

// afterSigned is afterAnswer for approvals, whose answers can be signed.
const afterSigned = `With approvals: {sign: ssh} in your configuration, you sign what you answer with your SSH key: that
of --key, or git's user.signingkey if gpg.format is ssh, or else the only key of your SSH agent.

` + afterAnswer

// answerCmd makes a verb that answers gates of one kind; fill fills in the answer.
func (a *app) answerCmd(
	kind store.GateKind, fill func(*cobra.Command, store.Gate, *gate.Answer) error,
) *cobra.Command {
	var message, key string
	var resume bool
	cmd := &cobra.Command{
		Args: exactly(1, "the id of one question or approval"), ValidArgsFunction: a.completeGates(kind),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			said, err := a.text(message)
			if err != nil {
				return err
			}
			w, g, err := a.openAsked(cmd, args[0], kind)
			if err != nil {
				return err
			}
			switch {
			case g.Kind != kind && g.State != store.GateOpen:
				return &gate.StateError{Gate: g}
			case g.Kind != kind:
				return usagef("%s %s", g.ID, wrongKind(g))
			case kind == store.GateInput && g.State == store.GateOpen && strings.TrimSpace(said) == "":
				return usagef(`%s is a question; answer it with: plait answer %s -m "…"`, g.ID, g.ID)
			}
			ans := gate.Answer{Text: said}
			if err := fill(cmd, g, &ans); err != nil {
				return err
			}
			if row, free := w.resumable(ctx, g); resume && free { // before the answer is recorded
				if _, err := a.openAgreed(ctx, w, row); err != nil {
					return err
				}
			}
			ans.By, ans.Via, ans.Digest = gate.Person(), store.ViaCLI, g.Digest
			g, err = a.book(w, key, a.err).Answer(ctx, g.ID, ans)
			if errors.Is(err, gate.ErrInvalid) {
				return badUsage{err}
			}
			if err != nil {
				return err
			}
			if row, free := w.resumable(ctx, g); resume && free {
				return a.resumeAnswered(cmd, w, row, g)
			}
			next, driven := w.whatNext(ctx, g)
			return a.print(cmd, view.NewAnswered(g, driven), func(out page) {
				state := g.State
				if g.Grant == store.GrantSession {
					state += " for this thread"
				}
				if g.Edited != nil {
					state += " with another input"
				}
				out.line("%s  %s", g.ID, state)
				if next != "" {
					fmt.Fprintln(a.err, a.says(next))
				}
			})
		},
	}
	cmd.Flags().StringVarP(&message, "message", "m", "", "what to say: text, `@FILE`, or - for stdin")
	cmd.Flags().BoolVar(&resume, "resume", false, "then continue the task here, unless another process runs it")
	if kind == store.GateApproval {
		cmd.Flags().StringVar(&key, "key", "", "sign with the SSH key in `FILE`, private or public")
	}
	return cmd
}

// resumable returns the task of a gate, and reports whether it can be resumed here: it has not ended and no
// process drives it.
func (w *workplace) resumable(ctx context.Context, g store.Gate) (store.Thread, bool) {
	row, err := w.store.Thread(ctx, g.Task)
	return row, err == nil && !row.Ended() && !w.view().Driven(ctx, row.ID)
}

// openAgreed opens the workplace of a task found in w, and makes sure that the person agreed to its commands.
func (a *app) openAgreed(ctx context.Context, w *workplace, row store.Thread) (*workplace, error) {
	there, err := a.open(ctx, row.Workspace)
	if err != nil {
		return nil, err
	}
	if err := a.consent(there, control.Found{}, false); err != nil {
		return nil, view.Advise(err, "answer without --resume, then continue with: plait resume %s --trust",
			w.view().Names().Of(ctx, row))
	}
	return there, nil
}

// resumeAnswered resumes a task found in w, whose gate was just answered.
func (a *app) resumeAnswered(cmd *cobra.Command, w *workplace, row store.Thread, g store.Gate) error {
	if !a.json {
		fmt.Fprintf(a.err, "%s  %s\n", g.ID, g.State)
	}
	there, err := a.openAgreed(cmd.Context(), w, row) // its files can have changed in the meantime
	if err != nil {
		return err
	}
	return a.drive(cmd, there, row, control.Resume{}, driveFlags{})
}

// openAsked finds the question or approval to be answered, by its id. A task's id stands for its only open question,
// and on a terminal also for its only open approval. On a terminal either is shown first, and the person confirms it.
func (a *app) openAsked(cmd *cobra.Command, typed string, kind store.GateKind) (*workplace, store.Gate, error) {
	ctx := cmd.Context()
	w, g, err := a.openGate(ctx, typed)
	if !errors.Is(err, store.ErrNotFound) {
		return w, g, err
	}
	w, row, noTask := a.openTask(ctx, typed)
	if noTask != nil {
		return w, g, err // it is neither a gate nor a task
	}
	open, err := w.view().Gates(ctx, view.GateFilter{Task: row.ID, State: store.GateOpen})
	if err != nil {
		return nil, g, err
	}
	open = slices.DeleteFunc(open, func(g store.Gate) bool { return g.Kind != kind })
	name := a.names().Of(ctx, row)
	canAsk := !a.json && isTerminal(a.in) && isTerminal(a.err)
	switch {
	case len(open) == 0:
		return nil, g, fmt.Errorf("task %s has no open %s: %w", name, view.KindWord(kind), store.ErrNotFound)
	case len(open) == 1 && kind == store.GateInput && !canAsk:
		return w, open[0], nil // unlike an approval, an answer permits nothing
	case len(open) > 1 || !canAsk:
		var ids []string
		for _, g := range open {
			ids = append(ids, g.ID)
		}
		return nil, g, view.Advise(usagef("%s is a task: name the %s", text.Safe(typed), view.KindWord(kind)),
			"open in it: %s", strings.Join(ids, ", "))
	}
	g = open[0]
	diff, err := w.view().GateDiff(ctx, g)
	if err != nil {
		return nil, g, err
	}
	a.writeGate(a.page(ctx, a.err), g, name, diff, false)
	if !a.ask("Is this what you mean to " + cmd.Name() + "?") {
		return nil, g, usagef("nothing was answered")
	}
	return w, g, nil
}

// openGate opens the workplace of the current directory and finds the one gate
// whose id begins with what was typed, in its present state.
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
	prefix := "g-" + strings.TrimPrefix(strings.ToLower(typed), "g-")
	var found []store.Gate
	if prefix != "g-" {
		var err error
		if found, err = w.store.Gates(ctx, store.GateFilter{Prefix: prefix}); err != nil {
			return "", err
		}
	}
	if len(found) > 0 && found[0].ID == prefix { // the whole id, although others begin with it
		found = found[:1]
	}
	switch len(found) {
	case 0:
		return "", view.Advise(fmt.Errorf("no question or approval %q: %w", text.Safe(typed), store.ErrNotFound),
			"list them with `plait gate list --all`")
	case 1:
		return found[0].ID, nil
	}
	return "", fmt.Errorf("more than one question or approval begins with %q: give more of the id: %w", text.Safe(typed),
		store.ErrNotFound)
}

// completeGates completes ids of open gates of this workspace, of one kind or any.
func (a *app) completeGates(kind store.GateKind) cobra.CompletionFunc {
	return a.completeFirst(keepOrder, func(ctx context.Context, w *workplace, _ string) (out []string) {
		gates, _ := w.view().Gates(ctx, view.GateFilter{State: store.GateOpen})
		for _, g := range slices.Backward(gates) {
			if kind == "" || g.Kind == kind {
				out = append(out, g.ID+"\t"+text.FirstLine(string(g.Kind)+", "+view.About(g), 60))
			}
		}
		return out
	})
}
