package text

import (
	"os/exec"
	"strings"
	"testing"
	"unicode/utf8"
)

// hostile are texts that would affect a terminal.
var hostile = []string{
	"\x1b[31mred", "\x1b]52;c;aGk=\x07", "\x9b31m", "\u009b31m", "a\rb", "a\bb", "\x00", "\x7f", "\u0085",
	"\u202eevil\u202c", "\u2066x\u2069", "\u200f", "\u061c", "a\u200bb", "\U000e0041", "\xff\xfe", "\xc2", "\u2028",
	"plain text", "two\nlines\tand a tab", "äöü 漢字 ✓", "\u00a0\u3000",
}

func TestSafe(t *testing.T) {
	for _, s := range hostile {
		checkSafe(t, s)
	}
	for _, s := range []string{"plain text", "two\nlines\tand a tab", "äöü 漢字 ✓"} {
		if got := Safe(s); got != s {
			t.Errorf("Safe(%q) = %q, want it as it is", s, got)
		}
	}
	if got := Safe("\x1b[2J"); got != `\x1b[2J` {
		t.Errorf("got %q", got)
	}
}

// TestCommand checks that a shell reads the words that were given.
func TestCommand(t *testing.T) {
	argv := []string{"printf", "%s\n", "a-b_c./:,=+@%", "", "it's", "a b", "$HOME", "*", "~", "a\\b\nc", "ä", "#", "!x"}
	out, err := exec.Command("sh", "-c", Command(argv)).Output()
	if want := strings.Join(argv[2:], "\n") + "\n"; err != nil || string(out) != want {
		t.Errorf("%v: got %q, want %q", err, out, want)
	}
	if got := Command([]string{"go", "test", "./..."}); got != "go test ./..." {
		t.Errorf("got %s", got)
	}
}

func TestLines(t *testing.T) {
	for _, c := range []struct {
		s          string
		n          int
		first, one string
	}{
		{"", 10, "", ""},
		{"one", 10, "one", "one"},
		{"\n\n one \n", 10, "one", "one"},
		{"one\ntwo", 10, "one …", "one two"},
		{"one\ntwo", 5, "one …", "one …"},
		{"one\ntwo", 4, "one", "one…"},
		{"one two", 4, "one…", "one…"},
		{"a\tb  c", 10, "a b  c", "a b c"},
		{"a\x1bb", 10, `a\x1bb`, "a\uFFFDb"},
		{"äöü\xff", 3, "äö…", "äö…"},
	} {
		if got := FirstLine(c.s, c.n); got != c.first {
			t.Errorf("FirstLine(%q, %d) = %q, want %q", c.s, c.n, got, c.first)
		}
		if got := OneLine(c.s, c.n); got != c.one {
			t.Errorf("OneLine(%q, %d) = %q, want %q", c.s, c.n, got, c.one)
		}
	}
}

func FuzzSafe(f *testing.F) {
	for _, s := range hostile {
		f.Add(s)
	}
	f.Fuzz(checkSafe)
}

func checkSafe(t *testing.T, s string) {
	got := Safe(s)
	if !inert(got) {
		t.Errorf("Safe(%q) = %q", s, got)
	}
	if Safe(got) != got {
		t.Errorf("Safe is not at rest on %q", got)
	}
	for _, n := range []int{1, 2, 3, 10, 80} {
		for _, line := range []string{FirstLine(s, n), OneLine(s, n)} {
			if !inert(line) || strings.ContainsAny(line, "\n\t") || utf8.RuneCountInString(line) > n {
				t.Errorf("%q on a line of %d is %q", s, n, line)
			}
		}
	}
}

// inert reports whether a terminal would only show s.
func inert(s string) bool {
	if !utf8.ValidString(s) {
		return false
	}
	for _, r := range s {
		switch {
		case r == '\n' || r == '\t':
		case r < 0x20, r >= 0x7f && r <= 0x9f,
			r == 0x061c, r >= 0x200b && r <= 0x200f, r >= 0x2028 && r <= 0x202e, r >= 0x2060 && r <= 0x206f,
			r == 0xfeff, r >= 0xe0000 && r <= 0xe0fff:
			return false
		}
	}
	return true
}
