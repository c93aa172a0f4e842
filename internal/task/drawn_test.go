package task

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plait-run/plait/internal/store"
)

// TestDrawOwn draws where something else is already.
func TestDrawOwn(t *testing.T) {
	const ours = "---\n# Drawn by Plait from its record; what is changed here is overwritten.\na: 1\n"
	for _, c := range []struct {
		name string
		make func(t *testing.T, at string)
		kept string // what a.kept.md says; "": it is not there
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

func TestGoOn(t *testing.T) {
	blocked := func(kind store.ReasonKind) store.Thread {
		return store.Thread{ID: "T", Status: store.Blocked, Reason: &store.Reason{Kind: kind}}
	}
	for _, c := range []struct {
		name   string
		root   store.Thread
		driven bool
		below  store.ReasonKind
		want   string
	}{
		{"runs", store.Thread{ID: "T", Status: store.Running}, true, "", ""},
		{"is interrupted", store.Thread{ID: "T", Status: store.Running}, false, "", "plait resume T"},
		{"is new", store.Thread{ID: "T", Status: store.Pending}, false, "", "plait resume T"},
		{"is done", store.Thread{ID: "T", Status: store.Completed}, false, "", ""},
		{"a gate is waited for", blocked("gate"), true, "", ""},
		{"a gate is open", blocked("gate"), false, "", "plait resume T"},
		{"a limit is reached", blocked("limit"), false, "", "plait resume T --limit NAME=VALUE"},
		{"a path asks", blocked("child"), false, "input", "plait resume P -p TEXT"},
	} {
		r := rows{root: c.root, threads: []store.Thread{c.root}, driven: c.driven}
		if c.below != "" {
			r.threads = append(r.threads, store.Thread{ID: "P", Status: store.Blocked, Reason: &store.Reason{Kind: c.below}})
		}
		if got := r.goOn(); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestPlacesDiffer(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range []struct{ id, label string }{
		{"01JD00000000000000AAAAAAAA", "a/b"}, {"01JD00000000000000BBBBBBBB", "a-b"}, {"01JD00000000000000CCCCCCCC", "../.."}, {"01JD00000000000000DDDDDDDD", strings.Repeat("Ä", 500)},
	} {
		place := placeOf(store.Thread{ID: c.id, Task: taskID}, c.label)
		if seen[place] || len(place) > 100 || strings.Trim(place, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
			t.Errorf("the place of %s is %q", c.label, place)
		}
		seen[place] = true
	}
	if placeOf(store.Thread{ID: taskID, Task: taskID}, "") != "" {
		t.Error("the root has a place")
	}
}
