package flow

import (
	"regexp"
	"strings"
)

const citationMark = "evidence:"

var citation = regexp.MustCompile(citationMark + `[a-z0-9][a-z0-9-]*(\.[a-z0-9][a-z0-9-]*)?`)

// Citations returns the ids that a text cites as evidence:<id>, each once, in the
// order of the text. An id without a full stop is one of whoever says it.
func Citations(text string) []string {
	var ids []string
	seen := make(map[string]bool)
	for _, c := range citation.FindAllString(text, -1) {
		if id := strings.TrimPrefix(c, citationMark); !seen[id] {
			seen[id] = true
			ids = append(ids, id)
		}
	}
	return ids
}

// EachCitation returns text with each citation replaced by what repl returns for it and
// the id that it cites.
func EachCitation(text string, repl func(cited, id string) string) string {
	return citation.ReplaceAllStringFunc(text, func(c string) string {
		return repl(c, strings.TrimPrefix(c, citationMark))
	})
}
