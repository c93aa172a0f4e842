package cli

import (
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/record/history"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/sshsig"
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
			if root, err := w.store.Thread(ctx, g.Task); err == nil && control.Team(root) {
				g.Ref = "" // no process reads it
			}
			return a.print(cmd, view.GateRow(g), func(out page) {
				a.writeGate(out, g, out.names.ByID(ctx, g.Thread), diff, redacted)
			})
		},
	}
}

// writeGate prints all of a gate of the thread with a name.
func (a *app) writeGate(out page, g store.Gate, name, diff string, redacted bool) {
	state := string(g.State)
	switch {
	case g.State == store.GateApproved && g.Grant == store.GrantSession:
		state += ", for this thread"
	case g.State == store.GateApproved:
		state += ", once"
	}
	if g.Edited != nil {
		state += ", with another input"
	}
	out.field("id", g.ID)
	out.field("kind", view.KindWord(g.Kind))
	out.field("state", state)
	out.field("task", name)
	out.field("asked by", view.Asker(g))
	out.field("opened", clock(g.OpenedAt))
	if g.ExpiresAt != 0 {
		at := clock(g.ExpiresAt)
		if g.State == store.GateOpen {
			at += ", " + text.In(g.ExpiresAt, time.Now())
		}
		if g.OnTimeout != "" {
			at += ", then " + g.OnTimeout
		}
		out.field("expires", at)
	}
	out.field("question", view.Question(g.Question))
	if g.Kind == store.GateInput {
		for i, o := range g.Options {
			out.field("option "+strconv.Itoa(i+1), o)
		}
	}
	writeAction(out, g)
	out.field("diff", diff)
	if g.AnsweredAt != 0 {
		at := clock(g.AnsweredAt)
		if g.By != "" {
			at += " by " + g.By
		}
		if g.Via != "" {
			at += " via " + string(g.Via)
		}
		out.field("answered", at)
		out.field("answer", g.Text)
		out.field("signed", signedBy(g))
	}
	if g.UsedAt != 0 {
		out.field("used", clock(g.UsedAt))
	}
	if g.State == store.GateOpen {
		for i, o := range view.AnswersOf(g) {
			out.field([]string{"answer", "or"}[min(i, 1)], a.says(commandLine(o)))
		}
		if gate.Editable(g) {
			out.field("or", a.says("plait approve "+g.ID+" --edit"))
		}
		out.field("or write", g.Ref)
	}
	writeDigests(out, g, redacted)
}

// signedBy says who signed the answer of a gate, or "" if nobody did.
func signedBy(g store.Gate) string {
	if g.Signature == "" {
		return ""
	}
	_, key, err := history.OpenApproval(g)
	if err != nil {
		return "NOT VALID: " + err.Error()
	}
	return "by " + sshsig.Fingerprint(key)
}

// writeDigests prints what an answer is bound to, and whether it still is.
func writeDigests(out page, g store.Gate, redacted bool) {
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
	out.field("digest", digest)
	if g.Edited == nil {
		return
	}
	out.field("approved", string(g.Edited))
	digest = g.EditedDigest.String()
	if _, _, err := gate.Carries(g); err != nil {
		digest += differs("what was approved")
	}
	out.field("bound to", digest)
}

// writeAction prints an action part by part, and as JSON if it has unknown
// parts: people must see what they approve.
func writeAction(out page, g store.Gate) {
	if len(g.Action) == 0 {
		return
	}
	act, whole, err := view.Action(g)
	if !whole {
		out.field("exactly", string(g.Action))
	}
	if err != nil {
		return
	}
	out.field("action", act.Type)
	out.field("command", act.Command)
	out.field("cwd", act.Cwd)
	out.field("tool", act.Tool)
	out.field("params", string(act.Params))
	out.field("diff", act.Diff)
}

func clock(ms int64) string { return time.UnixMilli(ms).Format("2006-01-02 15:04:05") }
