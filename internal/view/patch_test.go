package view_test

import (
	"testing"

	"github.com/plait-run/plait/internal/view"
)

func TestPatchPath(t *testing.T) {
	for line, want := range map[string]string{
		"diff --git a/ok.txt b/ok.txt\n":                                     "ok.txt",
		"diff --git a/d b/plain.txt b/d b/plain.txt":                         "d b/plain.txt",
		"diff --git a/a b/a b/a b/a":                                         "a b/a",
		"diff --git a/end  b/end ":                                           "end ",
		`diff --git "a/gr\303\266\303\237e.txt" "b/gr\303\266\303\237e.txt"`: "größe.txt",
		`diff --git "a/say \"b/c\"" "b/say \"b/c\""`:                         `say "b/c"`,
		`diff --git "a/tab\t" "b/tab\t"`:                                     "tab\t",
		`diff --git a/old "b/n\303\251w"`:                                    "néw",
		`diff --git "a/\303\244" b/new`:                                      "", // see rename to
		"diff --git a/old b/new":                                             "",
		"diff --git a/ol b/new":                                              "",
		"diff --git ":                                                        "",
	} {
		if got := view.PatchPath(line); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}
