package cli

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/plait-run/plait/internal/sys/text"
)

// A table is a list printed for people: columns as wide as their contents. If the terminal is too
// narrow, the columns in elastic shrink.
type table struct {
	head    []string
	elastic []int
	rows    [][]string
	paint   func(col int, text string) string // colours a cell; nil: none
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

const (
	columnGap   = 2
	leastColumn = 8 // minimum width of an elastic column
)

// write prints the table in at most most columns, 0 for any number. It omits columns without contents.
func (t *table) write(out io.Writer, st style, most int) {
	widths := t.widths()
	for i := range t.head {
		if widths[i] > 0 {
			widths[i] = max(widths[i], utf8.RuneCountInString(t.head[i]))
		}
	}
	if most > 0 {
		t.shrink(widths, most)
	}
	t.line(out, widths, t.head, func(_ int, text string) string { return st.dim(text) })
	for _, row := range t.rows {
		t.line(out, widths, row, func(col int, text string) string {
			if t.paint == nil || !st.on {
				return text
			}
			return t.paint(col, text)
		})
	}
}

// widths returns the widths of the columns' contents.
func (t *table) widths() []int {
	widths := make([]int, len(t.head))
	for _, row := range t.rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	return widths
}

// shrink narrows the elastic columns, widest first, until the table fits in most.
func (t *table) shrink(widths []int, most int) {
	total := -columnGap
	for _, w := range widths {
		if w > 0 {
			total += w + columnGap
		}
	}
	for ; total > most; total-- {
		widest := slices.MaxFunc(t.elastic, func(a, b int) int { return widths[a] - widths[b] })
		if widths[widest] <= leastColumn {
			return
		}
		widths[widest]--
	}
}

func (t *table) line(out io.Writer, widths []int, cells []string, paint func(int, string) string) {
	var b strings.Builder
	pad := 0
	for i, cell := range cells {
		if widths[i] == 0 {
			continue
		}
		cell = text.Shorten(cell, widths[i])
		b.WriteString(strings.Repeat(" ", pad))
		b.WriteString(paint(i, cell))
		pad = widths[i] - utf8.RuneCountInString(cell) + columnGap
	}
	fmt.Fprintln(out, strings.TrimRight(b.String(), " "))
}

// columns returns the width of a terminal, 0 for anything else.
func columns(out io.Writer) int {
	if !isTerminal(out) {
		return 0
	}
	return width(out)
}

// names prints the names in a list, one a line, for scripts.
func names(out io.Writer, list []string) {
	for _, name := range list {
		fmt.Fprintln(out, name)
	}
}

// width returns the width of a terminal, and for anything else the usual one.
func width(out io.Writer) int {
	if f, ok := out.(*os.File); ok {
		if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 20 {
			return w
		}
	}
	return 80
}
