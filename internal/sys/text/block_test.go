package text

import "testing"

func TestCodeBlock(t *testing.T) {
	for s, want := range map[string]string{"  a\nb\n": "```\n  a\nb\n```", "```\nx\n```": "````\n```\nx\n```\n````"} {
		if got := CodeBlock(s, ""); got != want {
			t.Errorf("%q becomes %q, want %q", s, got, want)
		}
	}
}
