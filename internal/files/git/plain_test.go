package git

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// FuzzPlainSettings compares what is read of a config file without git with what git reads.
func FuzzPlainSettings(f *testing.F) {
	for text, plain := range map[string]bool{
		"[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n":                      true,
		"[remote \"or i.gin\"]\n  url=git@host:a/b.git\n fetch = +refs/heads/*:refs/remotes/origin/*\n\n": true,
		"[Branch \"Main\"]\nMerge = refs/heads/main\n \t\n[user]\nname = Ada von Lovelace\nx == y":        true,
		"":                                    true,
		"[a-1]\nb-2 = -\n":                    true,
		"[a]\nb = c  d\n":                     false,
		"[a]\nb = c \n":                       false,
		"[a]\nb = \"c\"\n":                    false,
		"[a]\nb = c;d\n":                      false,
		"[a]\nb = c\\\nd\n":                   false,
		"[a]\nb\n":                            false,
		"[a]\nb =\n":                          false,
		"[a.b]\nc = d\n":                      false,
		"[a] b = c\n":                         false,
		"[a \"b\\\"c\"]\nd = e\n":             false,
		"# no\n[a]\nb = c\n":                  false,
		"a = b\n":                             false,
		"[a]\r\nb = c\r\n":                    false,
		"\ufeff[a]\nb = c\n":                  false,
		"[include]\n\tpath = /etc/passwd\n":   true,
		"[a \"é\"]\nb = c\n[A]\nB = d\nb = e": true,
		"[a]\nb = é\n":                        false,
		"[a]\n1b = c\n":                       false,
	} {
		if _, ok := plainSettings(text); ok != plain {
			f.Errorf("%q is plain: %t", text, ok)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, ok := plainSettings(text)
		if !ok || strings.Contains(text, "\x00") {
			return
		}
		cmd := exec.Command("git", "config", "--file", "-", "--no-includes", "--null", "--list")
		cmd.Stdin, cmd.Dir = strings.NewReader(text), t.TempDir()
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("git refuses %q: %v", text, err)
		}
		if diff := cmp.Diff(parseSettings(out), got); diff != "" {
			t.Errorf("%q: -git +plain\n%s", text, diff)
		}
	})
}
