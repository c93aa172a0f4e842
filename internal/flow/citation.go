package flow

import (
	"regexp"
	"strings"
)

const citationMark = "evidence:"

var citation = regexp.MustCompile(citationMark + `[a-z0-9][a-z0-9-]*(\.[a-z0-9][a-z0-9-]*)?`)

// Citations returns the ids that a text cites as evidence:<id>, without duplicates, in order. An
// id without a dot belongs to the author of the text.
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

// EachCitation returns text with each citation replaced by the result of repl for it and its id.
func EachCitation(text string, repl func(cited, id string) string) string {
	return citation.ReplaceAllStringFunc(text, func(c string) string {
		return repl(c, strings.TrimPrefix(c, citationMark))
	})
}
