package cli

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/text"
	"github.com/plait-run/plait/internal/view"
)

func (a *app) gateShowCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "show ID",
		Short:   "Show a question or an approval in full",
		Example: "  plait gate show g-35aeb9441b",
		Args:    exactly(1, "the id of one question or approval"), ValidArgsFunction: a.completeGates(""),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			w, g, err := a.openGate(ctx, args[0])
			if err != nil {
				return err
			}
			diff, err := w.view().GateDiff(ctx, g)
			if err != nil {
				return err
			}
			redacted, err := w.view().Redacted(ctx, g)
			if err != nil {
				return err
			}
			name := w.view().Names().ByID(ctx, g.Thread)
			if root, err := w.store.Thread(ctx, g.Task); err == nil && control.Team(root) {
				g.Ref = "" // no process reads it
			}
			return a.print(cmd, view.GateRow(g), func(out io.Writer) { a.writeGate(out, g, name, diff, redacted) })
		},
	}
}

// writeGate prints all of a gate of the thread called name. Text from agents never begins a line: it could
// be mistaken for Plait's own.
func (a *app) writeGate(out io.Writer, g store.Gate, name, diff string, redacted bool) {
	line := func(label, text string) {
		text = safe(text)
		switch {
		case text == "":
		case strings.Contains(text, "\n"):
			fmt.Fprintf(out, "%s\n    %s\n", label, strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n    "))
		default:
			fmt.Fprintf(out, "%-10s%s\n", label, text)
		}
	}
	state := string(g.State)
	switch {
	case g.State == store.GateApproved && g.Grant == store.GrantSession:
		state += ", for this task"
	case g.State == store.GateApproved:
		state += ", once"
	}
	if g.Edited != nil {
		state += ", with another input"
	}
	line("id", g.ID)
	line("kind", view.KindWord(g.Kind))
	line("state", state)
	line("task", name)
	line("asked by", view.Asker(g))
	line("opened", clock(g.OpenedAt))
	if g.ExpiresAt != 0 {
		at := clock(g.ExpiresAt)
		if g.State == store.GateOpen {
			at += ", " + text.In(g.ExpiresAt, time.Now())
		}
		line("expires", at+onTimeout(g))
	}
	line("question", view.Question(g.Question))
	if g.Kind == store.GateInput {
		for i, o := range g.Options {
			line("option "+strconv.Itoa(i+1), o)
		}
	}
	writeAction(line, g)
	line("diff", diff)
	if g.AnsweredAt != 0 {
		text := clock(g.AnsweredAt)
		if g.By != "" {
			text += " by " + g.By
		}
		if g.Via != "" {
			text += " via " + string(g.Via)
		}
		line("answered", text)
		line("answer", g.Text)
	}
	if g.UsedAt != 0 {
		line("used", clock(g.UsedAt))
	}
	if g.State == store.GateOpen {
		for i, o := range view.AnswersOf(g) {
			line([]string{"answer", "or"}[min(i, 1)], a.says(commandLine(o)))
		}
		if gate.Editable(g) {
			line("or", a.says("plait approve "+g.ID+" --edit"))
		}
		line("or write", g.Ref)
	}
	writeDigests(line, g, redacted)
}

// writeDigests prints what an answer is bound to, and whether it still is.
func writeDigests(line func(label, text string), g store.Gate, redacted bool) {
	differs := func(what string) string {
		if redacted {
			return ", of " + what + " before a text in it was redacted"
		}
		return ", which does NOT match " + what
	}
	digest := g.Digest.String()
	if d, err := gate.Digest(g.Thread, g.Action); g.Kind == store.GateApproval && (err != nil || d != g.Digest) {
		digest += differs("the action")
	}
	line("digest", digest)
	if g.Edited == nil {
		return
	}
	line("approved", string(g.Edited))
	digest = g.EditedDigest.String()
	if _, _, err := gate.Carries(g); err != nil {
		digest += differs("what was approved")
	}
	line("bound to", digest)
}

// writeAction prints an action part by part, and as JSON if it has unknown
// parts: people must see what they approve.
func writeAction(line func(label, text string), g store.Gate) {
	if len(g.Action) == 0 {
		return
	}
	act, whole, err := view.Action(g)
	if !whole {
		line("exactly", string(g.Action))
	}
	if err != nil {
		return
	}
	line("action", act.Type)
	line("command", act.Command)
	line("cwd", act.Cwd)
	line("tool", act.Tool)
	line("params", string(act.Params))
	line("diff", act.Diff)
}

func onTimeout(g store.Gate) string {
	if g.OnTimeout == "" {
		return ""
	}
	return ", then " + g.OnTimeout
}

func clock(ms int64) string { return time.UnixMilli(ms).Format("2006-01-02 15:04:05") }
