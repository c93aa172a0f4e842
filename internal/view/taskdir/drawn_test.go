package taskdir

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDrawOwn draws where something else already exists.
func TestDrawOwn(t *testing.T) {
	const ours = "---\n# Drawn by Plait from its record; what is changed here is overwritten.\na: 1\n"
	for _, c := range []struct {
		name string
		make func(t *testing.T, at string)
		kept string // content of a.kept.md; "": it does not exist
	}{
		{"nothing", func(*testing.T, string) {}, ""},
		{"one of ours", func(t *testing.T, at string) { put(t, at, ours+"changed\n") }, ""},
		{"a person's", func(t *testing.T, at string) { put(t, at, "mine\n") }, "mine\n"},
		{"an empty one", func(t *testing.T, at string) { put(t, at, "") }, ""},
		{"a directory", func(t *testing.T, at string) {
			if err := os.Mkdir(at, 0o755); err != nil {
				t.Fatal(err)
			}
		}, ""},
		{"a link", func(t *testing.T, at string) {
			put(t, filepath.Join(filepath.Dir(at), "..", "elsewhere"), "theirs\n")
			if err := os.Symlink("../elsewhere", at); err != nil {
				t.Fatal(err)
			}
		}, ""},
		{"a second name", func(t *testing.T, at string) {
			put(t, filepath.Join(filepath.Dir(at), "..", "elsewhere"), "theirs\n")
			if err := os.Link(filepath.Join(filepath.Dir(at), "..", "elsewhere"), at); err != nil {
				t.Fatal(err)
			}
		}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "in")
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			c.make(t, filepath.Join(dir, "a.md"))
			root, err := os.OpenRoot(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer root.Close()
			for range 2 {
				if err := drawOwn(root, "a.md", []byte(ours)); err != nil {
					t.Fatal(err)
				}
			}
			if got, _ := os.ReadFile(filepath.Join(dir, "a.md")); string(got) != ours {
				t.Errorf("a.md says %q", got)
			}
			if got, _ := os.ReadFile(filepath.Join(dir, "a.kept.md")); string(got) != c.kept {
				t.Errorf("a.kept.md says %q, want %q", got, c.kept)
			}
			if got, err := os.ReadFile(filepath.Join(dir, "..", "elsewhere")); err == nil && string(got) != "theirs\n" {
				t.Errorf("what the link led to says %q", got)
			}
			if _, err := os.Lstat(filepath.Join(dir, "a.kept-2.md")); err == nil {
				t.Error("it was moved aside twice")
			}
		})
	}
}

func put(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestPlacesDiffer(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range []struct{ id, label string }{
		{"01JD00000000000000AAAAAAAA", "a/b"}, {"01JD00000000000000BBBBBBBB", "a-b"}, {"01JD00000000000000CCCCCCCC", "../.."}, {"01JD00000000000000DDDDDDDD", strings.Repeat("Ä", 500)},
	} {
		place := placeOf(taskID, c.id, c.label)
		if seen[place] || len(place) > 100 || strings.Trim(place, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
			t.Errorf("the place of %s is %q", c.label, place)
		}
		seen[place] = true
	}
	if placeOf(taskID, taskID, "") != "" {
		t.Error("the root has a place")
	}
}
