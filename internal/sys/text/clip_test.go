package text

import (
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestCut(t *testing.T) {
	for _, c := range []struct {
		s                         string
		n                         int
		head, clip, tail, shorten string
	}{
		{"", 3, "", "", "", ""},
		{"abc", 3, "abc", "abc", "abc", "abc"},
		{"abcd", 3, "abc", "abc…", "…bcd", "ab…"},
		{"abcd", 1, "a", "a…", "…d", "…"},
		{"äöü", 6, "äöü", "äöü", "äöü", "äöü"},
		{"äöü", 5, "äö", "äö…", "…öü", "äöü"},
		{"äöü", 2, "ä", "ä…", "…ü", "ä…"},
		{"漢字", 4, "漢", "漢…", "…字", "漢字"},
		{"😀", 3, "", "…", "…", "😀"}, // no room for a character
		{"\xff\xffab", 3, "\xff\xffa", "\uFFFD…", "…ab", "\xff\xff…"},
	} {
		if got := Head(c.s, c.n); got != c.head {
			t.Errorf("Head(%q, %d) = %q, want %q", c.s, c.n, got, c.head)
		}
		if got := Clip(c.s, c.n); got != c.clip {
			t.Errorf("Clip(%q, %d) = %q, want %q", c.s, c.n, got, c.clip)
		}
		if got := Tail(c.s, c.n); got != c.tail {
			t.Errorf("Tail(%q, %d) = %q, want %q", c.s, c.n, got, c.tail)
		}
		if got := Shorten(c.s, c.n); got != c.shorten {
			t.Errorf("Shorten(%q, %d) = %q, want %q", c.s, c.n, got, c.shorten)
		}
	}
}

// Of texts, Head is the longest beginning that fits, Clip the same with a mark, and Tail the longest end.
func TestCutIsLongest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, n := rapid.String().Draw(t, "s"), rapid.IntRange(0, 20).Draw(t, "n")
		head, tail := "", s
		for i, r := range s {
			if i+utf8.RuneLen(r) <= n {
				head = s[:i+utf8.RuneLen(r)]
			}
			if len(tail) > n {
				tail = s[i+utf8.RuneLen(r):]
			}
		}
		clipped, ended := s, s
		if len(s) > n {
			clipped, ended = head+mark, mark+tail
		}
		if got := Head(s, n); got != head {
			t.Errorf("Head(%q, %d) = %q", s, n, got)
		}
		if got := string(Head([]byte(s), n)); got != head {
			t.Errorf("Head of the bytes of %q, %d = %q", s, n, got)
		}
		if got := Clip(s, n); got != clipped {
			t.Errorf("Clip(%q, %d) = %q", s, n, got)
		}
		if got := Tail(s, n); got != ended {
			t.Errorf("Tail(%q, %d) = %q", s, n, got)
		}
	})
}
