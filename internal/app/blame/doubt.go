package blame

import (
	"math"
	"slices"
	"strings"
)

// doubt makes lines unsure that could be of somebody else. A file has lines with the same text, such as braces, and
// if one of them is new, git cannot know which: it takes what is shorter to say. Lines whose text is there once hold
// the others in their places. So the lines between two of those are certain if they and both of these are of the same
// step, or of none; or if the lines are divided in the one place where a person would divide them. Otherwise they are
// in doubt, and so are the same lines of those two in what adjoins.
func (f *File) doubt() {
	times := map[string]int{}
	for _, l := range f.Lines {
		times[l.Text]++
	}
	lines := slices.Clone(f.Lines)
	for from := 0; from < len(lines); from++ {
		to := from
		for to < len(lines) && times[lines[to].Text] > 1 {
			to++
		}
		if to > from && !certain(lines, from, to) {
			f.doubtAround(lines, from, to)
		}
		from = to
	}
}

func sameSteps(a, b Line) bool { return slices.Equal(a.Steps, b.Steps) }

// certain reports whether the lines from one to another are, and the ones around them.
func certain(lines []Line, from, to int) bool {
	above, below := lines[max(from-1, 0)], lines[min(to, len(lines)-1)]
	at := from // where they are divided
	for at < to && sameSteps(lines[at], above) {
		at++
	}
	for _, l := range lines[at:to] {
		if !sameSteps(l, below) {
			return false
		}
	}
	if sameSteps(above, below) {
		return at == to
	}
	for i := from; i <= to; i++ {
		if begins(lines[i:min(to+1, len(lines))]) != (i == at) {
			return false
		}
	}
	return true
}

// begins reports whether the first of the lines looks like the beginning of something.
func begins(lines []Line) bool {
	least, first := math.MaxInt, -1
	for i, l := range lines {
		rest := strings.TrimLeft(l.Text, " \t")
		if i == 0 {
			if rest == "" || strings.ContainsAny(rest[:1], "})]") {
				return false
			}
			first = len(l.Text) - len(rest)
		}
		if rest != "" {
			least = min(least, len(l.Text)-len(rest))
		}
	}
	return first <= least
}

// doubtAround makes the lines from one to another unsure, and those with the same texts up to where somebody else
// than the two above and below has written something.
func (f *File) doubtAround(lines []Line, from, to int) {
	texts := map[string]bool{}
	var steps []string
	around := lines[max(from-1, 0):min(to+1, len(lines))]
	for i, l := range around {
		if i >= min(from, 1) && i < min(from, 1)+to-from {
			texts[l.Text] = true
		}
		for _, s := range l.Steps {
			if !slices.Contains(steps, s) {
				steps = append(steps, s)
			}
		}
	}
	mark := func(i int) {
		if texts[lines[i].Text] {
			f.Lines[i].By, f.Lines[i].Steps = ByUnsure, steps
		}
	}
	for i := from; i < to; i++ {
		mark(i)
	}
}
