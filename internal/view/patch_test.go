package view_test

import (
	"fmt"
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
		got[i].Hunks = nil
	}
	want := []view.FilePatch{
		{Path: "bäh.bin", What: "changed", Binary: true},
		{Path: "d b/plain.txt", What: "changed", Added: 1},
		{Path: "größe.txt", What: "changed", Added: 1},
		{Path: "leer-ü", From: "é", What: "renamed"},
		{Path: "nöw", From: "old", What: "renamed"},
		{Path: "ok.txt", What: "changed", Mode: "100644 → 100755"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestSplitPatch(t *testing.T) {
	patch := strings.Join([]string{
		"diff --git a/a b.go b/a b.go", "index 1..2 100644", "--- a/a b.go\t", "+++ b/a b.go\t", "@@ -1,2 +1,2 @@ func A", " same",
		"--- was", "+++ is",
		`diff --git "a/\303\244" "b/\303\244"`, "new file mode 100644", "--- /dev/null", `+++ "b/\303\244"`, "@@ -0,0 +1 @@",
		"+<script>", `\ No newline at end of file`,
		"diff --git a/old b/new", "similarity index 100%", "rename from old", "rename to new",
		"diff --git a/run b/run", "old mode 100644", "new mode 100755",
		"diff --git a/x.bin b/x.bin", "deleted file mode 100644", "GIT binary patch", "literal 3", "KcmZQz", "",
		"diff --git a/y b/y", "--- a/y", "+++ b/y", "@@ -1 +1,9 @@", "+only one", "… the branches have the rest", "",
	}, "\n")
	got := view.SplitPatch(patch)
	want := []view.FilePatch{
		{Path: "a b.go", What: "changed", Added: 1, Removed: 1, Hunks: []view.Hunk{{Old: 1, New: 1, About: "func A",
			Lines: []view.PatchLine{{Kind: ' ', Old: 1, New: 1, Text: "same"}, {Kind: '-', Old: 2, Text: "-- was"},
				{Kind: '+', New: 2, Text: "++ is"}}}}},
		{Path: "ä", What: "added", Added: 1, Hunks: []view.Hunk{{New: 1,
			Lines: []view.PatchLine{{Kind: '+', New: 1, Text: "<script>", NoEnd: true}}}}},
		{Path: "new", From: "old", What: "renamed"},
		{Path: "run", What: "changed", Mode: "100644 → 100755"},
		{Path: "x.bin", What: "deleted", Binary: true},
		{Path: "y", What: "changed", Added: 1, Rest: "… the branches have the rest\n", Hunks: []view.Hunk{{Old: 1, New: 1,
			Lines: []view.PatchLine{{Kind: '+', New: 1, Text: "only one"}}}}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// TestSplitOther checks unified diffs that are not git's, and texts that are none.
func TestSplitOther(t *testing.T) {
	for name, tt := range map[string]struct {
		patch string
		want  []string // path, lines, rest
	}{
		"without git":    {"--- old.go\n+++ new.go\n@@ -1 +1 @@\n-a\n+b\n--- a/z\n+++ b/z\n@@ -3 +3 @@\n-c\n+d\n", []string{"new.go 2", "z 2"}},
		"hunks alone":    {"@@ -1 +1 @@\n-a\n+b\n", []string{" 2"}},
		"no diff":        {"+a\n+b\n", []string{" 0 +a\n+b\n"}},
		"too many lines": {"@@ -1 +1 @@\n-a\n+b\n+hidden\n", []string{" 2 +hidden\n"}},
		"before it":      {"run this\n@@ -1 +1 @@\n-a\n+b\n", []string{" 2 run this\n"}},
		"empty":          {"", nil},
	} {
		var got []string
		for _, f := range view.SplitPatch(tt.patch) {
			n := 0
			for _, h := range f.Hunks {
				n += len(h.Lines)
			}
			got = append(got, strings.TrimRight(fmt.Sprintf("%s %d %s", f.Path, n, f.Rest), " "))
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: -want +got\n%s", name, diff)
		}
	}
}

func TestMarks(t *testing.T) {
	for _, tt := range []struct{ a, b, want string }{
		{"for i := 1; i < n; i++ {", "for i := 0; i < n; i++ {", "1|0"},
		{"return a", "return a + b", "| + b"},
		{"x(größe, 1)", "x(größte, 1)", "größe|größte"},
		{"nothing in common", "// all else;", "|"},
		{"  {", "  }", "|"},
	} {
		lines := view.SplitPatch("@@ -1 +1 @@\n-" + tt.a + "\n+" + tt.b + "\n")[0].Hunks[0].Lines
		marked := func(l view.PatchLine) string { return l.Text[l.Mark[0]:l.Mark[1]] }
		if got := marked(lines[0]) + "|" + marked(lines[1]); got != tt.want {
			t.Errorf("%q and %q: %q, want %q", tt.a, tt.b, got, tt.want)
		}
	}
}

// FuzzSplitPatch checks that no line of a patch is lost or made up: each is a header, in a hunk, or in the rest.
func FuzzSplitPatch(f *testing.F) {
	f.Add("diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n", "a\nc\n")
	f.Add("--- x\n+++ y\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\nmore\n", "b")
	f.Add("@@ -9999999999 +1 @@\n@@ -0,0 +1,3 @@\n+\xff\n\n", "")
	f.Fuzz(func(t *testing.T, patch, after string) {
		kept := map[string]bool{} // as the hunks and the rest have them
		for _, file := range view.SplitPatch(patch) {
			added := 0
			for _, h := range file.Hunks {
				for _, l := range h.Lines {
					if l.Mark[0] > l.Mark[1] || l.Mark[1] > len(l.Text) {
						t.Fatalf("mark %v of %q", l.Mark, l.Text)
					}
					if l.Kind == view.LineAdded {
						added++
					}
					kept[string(rune(l.Kind))+l.Text] = true
				}
			}
			if added != file.Added {
				t.Fatalf("%d lines are added, and %d counted", added, file.Added)
			}
			for l := range strings.Lines(file.Rest) {
				kept[strings.TrimSuffix(l, "\n")] = true
			}
			view.Whole(file.Hunks, after)
		}
		if strings.Contains(patch, "Binary ") || strings.Contains(patch, "GIT ") {
			return
		}
		for l := range strings.Lines(patch) {
			if l = strings.TrimSuffix(l, "\n"); strings.HasPrefix(l, "+") && !strings.HasPrefix(l, "+++ ") && !kept[l] {
				t.Fatalf("%q is lost", l)
			}
		}
	})
}

func TestWhole(t *testing.T) {
	hunks := view.SplitPatch("@@ -3 +3,2 @@\n-c\n+C\n+d\n")[0].Hunks
	var got []string
	for _, l := range view.Whole(hunks, "a\nb\nC\nd\ne\n").Lines {
		got = append(got, fmt.Sprintf("%c %d %d %s", l.Kind, l.Old, l.New, l.Text))
	}
	want := []string{"  1 1 a", "  2 2 b", "- 3 0 c", "+ 0 3 C", "+ 0 4 d", "  4 5 e"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}
