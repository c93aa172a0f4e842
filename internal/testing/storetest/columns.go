package storetest

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// A Column is a column of a table of a store.
type Column struct{ Table, Name string }

// Columns returns the columns that a page lists, in tables between a line that begins with from and the next one that
// begins a list or a section: those of which it says what proves them.
func Columns(t *testing.T, page, from string) map[Column]bool {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, list, ok := strings.Cut(string(text), "\n"+from)
	if !ok {
		t.Fatalf("%s has no line %q", page, from)
	}
	named := regexp.MustCompile("`([a-z]+)`")
	columns := map[Column]bool{}
	for line := range strings.Lines(list) {
		if strings.HasPrefix(line, "In ") || strings.HasPrefix(line, "#") {
			break
		}
		if cells := strings.Split(line, "|"); len(cells) == 5 {
			for _, table := range named.FindAllStringSubmatch(cells[1], -1) {
				for _, column := range named.FindAllStringSubmatch(cells[2], -1) {
					columns[Column{table[1], column[1]}] = true
				}
			}
		}
	}
	return columns
}
