package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/record/redact"
	"github.com/plait-run/plait/internal/sys/secret"
	"github.com/plait-run/plait/internal/sys/text"
)

// maxToRedact is the length in bytes of the longest text that can be redacted.
const maxToRedact = 64 << 10

func (a *app) redactCmd() *cobra.Command {
	var yes bool
	var reason string
	cmd := &cobra.Command{
		Use:   "redact",
		Short: "Redact a text everywhere in the record; hashes stay valid",
		Long: fmt.Sprintf(`Remove a text that should not be there, such as a pasted key, from every task: from steps, prompts,
logs, questions, answers and events, and from the files of tasks and agents on this machine. The
text is read from standard input, so that no shell keeps it; it must have at least %d characters.
Asterisks take its place.

Hashes stay, so threads hold together, and tasks can still be shown, forked and resumed. plait verify
counts what was redacted, and each task says in its events who did it, and why. Tasks that have the
text must not be running. A question or an approval with the text is asked again if it is open, or if
no step has used its answer yet.

Git repositories, worktrees, what steps changed in files, backups, exports, other machines and model
providers are not searched. The same text, recorded again, stays redacted where nothing else changed.
Without a terminal to confirm on, --yes is required.`, secret.Least),
		Example: `  plait redact
  plait redact --yes --reason "a pasted key" < key.txt`,
		Args: exactly(0, "no arguments: the text is read from standard input"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			words, err := a.textToRedact()
			if err != nil {
				return err
			}
			w, err := a.open(ctx, "")
			if err != nil {
				return err
			}
			if !yes {
				if err := a.confirmRedaction(ctx, w, words); err != nil {
					return err
				}
			}
			report, files, err := w.control.Redact(ctx, words, gate.Person(), reason)
			if errors.Is(err, redact.ErrName) {
				err = badUsage{err}
			}
			if err != nil {
				return err
			}
			return a.print(cmd, struct {
				redact.Report
				Files int `json:"files"`
			}{report, files}, func(out page) {
				out.line("redacted %s, and %s", amount(report), text.Count(files, "file"))
				if len(report.Asked) > 0 {
					out.line("asked again when their tasks are resumed: %s", strings.Join(report.Asked, ", "))
				}
			})
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask for confirmation")
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the events of the tasks")
	return cmd
}

// textToRedact reads the text to redact.
func (a *app) textToRedact() (string, error) {
	var data []byte
	var err error
	if isTerminal(a.in) {
		fmt.Fprint(a.err, "Text to redact (not shown): ")
		data, err = term.ReadPassword(int(a.in.(*os.File).Fd()))
		fmt.Fprintln(a.err)
	} else {
		data, err = io.ReadAll(io.LimitReader(a.in, maxToRedact+2))
	}
	if err != nil {
		return "", fmt.Errorf("read the text to redact: %w", err)
	}
	text := strings.TrimSpace(strings.TrimPrefix(string(data), byteOrderMark))
	if n := len(text); n < secret.Least || n > maxToRedact {
		return "", usagef("the text has %d bytes: want %d to %d, on standard input", n, secret.Least, maxToRedact)
	}
	return text, nil
}

// confirmRedaction makes sure that a person wants the text to be redacted.
func (a *app) confirmRedaction(ctx context.Context, w *workplace, text string) error {
	r, err := redact.Find(ctx, redact.Config{Store: w.store, Text: text})
	if err != nil {
		return err
	}
	if !isTerminal(a.in) || !isTerminal(os.Stderr) {
		return usagef("nothing was redacted: %s have the text; confirm with --yes", amount(r))
	}
	if !a.ask(amount(r) + " have the text. Redact them, and the files of tasks and agents?") {
		return usagef("nothing was redacted")
	}
	return nil
}

// amount says how much has the text.
func amount(r redact.Report) string {
	return fmt.Sprintf("%s, %s and %s of %s", text.Count(r.Objects, "object"), text.Count(r.Rows, "row"),
		text.Count(r.Events, "event"), text.Count(len(r.Tasks), "task"))
}
