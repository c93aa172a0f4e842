package web

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestPatchNames checks the names of files that git quotes, and of those without changed lines.
func TestPatchNames(t *testing.T) {
	patch, err := os.ReadFile("../../view/testdata/names.patch") // what git writes
	if err != nil {
		t.Fatal(err)
	}
	got := splitPatch(string(patch))
	for i := range got {
		got[i].Text = ""
	}
	want := []changedFile{
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
