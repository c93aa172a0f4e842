// Command house measures this repository: how much code there is, how large functions and
// structs are, how the rooms and their files depend on each other, and how far a reader must
// go to follow what the program does most. It prints a table of the measures with their
// limits, and with the values that today's figures may not exceed where those are far above
// a limit, or well below it (held.go). It exits 1 when one is exceeded.
//
// Only the product is measured: no tests, no suites (packages whose name ends in "test"),
// and in tools only event types spelled out there. The journeys of a reader are listed in
// journeys.txt, function by function.
package main

import (
	_ "embed"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"text/tabwriter"

	"github.com/plait-run/plait/internal/record/event"
)

//go:embed journeys.txt
var journeys string

func main() {
	dir := flag.String("C", ".", "measure the repository that has this `directory`")
	file := flag.String("journeys", "", "follow the journeys in this `file` instead of the tool's own")
	limits := flag.Bool("limits", true, "exit 1 when a figure is higher than it may be")
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

// run measures, prints the table, and reports whether all figures are within bounds.
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
	return report(os.Stdout, hold(ms)), nil
}

// none is the limit of a measure without one.
const none = -1

// A measure is one line of the table.
type measure struct {
	what  string
	now   int
	limit int      // as it was set
	list  []string // what was counted, or what is wrong
	ratchet
}

// kept reports whether a measure is within bounds: its ratchet if it has one, otherwise its
// limit.
func (m measure) kept() bool {
	if m.most != 0 {
		return m.now <= m.most
	}
	return m.limit == none || m.now <= m.limit
}

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

// report prints the table, and below it what each measure lists and why one is over its
// limit. It reports whether all measures are kept.
func report(w io.Writer, ms []measure) bool {
	all := true
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "measure\tnow\theld\tlimit\t")
	var over []measure
	for _, m := range ms {
		most, limit, ok := "-", "-", ""
		if m.most != 0 {
			most, ok = strconv.Itoa(m.most), "ok"
		}
		if m.limit != none {
			limit, ok = strconv.Itoa(m.limit), "ok"
		}
		switch {
		case !m.kept():
			all, ok = false, "not ok"
		case m.limit != none && m.now > m.limit:
			over, ok = append(over, m), "over"
		}
		fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%s\n", m.what, m.now, most, limit, ok)
	}
	t.Flush()
	if len(over) > 0 {
		fmt.Fprintln(w, "\nover the limit:")
	}
	for _, m := range over {
		fmt.Fprintf(w, "  %s: %s\n", m.what, m.why)
	}
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
