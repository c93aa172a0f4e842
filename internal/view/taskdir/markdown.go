package taskdir

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/plait-run/plait/internal/sys/text"
)

// visible returns text without characters that a terminal would interpret.
func visible(s string) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, string(utf8.RuneError)), "\r\n", "\n")
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || unicode.IsPrint(r) || r == '\u00a0' || r == '\u3000' {
			return r
		}
		return utf8.RuneError
	}, s)
}

// escapeHTML returns a line of Markdown with HTML escaped.
func escapeHTML(line string) string {
	var b strings.Builder
	for i := 0; i < len(line); i++ {
		if line[i] == '<' && i+1 < len(line) {
			if c := line[i+1]; c == '/' || c == '!' || c == '?' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' {
				b.WriteString("&lt;") // a backslash could follow another one
				continue
			}
		}
		b.WriteByte(line[i])
	}
	return b.String()
}

// cell makes text from agents safe in a table cell: one line, with Markdown escaped.
func cell(s string, most int) string {
	var b strings.Builder
	for _, r := range text.OneLine(s, most) {
		switch r {
		case '|', '[', ']', '<', '>', '*', '_', '`', '\\':
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// quote returns text as a Markdown quotation that it cannot leave.
func quote(s string) string {
	lines := strings.Split(strings.TrimSpace(visible(s)), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight("> "+escapeHTML(line), " ")
	}
	return strings.Join(lines, "\n")
}

// verbatim returns text as a code block.
func verbatim(s, lang string) string { return text.CodeBlock(visible(s), lang) }

// document returns an agent's Markdown for use as part of another document: nothing that it
// leaves open affects what follows.
func document(s string) string {
	lines := strings.Split(strings.TrimSpace(visible(s)), "\n")
	open := fence{}
	for i, line := range lines {
		f, ok := fenceOf(line)
		switch {
		case open.n > 0:
			if ok && f.closes(open) {
				open = fence{}
			}
		case ok && (f.indent == 0 || f.ends(lines[i+1:])):
			open = f
		case ok:
			line = line[:f.indent] + `\` + line[f.indent:] // it may still be open at the end
		default:
			line = escapeHTML(line)
		}
		if ok && open.n == 0 {
			line = escapeHTML(line)
		}
		lines[i] = line
	}
	if open.n > 0 {
		lines = append(lines, strings.Repeat(open.char, open.n))
	}
	return strings.Join(lines, "\n")
}

// A fence begins or ends a code block.
type fence struct {
	indent, n int
	char      string
	bare      bool // nothing follows it
}

func fenceOf(line string) (fence, bool) {
	rest := strings.TrimLeft(line, " ")
	f := fence{indent: len(line) - len(rest)}
	for _, f.char = range []string{"`", "~"} {
		after := strings.TrimLeft(rest, f.char)
		if f.n = len(rest) - len(after); f.n < 3 {
			continue
		}
		f.bare = strings.Trim(after, " \t") == ""
		return f, f.indent <= 3 && (f.char == "~" || !strings.Contains(after, "`"))
	}
	return fence{}, false
}

func (f fence) closes(open fence) bool { return f.bare && f.char == open.char && f.n >= open.n }

// ends reports whether a code block that begins with f is certain to end within lines. In a list,
// a line that is indented less also ends it.
func (f fence) ends(lines []string) bool {
	for _, line := range lines {
		if strings.Trim(line, " \t") == "" {
			continue
		}
		if len(line)-len(strings.TrimLeft(line, " ")) < f.indent {
			return false
		}
		if c, ok := fenceOf(line); ok && c.closes(f) {
			return true
		}
	}
	return false
}

// took formats a duration in ms, "" if it is not known.
func took(ms int64) string {
	if ms <= 0 {
		return ""
	}
	return text.Took(ms)
}
