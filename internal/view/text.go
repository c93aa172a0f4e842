package view

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Safe escapes what is unsafe to print on a terminal: every control character other than line
// feed and tab, and every character that changes direction or hides text.
func Safe(s string) string {
	s = strings.ToValidUTF8(s, "\ufffd") // a single byte can be a control character too
	clean := true
	for _, r := range s {
		if !harmless(r) {
			clean = false
			break
		}
	}
	if clean {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case harmless(r):
			b.WriteRune(r)
		case r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

func harmless(r rune) bool {
	return r == '\n' || r == '\t' || unicode.IsPrint(r) || r == '\u00a0' || r == '\u3000' || r == '\ufffd'
}

// FirstLine returns the first line of s, made safe and cut to n characters.
func FirstLine(s string, n int) string {
	s = strings.TrimSpace(s)
	s, _, more := strings.Cut(s, "\n")
	s = strings.ReplaceAll(Safe(s), "\t", " ")
	r := []rune(s)
	if len(r) > n {
		return Shorten(s, n)
	}
	if more && len(r)+2 <= n {
		return s + " …"
	}
	return s
}

// Shorten cuts s to n characters and marks the cut.
func Shorten(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}

// OneLine returns s on one line, made safe and cut to most characters.
func OneLine(s string, most int) string {
	if len(s) > 8*most {
		s = s[:8*most]
	}
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, string(utf8.RuneError))), " ")
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return utf8.RuneError
		}
		return r
	}, s)
	return Shorten(s, most)
}
