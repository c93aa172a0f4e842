package text

import "strings"

// CodeBlock returns s as a code block of Markdown, which nothing in s can end.
func CodeBlock(s string) string {
	fence := "```"
	for strings.Contains(s, fence) {
		fence += "`"
	}
	return fence + "\n" + strings.TrimRight(s, "\n") + "\n" + fence
}
