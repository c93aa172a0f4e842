package web

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestOutputFields(t *testing.T) {
	got := outputFields([]byte(`{"$status":"done","sessionGoal":"ship \ud83d\ude80","ok":true,"n":12.50,"none":null,"list":["a",{"id":"b"}],"empty":[]}`),
		"$status")
	want := []outputField{{Name: "sessionGoal", Text: "ship 🚀"}, {Name: "ok", Text: "yes"}, {Name: "n", Text: "12.50"},
		{Name: "list", Of: []outputField{{Text: "a"}, {Of: []outputField{{Name: "id", Text: "b"}}}}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if label := want[0].Label(); label != "Session goal" {
		t.Errorf("the label is %q", label)
	}
	for _, text := range []string{"", "7", "[1]", `{"a":`, `{"a":` + strings.Repeat("[", 20) + strings.Repeat("]", 20) + "}",
		`{"a":[` + strings.Repeat("1,", maxFields) + "1]}"} {
		if got := outputFields([]byte(text)); got != nil {
			t.Errorf("%.20s has fields: %v", text, got)
		}
	}
}

func TestSplitPatch(t *testing.T) {
	patch := strings.Join([]string{
		"diff --git a/a b.go b/a b.go", "index 1..2 100644", "--- a/a b.go\t", "+++ b/a b.go\t", "@@ -1,2 +1,2 @@", " same", "--- was", "+++ is",
		`diff --git "a/\303\244" "b/\303\244"`, "new file mode 100644", "--- /dev/null", `+++ "b/\303\244"`, "@@ -0,0 +1 @@", "+<script>",
		"diff --git a/old b/new", "similarity index 100%", "rename from old", "rename to new",
		"diff --git a/x.bin b/x.bin", "deleted file mode 100644", "GIT binary patch", "literal 3", "",
	}, "\n")
	got := splitPatch(patch)
	want := []changedFile{
		{Path: "a b.go", What: "changed", Added: 1, Removed: 1, Text: "@@ -1,2 +1,2 @@\n same\n--- was\n+++ is\n"},
		{Path: "ä", What: "added", Added: 1, Text: "@@ -0,0 +1 @@\n+<script>\n"},
		{Path: "new", From: "old", What: "renamed"},
		{Path: "x.bin", What: "deleted", Binary: true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}
