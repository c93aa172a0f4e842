package main

import (
	"fmt"
	"strconv"
)

// A goal is what a row should reach. None is a time, which would be met on one machine and missed on another: what
// takes time is compared with something measured in the same run, or set in advance. The zero goal means none.
type goal struct {
	text string
	met  bool
	why  string // known reason for missing it; docs/benchmarks.md has the profile
}

// atLeast returns the goal of a figure that should not be lower.
func atLeast(least, figure float64, unit string) goal {
	return goal{text: "≥ " + spell(least) + unit, met: figure >= least}
}

// atMost returns the goal of a figure that should not be higher.
func atMost(most, figure float64, unit string) goal {
	return goal{text: "≤ " + spell(most) + unit, met: figure <= most}
}

func spell(bound float64) string { return strconv.FormatFloat(bound, 'f', -1, 64) }

// unless returns the goal with the reason that it is missed.
func (g goal) unless(why string) goal {
	g.why = why
	return g
}

// String returns the column of the table.
func (g goal) String() string {
	switch {
	case g.text == "":
		return ""
	case g.met:
		return g.text + ": met"
	case g.why == "":
		return g.text + ": missed, for no known reason; -profile shows where the time goes"
	}
	return g.text + ": missed, " + g.why
}

// row prints one line of the table.
func row(what string, g goal, format string, args ...any) {
	fmt.Printf("| %s | %s | %s |\n", what, fmt.Sprintf(format, args...), g)
}
