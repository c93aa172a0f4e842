package view_test

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

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
		if got := view.SplitPatch(line)[0].Path; got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

// TestPatchNames checks the names of files that git quotes, and of those without changed lines.
func TestPatchNames(t *testing.T) {
	patch, err := os.ReadFile("testdata/names.patch") // what git writes
	if err != nil {
		t.Fatal(err)
	}
	got := view.SplitPatch(string(patch))
	for i := range got {
		got[i].Text = ""
	}
	want := []view.FilePatch{
		{Path: "bäh.bin", What: "changed", Binary: true},
		{Path: "d b/plain.txt", What: "changed", Added: 1},
		{Path: "größe.txt", What: "changed", Added: 1},
		{Path: "leer-ü", From: "é", What: "renamed"},
		{Path: "nöw", From: "old", What: "renamed"},
		{Path: "ok.txt", What: "changed"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestSplitPatch(t *testing.T) {
	patch := strings.Join([]string{
		"diff --git a/a b.go b/a b.go", "index 1..2 100644", "--- a/a b.go\t", "+++ b/a b.go\t", "@@ -1,2 +1,2 @@", " same",
		"--- was", "+++ is",
		`diff --git "a/\303\244" "b/\303\244"`, "new file mode 100644", "--- /dev/null", `+++ "b/\303\244"`, "@@ -0,0 +1 @@",
		"+<script>",
		"diff --git a/old b/new", "similarity index 100%", "rename from old", "rename to new",
		"diff --git a/x.bin b/x.bin", "deleted file mode 100644", "GIT binary patch", "literal 3", "",
	}, "\n")
	got := view.SplitPatch(patch)
	want := []view.FilePatch{
		{Path: "a b.go", What: "changed", Added: 1, Removed: 1, Text: "@@ -1,2 +1,2 @@\n same\n--- was\n+++ is\n"},
		{Path: "ä", What: "added", Added: 1, Text: "@@ -0,0 +1 @@\n+<script>\n"},
		{Path: "new", From: "old", What: "renamed"},
		{Path: "x.bin", What: "deleted", Binary: true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}
