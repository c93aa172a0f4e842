// Package text makes texts short and harmless, and formats numbers and times for people.
//
// What is stored and told to programs is cut by bytes: [Head], [Clip], [Tail]. What people look at is cut by
// characters: [Shorten], and [FirstLine] and [OneLine], which also make it safe to print.
package text

import (
	"strings"
	"unicode/utf8"
)

// mark is what a text that was cut begins or ends with.
const mark = "…"

// Head returns the beginning of s, at most n bytes long. It does not cut within a character.
func Head[S ~string | ~[]byte](s S, n int) S {
	if len(s) <= n {
		return s
	}
	for i := n; i >= 0 && i > n-utf8.UTFMax; i-- {
		if utf8.RuneStart(s[i]) {
			return s[:i]
		}
	}
	return s[:n] // not UTF-8
}

// Clip returns the beginning of s, at most n bytes long, and "…" if that is not all of it. Bytes that are not UTF-8
// become U+FFFD.
func Clip(s string, n int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= n {
		return s
	}
	return Head(s, n) + mark
}

// Tail returns the end of s, at most n bytes long, after "…" if that is not all of it. It does not cut within a
// character.
func Tail(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return mark + strings.ToValidUTF8(s[len(s)-n:], "")
}

// Shorten cuts s to n characters, of which the last is "…" if there were more.
func Shorten(s string, n int) string {
	end, count := 0, 0 // where the last of n characters begins, and how many were seen
	for i := range s {
		switch count {
		case n - 1:
			end = i
		case n:
			return s[:end] + mark
		}
		count++
	}
	return s
}
