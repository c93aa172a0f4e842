package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/text"
	"github.com/plait-run/plait/internal/view"
)

// read makes a verb that reads: get reads a value in the workplace of the current directory, and human prints it for
// people.
func read[T any](
	a *app, get func(ctx context.Context, w *workplace, args []string) (T, error), human func(out page, v T),
) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		w, err := a.open(cmd.Context(), "")
		if err != nil {
			return err
		}
		v, err := get(cmd.Context(), w, args)
		return show(a, cmd, v, err, human)
	}
}

// show prints what was read, unless that failed.
func show[T any](a *app, cmd *cobra.Command, v T, err error, human func(out page, v T)) error {
	if err != nil {
		return err
	}
	return a.print(cmd, v, func(out page) { human(out, v) })
}

// readTask is read for the task of the thread that was typed, or else the newest one.
func readTask[T any](
	a *app, get func(ctx context.Context, w *workplace, row store.Thread) (T, error), human func(out page, v T),
) func(*cobra.Command, []string) error {
	return read(a, func(ctx context.Context, w *workplace, args []string) (v T, err error) {
		row, err := w.task(ctx, newest(args))
		if err != nil {
			return v, err
		}
		return get(ctx, w, row)
	}, human)
}

// A page is where a verb prints for people: in color if that is wanted.
type page struct {
	io.Writer
	style
	ctx   context.Context // of the verb, for names
	names *view.Names
}

func (a *app) page(ctx context.Context, out io.Writer) page {
	return page{Writer: out, style: a.style(out), ctx: ctx, names: a.names()}
}

// named replaces the ids of threads in a text by what people type for them.
func (p page) named(s string) string { return text.Safe(p.names.In(p.ctx, s)) }

// line prints a line.
func (p page) line(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }

// note prints a dim line below a step.
func (p page) note(format string, args ...any) {
	p.line("       %s", p.dim(fmt.Sprintf(format, args...)))
}

// lines prints lines below a step, with paint. If most is not 0, it prints the beginnings of that many, and more with
// the number of the others.
func (p page) lines(lines []string, most int, more string, paint func(line string) string) {
	rest := 0
	if most > 0 && len(lines) > most+1 {
		rest, lines = len(lines)-most, lines[:most]
	}
	for _, line := range lines {
		if most > 0 {
			line = text.Shorten(line, 140)
		}
		p.line("       %s", paint(line))
	}
	if rest > 0 {
		p.note(more, rest)
	}
}

// field prints a label and a text: next to each other if the text has one line, and nothing if it is empty. Text from
// agents never begins a line: it could be mistaken for Plait's own.
func (p page) field(label, s string) {
	s = text.Safe(s)
	switch {
	case s == "":
	case strings.Contains(s, "\n"):
		p.line("%s\n    %s", label, strings.ReplaceAll(strings.TrimSuffix(s, "\n"), "\n", "\n    "))
	default:
		p.line("%-10s%s", label, s)
	}
}
