package model

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestLineEnds checks that an edit keeps how lines end, and a byte order mark.
func TestLineEnds(t *testing.T) {
	const mark = byteOrderMark
	for name, c := range map[string]struct{ was, old, now, want string }{
		"two lines: earendil-works/pi#2744": {"one\r\ntwo\r\nthree\r\n", "two\nthree", "TWO\nTHREE",
			"one\r\nTWO\r\nTHREE\r\n"},
		"a new line: charmbracelet/crush#684": {"one\r\ntwo\r\n", "one", "one\none and a half",
			"one\r\none and a half\r\ntwo\r\n"},
		"as the file has them":                   {"one\r\ntwo\r\n", "one\r\ntwo", "one\r\n2", "one\r\n2\r\n"},
		"a whole file: anomalyco/opencode#45880": {"one\r\ntwo\r\n", "", "1\n2\n3", "1\r\n2\r\n3"},
		"CR LF in a file with LF":                {"one\ntwo\n", "one\r\ntwo", "1\r\n2", "1\n2\n"},
		"a whole file with LF":                   {"one\ntwo\n", "", "1\r\n2\r\n", "1\n2\n"},
		"one line":                               {"one", "one", "1\r\n2\n", "1\r\n2\n"},
		"an empty file":                          {"", "", "1\r\n2\n", "1\r\n2\n"},
		"a last line without an end":             {"one\r\ntwo", "two", "2\n3", "one\r\n2\r\n3"},
		"mixed, at a line with CR LF":            {"one\r\ntwo\n", "one", "1\n1", "1\r\n1\r\ntwo\n"},
		"mixed, at a line with LF":               {"one\r\ntwo\n", "two", "2\n2", "one\r\n2\n2\n"},
		"mixed, exactly":                         {"one\r\ntwo\n", "one\r\n", "one\n", "one\ntwo\n"},
		"mixed, otherwise":                       {"one\r\ntwo\nthree\n", "one\ntwo", "1", "! end in CR LF, others in LF"},
		"a mark":                                 {mark + "one\ntwo\n", "one", "1", mark + "1\ntwo\n"},
		"a mark in old":                          {mark + "one\ntwo\n", mark + "one", "1", mark + "1\ntwo\n"},
		"a mark in both":                         {mark + "one\ntwo\n", mark + "one", mark + "1", mark + "1\ntwo\n"},
		"a mark in old only":                     {"one\ntwo\n", mark + "one", mark + "1", "1\ntwo\n"},
		"only a mark in old":                     {mark + "one\n", mark, "1", "! only a byte order mark"},
		"a mark, a whole file":                   {mark + "one\r\n", "", "1\n", mark + "1\r\n"},
		"a mark, twice":                          {mark + "one\r\n", "", mark + "1\n", mark + "1\r\n"},
		"a new mark":                             {"one\n", "", mark + "1\n", mark + "1\n"},
		"twice":                                  {"one\r\none\r\n", "one\n", "1\n", "! 2 times"},
	} {
		got, err := edited(args{Path: "w.txt", Old: c.old, New: &c.now}, []byte(c.was))
		if err != nil {
			got = "! " + err.Error()
		}
		if fault, fails := strings.CutPrefix(c.want, "! "); got != c.want &&
			!(fails && err != nil && strings.Contains(got, fault)) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestLinesEndAlike checks that lines that end alike still do after any edit.
func TestLinesEndAlike(t *testing.T) {
	part := rapid.StringOfN(rapid.SampledFrom([]rune("ab\r\n\uFEFF")), 0, 6, -1)
	rapid.Check(t, func(t *rapid.T) {
		end := rapid.SampledFrom([]string{"\n", "\r\n"}).Draw(t, "end")
		was := withEnd(strings.ReplaceAll(part.Draw(t, "file"), "\r", "")+"\n", end)
		if rapid.Bool().Draw(t, "mark") {
			was = byteOrderMark + was
		}
		now := strings.ReplaceAll(strings.ReplaceAll(part.Draw(t, "new"), "\r\n", "\n"), "\r", "")
		got, err := edited(args{Old: part.Draw(t, "old"), New: &now}, []byte(was))
		if err != nil {
			return
		}
		if e := lineEnd(got); strings.Contains(got, "\n") && e != end {
			t.Errorf("%q becomes %q", was, got)
		}
		if strings.HasPrefix(was, byteOrderMark) && !strings.HasPrefix(got, byteOrderMark) {
			t.Errorf("%q loses its mark: %q", was, got)
		}
	})
}
