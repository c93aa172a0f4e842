package yamldoc

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// explain describes what is wrong with the text, for common mistakes. A parser only reports what it
// expected to read next.
func explain(data []byte, e *yaml.LoadError) string {
	before, at := around(data, e.Mark)
	indent := before[bytes.LastIndexByte(before, '\n')+1:]
	switch {
	case strings.Contains(e.Message, "tab character"),
		strings.Contains(e.Message, "cannot start any token") && (at == '\t' || isTabbed(indent)):
		return "tabs are not allowed for indentation: use spaces"
	case strings.Contains(e.Message, "cannot start any token"):
		return fmt.Sprintf("a value cannot begin with %q: put it in quotes", at)
	case strings.Contains(e.Message, "unknown escape"):
		r, _ := utf8.DecodeRune(data[min(len(before)+1, len(data)):])
		return fmt.Sprintf(`unknown escape \%c: use single quotes, or write \\%c`, r, r)
	case strings.Contains(e.Message, "hexadecimal number"):
		return `an escape has too few digits: use single quotes, or write \\ for a backslash`
	case strings.Contains(e.Message, "Unicode character escape"):
		return `\ud83d and the like are half of a character: write the other half, too`
	case strings.Contains(e.Message, "incompatible YAML"):
		return "only version 1 of YAML can be read"
	case strings.Contains(e.ContextMsg, "quoted scalar"):
		return fmt.Sprintf("the quotation mark opened on line %d is never closed", e.ContextMark.Line)
	case strings.Contains(e.Message, "expected ',' or") || strings.Contains(e.Message, "expected node content"):
		if open, line := lastOpen(before); open == '[' {
			return fmt.Sprintf(`missing "]": the "[" on line %d is not closed`, line)
		} else if open == '{' {
			return fmt.Sprintf(`missing "}": the "{" on line %d is not closed`, line)
		}
	}
	return e.Message
}

// isTabbed reports whether a line is indented with a tab.
func isTabbed(line []byte) bool {
	return bytes.IndexByte(line[:len(line)-len(bytes.TrimLeft(line, " \t"))], '\t') >= 0
}

// around returns the text before m and the character at m, which is 0 at the end.
func around(data []byte, m yaml.Mark) (before []byte, at rune) {
	i := 0
	for range m.Line - 1 {
		n := bytes.IndexByte(data[i:], '\n')
		if n < 0 {
			return data, 0
		}
		i += n + 1
	}
	for col, r := range string(data[i:]) {
		if m.Column--; m.Column <= 0 {
			return data[:i+col], r
		}
	}
	return data, 0
}

// lastOpen finds the last bracket in text that is not closed, and its line. It ignores quoting:
// near a forgotten bracket, quotes seldom contain others.
func lastOpen(text []byte) (open byte, line int) {
	closed := 0
	for i := len(text) - 1; i >= 0; i-- {
		switch c := text[i]; c {
		case ']', '}':
			closed++
		case '[', '{':
			if closed--; closed < 0 {
				return c, bytes.Count(text[:i], []byte("\n")) + 1
			}
		}
	}
	return 0, 0
}
