package cli

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/plait-run/plait/internal/view"
)

// A table is a list as people read it: columns that are as wide as what stands in them. Where the
// terminal is too narrow, the columns in elastic give way.
type table struct {
	head    []string
	elastic []int
	rows    [][]string
	paint   func(col int, text string) string // colours a cell; nil: none
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

const (
	columnGap   = 2
	leastColumn = 8 // what an elastic column keeps
)

// write prints the table in at most most columns, 0 for any number. A column with nothing in it is left out.
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

// widths are those of what stands in the columns.
func (t *table) widths() []int {
	widths := make([]int, len(t.head))
	for _, row := range t.rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	return widths
}

// shrink takes from the elastic columns what is over most, from the widest first.
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
		cell = view.Shorten(cell, widths[i])
		b.WriteString(strings.Repeat(" ", pad))
		b.WriteString(paint(i, cell))
		pad = widths[i] - utf8.RuneCountInString(cell) + columnGap
	}
	fmt.Fprintln(out, strings.TrimRight(b.String(), " "))
}

// columns is how many a terminal has; 0 of what is none.
func columns(out io.Writer) int {
	if !isTerminal(out) {
		return 0
	}
	return width(out)
}

// names prints what a list is of, one a line, for scripts.
func names(out io.Writer, list []string) {
	for _, name := range list {
		fmt.Fprintln(out, name)
	}
}

// width is how many columns a terminal has; of anything else, those that most have.
func width(out io.Writer) int {
	if f, ok := out.(*os.File); ok {
		if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 20 {
			return w
		}
	}
	return 80
}
