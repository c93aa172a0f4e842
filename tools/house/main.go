// Command house measures this repository: how much code there is, how large functions
// and structs are, how the rooms and their files hang together, and how far a reader
// goes to follow what the program does most. It prints a table of what was measured,
// with the limits that hold, and exits 1 when one is not kept.
//
// Only the product is measured: no tests, no suites (packages whose name ends in "test"),
// and nothing in tools but the event types spelled there. The journeys of a reader are
// listed in journeys.txt, function by function.
package main

import (
	_ "embed"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"text/tabwriter"

	"github.com/plait-run/plait/internal/event"
)

//go:embed journeys.txt
var journeys string

func main() {
	dir := flag.String("C", ".", "measure the repository that has this `directory`")
	file := flag.String("journeys", "", "follow the journeys in this `file` instead of the tool's own")
	limits := flag.Bool("limits", true, "exit 1 when a limit is not kept")
	flag.Parse()
	kept, err := run(*dir, *file)
	if err != nil {
		fmt.Fprintln(os.Stderr, "house:", err)
		os.Exit(2)
	}
	if !kept && *limits {
		os.Exit(1)
	}
}

// run measures, prints the table, and reports whether all limits are kept.
func run(dir, file string) (bool, error) {
	follow := journeys
	if file != "" {
		data, err := os.ReadFile(file)
		if err != nil {
			return false, err
		}
		follow = string(data)
	}
	h, err := load(dir)
	if err != nil {
		return false, err
	}
	ms, err := measureAll(h, event.All(), follow)
	if err != nil {
		return false, err
	}
	return report(os.Stdout, ms), nil
}

// none is the limit of a measure that has none.
const none = -1

// A measure is one line of the table.
type measure struct {
	what  string
	now   int
	limit int
	list  []string // what was counted, or what is wrong
}

func (m measure) kept() bool { return m.limit == none || m.now <= m.limit }

// measureAll takes all measures. follow is the text of the journeys.
func measureAll(h *house, events []string, follow string) ([]measure, error) {
	ms := sizes(h)
	ms = append(ms, longFunctions(h), largeStructs(h))
	ms = append(ms, functionFields(h)...)
	ms = append(ms, eventLiterals(h, events))
	walked, err := walk(h, follow)
	if err != nil {
		return nil, err
	}
	return append(append(ms, walked...), tangles(h)...), nil
}

// report prints the table, and below it what each measure lists. It reports whether
// all limits are kept.
func report(w io.Writer, ms []measure) bool {
	all := true
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "measure\tnow\tlimit\t")
	for _, m := range ms {
		limit, ok := "-", ""
		if m.limit != none {
			limit, ok = strconv.Itoa(m.limit), "ok"
		}
		if !m.kept() {
			all, ok = false, "not ok"
		}
		fmt.Fprintf(t, "%s\t%d\t%s\t%s\n", m.what, m.now, limit, ok)
	}
	t.Flush()
	for _, m := range ms {
		if len(m.list) == 0 {
			continue
		}
		fmt.Fprintf(w, "\n%s:\n", m.what)
		for _, line := range m.list {
			fmt.Fprintf(w, "  %s\n", line)
		}
	}
	return all
}
