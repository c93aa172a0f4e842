package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/itchyny/gojq"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/text"
	"github.com/plait-run/plait/internal/view"
	"github.com/plait-run/plait/internal/view/advice"
	"github.com/plait-run/plait/internal/view/taskdir"
)

// errorCodes names the exit codes in JSON.
var errorCodes = map[int]string{
	exitFailed: "failed", exitUsage: "usage", exitNotFound: "not-found", exitPerson: "blocked", exitLimit: "limit",
	exitVerify: "corrupt", exitConflict: "conflict", exitTimeout: "timeout", exitInterrupted: "interrupted",
}

// print prints data as JSON, or what --jq selects of it, or for people.
func (a *app) print(cmd *cobra.Command, data any, human func(out page)) error {
	if !a.json {
		human(a.page(cmd.Context(), a.out))
		return nil
	}
	a.said = true
	if a.jq != nil {
		return a.filtered(data)
	}
	return a.line(view.NewEnvelope(verbOf(cmd), data))
}

// names returns what people type for threads.
func (a *app) names() *view.Names { return (&view.Reader{Store: a.store}).Names() }

// verbOf names a verb: task.show.
func verbOf(cmd *cobra.Command) string {
	_, verb, _ := strings.Cut(cmd.CommandPath(), " ")
	return strings.ReplaceAll(verb, " ", ".")
}

// line prints one JSON object on a line, or what --jq selects of it.
func (a *app) line(v any) error {
	if a.jq != nil {
		return a.filtered(v)
	}
	enc := json.NewEncoder(a.out)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// finish prints an error and returns the exit code.
func (a *app) finish(err error) int {
	if err == nil {
		return a.code
	}
	code := exitCode(err)
	todo := a.says(a.hint(err))
	failure := view.Failure{Code: errorCodes[code], Hint: &todo,
		Message: a.keys.secrets.Text(a.says(advice.ErrorText(err, a.named.Words())))}
	if errors.Is(err, store.ErrNotFound) { // the message already says so
		failure.Message = a.says(notFound(err))
	}
	var invalid *flow.InvalidError
	if errors.As(err, &invalid) {
		failure.Problems = invalid.Problems
	}
	if a.json && a.jq == nil && !a.said {
		a.line(view.NewFailure(failure))
		return code
	}
	if a.store != nil {
		failure.Message = a.names().In(context.Background(), failure.Message)
	}
	fmt.Fprintln(a.err, a.program.Name+": "+text.Safe(failure.Message))
	if todo != "" {
		fmt.Fprintln(a.err, "  "+text.Safe(todo))
	}
	return code
}

// hint says what to do about an error, unless its text says so.
func (a *app) hint(err error) string {
	var held *store.HeldError
	var advised *view.Advised
	switch {
	case errors.As(err, &advised):
		return advised.Do.In(a.named.Words())
	case errors.As(err, &held):
		task := a.heldTask(held)
		return fmt.Sprintf("follow it with `plait logs -f %s`, or stop it with `plait cancel %s`", task, task)
	case errors.Is(err, store.ErrNewer):
		return "update Plait, or set PLAIT_HOME to another directory"
	case errors.Is(err, store.ErrCorrupt):
		return "run `plait verify` to list all damage; nothing was changed"
	case errors.Is(err, store.ErrBroken):
		return "check the disk, then run the command again: it continues from what was saved"
	}
	return ""
}

// heldTask returns what a person types for the task that another process drives.
func (a *app) heldTask(held *store.HeldError) string {
	id := held.Name[strings.LastIndexAny(held.Name, " /:")+1:]
	if a.store != nil {
		if row, err := a.store.Thread(context.Background(), id); err == nil && row.Short != "" {
			return row.Short
		}
	}
	return id
}

// A style colors text if its writer is a terminal and color was not disabled.
type style struct{ on bool }

// The values of --color.
const (
	colorAuto   = "auto"
	colorAlways = "always"
	colorNever  = "never"
)

var colors = []string{colorAuto, colorAlways, colorNever}

func (a *app) style(w io.Writer) style {
	switch a.color {
	case colorAlways:
		return style{true}
	case colorNever:
		return style{false}
	}
	return style{isTerminal(w) && a.getenv("NO_COLOR") == "" && a.getenv("TERM") != "dumb"}
}

func (s style) paint(code, text string) string {
	if !s.on || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (s style) bold(t string) string { return s.paint("1", t) }
func (s style) dim(t string) string  { return s.paint("2", t) }

// state colors a display state, whatever follows it in text.
func (s style) state(text string) string {
	for word, code := range stateColors {
		if strings.HasPrefix(text, string(word)) || strings.HasPrefix(string(word), strings.TrimSuffix(text, "…")) {
			return s.paint(code, text)
		}
	}
	return text
}

var stateColors = map[view.DisplayState]string{
	view.DisplayQueued: "2", view.DisplayRunning: "36", view.DisplayNeedsYou: "33", view.DisplayDone: "32",
	view.DisplayFailed: "31", view.DisplayCancelled: "2",
}

func isTerminal(v any) bool {
	f, ok := v.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// ask asks a question on a terminal, and reports whether the answer is y or yes.
func (a *app) ask(question string) bool {
	fmt.Fprint(a.err, question+" [y/N] ")
	line, err := bufio.NewReader(a.in).ReadString('\n')
	answer := strings.ToLower(strings.TrimSpace(line))
	return err == nil && (answer == "y" || answer == "yes")
}

// says returns a text with the program's own name, so that the commands in it can be typed as they are.
func (a *app) says(text string) string { return a.named.Says(text) }

// aside prints a hint to the person on standard error.
func (a *app) aside(hint string) { fmt.Fprintln(a.err, a.style(a.err).dim(a.says(hint))) }

// rename puts the program's name into the help of all verbs.
func (a *app) rename(root *cobra.Command) {
	a.named = taskdir.Program{Name: a.program.Name}
	for _, verb := range root.Commands() {
		a.named.Verbs = append(a.named.Verbs, verb.Name())
	}
	each(root, func(cmd *cobra.Command) {
		cmd.Short, cmd.Long, cmd.Example = a.says(cmd.Short), a.says(cmd.Long), a.says(cmd.Example)
		for _, flags := range []*pflag.FlagSet{cmd.Flags(), cmd.PersistentFlags()} {
			flags.VisitAll(func(f *pflag.Flag) { f.Usage = a.says(f.Usage) })
		}
	})
}

// each calls f with a command and all commands below it.
func each(cmd *cobra.Command, f func(*cobra.Command)) {
	f(cmd)
	for _, sub := range cmd.Commands() {
		each(sub, f)
	}
}

// useJQ reads the expression of --jq, which implies JSON.
func (a *app) useJQ(expr string) error {
	if expr == "" {
		return nil
	}
	query, err := gojq.Parse(expr)
	if err != nil {
		return usagef("invalid value %q for --jq: %w", text.Safe(expr), err)
	}
	if a.jq, err = gojq.Compile(query); err != nil {
		return usagef("invalid value %q for --jq: %w", text.Safe(expr), err)
	}
	a.json = true
	return nil
}

// filtered prints what --jq selects from v, one result a line: texts as they are, everything else as JSON.
func (a *app) filtered(v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	var in any
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	for results := a.jq.Run(in); ; {
		out, ok := results.Next()
		if !ok {
			return nil
		}
		switch out := out.(type) {
		case error:
			return usagef("--jq: %w", out)
		case string:
			if _, err := fmt.Fprintln(a.out, out); err != nil {
				return err
			}
		default:
			text, err := gojq.Marshal(out)
			if err != nil {
				return err
			}
			if _, err := fmt.Fprintf(a.out, "%s\n", text); err != nil {
				return err
			}
		}
	}
}
