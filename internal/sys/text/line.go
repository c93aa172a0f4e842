package text

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// Safe escapes what is unsafe to print on a terminal: every control character other than line feed and tab, and every
// character that changes direction or hides text.
func Safe(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD") // a single byte can be a control character too
	if strings.IndexFunc(s, harmful) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case !harmful(r):
			b.WriteRune(r)
		case r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

func harmful(r rune) bool {
	return !unicode.IsPrint(r) && !strings.ContainsRune("\n\t\u00a0\u3000\uFFFD", r)
}

// FirstLine returns the first line of s that is not blank, made safe and cut to n characters. If there are more lines
// and room for it, "…" says so.
func FirstLine(s string, n int) string {
	s, _, more := strings.Cut(strings.TrimSpace(s), "\n")
	s = Shorten(strings.ReplaceAll(Safe(s), "\t", " "), n)
	if more && len([]rune(s))+2 <= n {
		return s + " " + mark
	}
	return s
}

// Command returns argv as it is typed into a POSIX shell.
func Command(argv []string) string {
	words := slices.Clone(argv)
	for i, word := range argv {
		if word == "" || strings.ContainsFunc(word, special) {
			words[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
	}
	return strings.Join(words, " ")
}

// special reports whether a shell may read c as something else.
func special(c rune) bool {
	return !unicode.IsLetter(c) && !unicode.IsDigit(c) && !strings.ContainsRune("-_./:,=+@%", c)
}

// OneLine returns s on one line, made safe and cut to n characters.
func OneLine(s string, n int) string {
	if len(s) > 8*n {
		s = s[:8*n]
	}
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "\uFFFD")), " ")
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '\uFFFD'
		}
		return r
	}, s)
	return Shorten(s, n)
}
