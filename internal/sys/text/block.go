package text

import "strings"

// CodeBlock returns s as a code block of Markdown in a language, "" for none. Nothing in s can end it.
func CodeBlock(s, lang string) string {
	s = strings.TrimRight(s, "\n")
	fence := "```"
	for strings.Contains(s, fence) {
		fence += "`"
	}
	return fence + lang + "\n" + s + "\n" + fence
}
