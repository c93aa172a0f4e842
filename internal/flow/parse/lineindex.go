package parse

import (
	"slices"
	"unicode/utf8"
)

// A lineIndex is a file's content and the offsets of its lines.
type lineIndex struct {
	data  []byte
	lines []int
}

func newLineIndex(data []byte) *lineIndex {
	t := &lineIndex{data: data, lines: []int{0}}
	for i, c := range data {
		if c == '\n' {
			t.lines = append(t.lines, i+1)
		}
	}
	return t
}

// position converts a byte offset to line and column, both from 1, columns in characters.
func (t *lineIndex) position(offset int) (line, col int) {
	offset = min(offset, len(t.data))
	i, exact := slices.BinarySearch(t.lines, offset)
	if !exact {
		i--
	}
	return i + 1, utf8.RuneCount(t.data[t.lines[i]:offset]) + 1
}

// offset converts a line and a column to a byte offset, at most the end.
func (t *lineIndex) offset(line, col int) int {
	if line > len(t.lines) {
		return len(t.data)
	}
	i := t.lines[max(line, 1)-1]
	for ; col > 1 && i < len(t.data) && t.data[i] != '\n'; col-- {
		_, size := utf8.DecodeRune(t.data[i:])
		i += size
	}
	return i
}
