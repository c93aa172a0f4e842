package cli

import (
	"bytes"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestTable tests which columns a table has, and how wide they are.
func TestTable(t *testing.T) {
	for name, tt := range map[string]struct {
		head  []string
		rows  [][]string
		quiet bool
		want  string
	}{
		"as wide as its contents": {
			head: []string{"ID", "STATE"}, rows: [][]string{{"größer", "x"}, {"b", "done"}},
			want: "ID      STATE\ngrößer  x\nb       done\n",
		},
		"a column with a head alone is omitted": {
			head: []string{"ID", "WHY", "STATE"}, rows: [][]string{{"a", "", "x"}},
			want: "ID  STATE\na   x\n",
		},
		"without a head, empty columns are kept": {
			rows: [][]string{{"a", "", "x"}, {"bcd", "", ""}},
			want: "a      x\nbcd\n",
		},
		"the last cell of a shorter row may be longer": {
			rows: [][]string{{"a", "b", "c"}, {"", "  why it is broken"}, {"", "bb", "c"}},
			want: "a  b   c\n     why it is broken\n   bb  c\n",
		},
		"quiet": {
			head: []string{"ID", "STATE"}, rows: [][]string{{"a", "x"}, {"b", "y"}}, quiet: true,
			want: "a\nb\n",
		},
	} {
		var out bytes.Buffer
		page{Writer: &out}.list(table{head: tt.head, rows: tt.rows}, tt.quiet)
		if diff := cmp.Diff(tt.want, out.String()); diff != "" {
			t.Errorf("%s: -want +got\n%s", name, diff)
		}
	}
}

// TestLines tests that what is left out below a step is counted, and that no single line is left out.
func TestLines(t *testing.T) {
	for n, want := range map[int]string{
		2: "       a\n       a\n",
		3: "       a\n       a\n       a\n",
		4: "       a\n       a\n       2 more\n",
	} {
		var out bytes.Buffer
		page{Writer: &out}.lines(slices.Repeat([]string{"a"}, n), 2, "%d more", func(line string) string { return line })
		if diff := cmp.Diff(want, out.String()); diff != "" {
			t.Errorf("%d lines: -want +got\n%s", n, diff)
		}
	}
}
