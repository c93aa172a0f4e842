package cli

import (
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
	head    []string // none: empty columns are kept
	elastic []int
	state   int // the column of states, which are colored; 0: none
	rows    [][]string
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

const (
	columnGap   = 2
	leastColumn = 8 // minimum width of an elastic column
)

// table prints a table, on a terminal in at most as many columns as it has. It omits columns that have a head and
// nothing else. The last cell of a shorter row may extend over the columns after it.
func (p page) table(t table) {
	widths := make([]int, len(t.head))
	for _, row := range t.rows {
		for len(widths) < len(row) {
			widths = append(widths, 0)
		}
	}
	for _, row := range t.rows {
		for i, cell := range row {
			if i < len(row)-1 || i == len(widths)-1 {
				widths[i] = max(widths[i], utf8.RuneCountInString(cell))
			}
		}
	}
	for i := range t.head {
		if widths[i] > 0 {
			widths[i] = max(widths[i], utf8.RuneCountInString(t.head[i]))
		}
	}
	if isTerminal(p.Writer) {
		t.shrink(widths, width(p.Writer))
	}
	if t.head != nil {
		p.row(t, widths, t.head, func(_ int, cell string) string { return p.dim(cell) })
	}
	for _, row := range t.rows {
		p.row(t, widths, row, func(col int, cell string) string {
			if t.state == 0 || col != t.state {
				return cell
			}
			return p.state(cell)
		})
	}
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

// list prints a table or, if quiet, only its first column, for scripts.
func (p page) list(t table, quiet bool) {
	if !quiet {
		p.table(t)
		return
	}
	for _, row := range t.rows {
		p.line("%s", row[0])
	}
}

// row prints a row of a table.
func (p page) row(t table, widths []int, cells []string, paint func(col int, cell string) string) {
	var b strings.Builder
	pad := 0
	for i, cell := range cells {
		if widths[i] == 0 && t.head != nil {
			continue
		}
		if i < len(cells)-1 || i == len(widths)-1 {
			cell = text.Shorten(cell, widths[i])
		}
		b.WriteString(strings.Repeat(" ", pad))
		b.WriteString(paint(i, cell))
		pad = widths[i] - utf8.RuneCountInString(cell) + columnGap
	}
	p.line("%s", strings.TrimRight(b.String(), " "))
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
