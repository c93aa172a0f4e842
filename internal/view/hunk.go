package view

import (
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A FilePatch is what a patch changes in one file.
type FilePatch struct {
	Path, From     string // From is set if it was renamed
	What           string // added, deleted, renamed, changed
	Mode           string // "100644 → 100755" if that changed
	Added, Removed int    // lines
	Binary         bool
	Hunks          []Hunk
	Rest           string // lines that are no part of a unified diff
}

// The kinds of lines in a hunk.
const (
	LineSame    = ' '
	LineAdded   = '+'
	LineRemoved = '-'
)

// A Hunk is a part of a file that was changed, with the lines around it.
type Hunk struct {
	Old, New int    // its first line, before and after
	About    string // what git found it in, such as a function
	Lines    []PatchLine
}

// A PatchLine is a line of a hunk.
type PatchLine struct {
	Kind     byte   // one of the kinds above
	Old, New int    // its numbers before and after, 0 where it is not
	Text     string // without the end of the line
	Mark     [2]int // the bytes of Text that differ from the line that it replaces, or that replaces it
	NoEnd    bool   // the file ends with it, without a newline
}

// A hunkReader reads the lines of hunks, of which the header says how many there are.
type hunkReader struct {
	into               *FilePatch
	old, new           int // the numbers of the next line
	leftOld, leftNew   int
	firstOld, firstNew int
	about              string
}

var hunkHeader = regexp.MustCompile(`^@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@ ?(.*)$`)

// begin reads the header of a hunk, and reports whether the line is one.
func (r *hunkReader) begin(l string) bool {
	m := hunkHeader.FindStringSubmatch(l)
	if m == nil {
		return false
	}
	number := func(text string) int {
		if text == "" {
			return 1
		}
		n, _ := strconv.Atoi(text) // at most nine digits
		return n
	}
	*r = hunkReader{old: number(m[1]), leftOld: number(m[2]), new: number(m[3]), leftNew: number(m[4]), about: m[5]}
	r.firstOld, r.firstNew = r.old, r.new
	return true
}

func (r *hunkReader) hunk() Hunk { return Hunk{Old: r.firstOld, New: r.firstNew, About: r.about} }

// read reads a line of the hunk that has begun, and reports whether it belongs to it.
func (r *hunkReader) read(l string) bool {
	if r.into == nil {
		return false
	}
	h := &r.into.Hunks[len(r.into.Hunks)-1]
	if strings.HasPrefix(l, `\ `) && len(h.Lines) > 0 {
		h.Lines[len(h.Lines)-1].NoEnd = true
		return true
	}
	if l == "" {
		l = " " // as programs leave it that cut blanks off the ends of lines
	}
	line := PatchLine{Kind: l[0], Old: r.old, New: r.new, Text: l[1:]}
	switch {
	case l[0] == LineSame && r.leftOld > 0 && r.leftNew > 0:
		r.old, r.new, r.leftOld, r.leftNew = r.old+1, r.new+1, r.leftOld-1, r.leftNew-1
	case l[0] == LineAdded && r.leftNew > 0:
		line.Old = 0
		r.new, r.leftNew = r.new+1, r.leftNew-1
		r.into.Added++
	case l[0] == LineRemoved && r.leftOld > 0:
		line.New = 0
		r.old, r.leftOld = r.old+1, r.leftOld-1
		r.into.Removed++
	default:
		return false
	}
	h.Lines = append(h.Lines, line)
	return true
}

// mark marks what differs in lines that were replaced one by one, as git's diff-highlight does: it compares runs of as
// many removed as added lines.
func (h *Hunk) mark() {
	for i := 0; i < len(h.Lines); {
		removed := run(h.Lines[i:], LineRemoved)
		added := run(h.Lines[i+removed:], LineAdded)
		if removed == added {
			for j := range removed {
				markPair(&h.Lines[i+j], &h.Lines[i+removed+j])
			}
		}
		i += max(1, removed+added)
	}
}

// run returns how many lines of a kind there are at the beginning.
func run(lines []PatchLine, kind byte) (n int) {
	for n < len(lines) && lines[n].Kind == kind {
		n++
	}
	return n
}

// markedMax is the longest line that is compared word by word, in bytes.
const markedMax = 2000

// markPair marks all but the words that two lines begin and end with, if they share any.
func markPair(a, b *PatchLine) {
	if len(a.Text) > markedMax || len(b.Text) > markedMax {
		return
	}
	x, y := words(a.Text), words(b.Text)
	shared, head, tail := false, 0, 0
	shares := func(word string) {
		r, _ := utf8.DecodeRuneInString(word)
		shared = shared || unicode.IsLetter(r) || unicode.IsDigit(r)
	}
	for len(x) > 0 && len(y) > 0 && x[0] == y[0] {
		shares(x[0])
		head += len(x[0])
		x, y = x[1:], y[1:]
	}
	for len(x) > 0 && len(y) > 0 && x[len(x)-1] == y[len(y)-1] {
		shares(x[len(x)-1])
		tail += len(x[len(x)-1])
		x, y = x[:len(x)-1], y[:len(y)-1]
	}
	if shared {
		a.Mark, b.Mark = [2]int{head, len(a.Text) - tail}, [2]int{head, len(b.Text) - tail}
	}
}

// words splits a line into words, blanks, and single other characters.
func words(line string) (list []string) {
	kind := func(r rune) int {
		switch {
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '_':
			return 1
		case unicode.IsSpace(r):
			return 2
		}
		return 0
	}
	from, last := 0, -1
	for i, r := range line {
		k := kind(r)
		if i > 0 && (k != last || k == 0) {
			list, from = append(list, line[from:i]), i
		}
		last = k
	}
	if from < len(line) {
		list = append(list, line[from:])
	}
	return list
}

// Whole returns the hunks of a file as one that has all of its lines. after is the file after the change.
func Whole(hunks []Hunk, after string) Hunk {
	out, next := Hunk{Old: 1, New: 1}, 1 // the next line of after
	lines := strings.Split(strings.TrimSuffix(after, "\n"), "\n")
	old := 1
	same := func(upTo int) {
		for ; next < upTo && next <= len(lines); next, old = next+1, old+1 {
			out.Lines = append(out.Lines, PatchLine{Kind: LineSame, Old: old, New: next, Text: lines[next-1]})
		}
	}
	for _, h := range hunks {
		same(h.New)
		out.Lines = append(out.Lines, h.Lines...)
		for _, l := range h.Lines {
			old, next = max(old, l.Old+1), max(next, l.New+1)
		}
	}
	same(len(lines) + 1)
	return out
}
