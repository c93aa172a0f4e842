package flow

import (
	"fmt"
	"slices"
	"strings"
)

// A Problem is an error in a file, or a warning. Line and Col count from 1, Col in characters.
// The meaning of a Code never changes; docs/flow-format.md lists them all.
type Problem struct {
	File    string `json:"file"`
	Line    int    `json:"line"`
	Col     int    `json:"col"`
	Code    string `json:"code"`
	Message string `json:"message"`
	Warning bool   `json:"warning"`
}

// String formats p like a compiler: "file:line:col: CODE: message".
func (p Problem) String() string {
	return fmt.Sprintf("%s:%d:%d: %s: %s", p.File, p.Line, p.Col, p.Code, p.Message)
}

// Failed reports whether any of the problems is an error.
func Failed(problems []Problem) bool {
	return slices.ContainsFunc(problems, func(p Problem) bool { return !p.Warning })
}

// An InvalidError holds the problems of files that a person wrote.
type InvalidError struct{ Problems []Problem }

func (e *InvalidError) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}
