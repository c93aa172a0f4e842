package briefing

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/record/prompt"
	"github.com/plait-run/plait/internal/record/store"
)

// put makes files below a directory.
func put(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestFindInstructions(t *testing.T) {
	outside, top := t.TempDir(), t.TempDir()
	put(t, outside, map[string]string{"secret": "a secret"})
	put(t, top, map[string]string{
		".git/HEAD": "", "AGENTS.md": "of the repository", "work/AGENTS.md": "\uFEFFof the tree", "work/a/b/AGENTS.md": "deep",
		"work/a/AGENTS.md": "not this", "work/a/AGENTS.override.md": "in its place", "work/empty/AGENTS.md": " \n",
		"work/large/AGENTS.md": strings.Repeat("x", maxInstructions+1), "work/CLAUDE.md": "linked",
		"work/.hidden/AGENTS.md": "hidden", "else/AGENTS.md": "beside",
	})
	for link, to := range map[string]string{
		"work/out/AGENTS.md": filepath.Join(outside, "secret"), "work/in/AGENTS.md": "../CLAUDE.md",
		"work/in/CLAUDE.md": "AGENTS.md",
	} {
		file := filepath.Join(top, link)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(to, file); err != nil {
			t.Fatal(err)
		}
	}
	found, err := findInstructions(filepath.Join(top, "work"))
	if err != nil {
		t.Fatal(err)
	}
	both := []prompt.Instructions{{Name: "AGENTS.md", Text: "of the repository"}, {Name: "work/AGENTS.md", Text: "of the tree"}}
	and := func(name, text string) []prompt.Instructions {
		return append(both[:2:2], prompt.Instructions{Name: name, Text: text})
	}
	for location, want := range map[string][]prompt.Instructions{
		"": both, ".": both, "none": both, "empty": both, "out": both,
		"a":     and("work/a/AGENTS.override.md", "in its place"),
		"a/b":   append(and("work/a/AGENTS.override.md", "in its place"), prompt.Instructions{Name: "work/a/b/AGENTS.md", Text: "deep"}),
		"in":    and("work/in/AGENTS.md", "linked"),
		"large": and("work/large/AGENTS.md", strings.Repeat("x", maxInstructions-len("of the repositoryof the tree"))),
	} {
		if diff := cmp.Diff(want, found.of(location, "")); diff != "" {
			t.Errorf("at %q: -want +got\n%s", location, diff)
		}
	}
	// Claude Code has files of its own, which say the same no second time.
	own := append(slices.Clone(both), prompt.Instructions{Name: "work/CLAUDE.md", Text: "linked"})
	for location, want := range map[string][]prompt.Instructions{
		".": own, "in": append(slices.Clone(own), prompt.Instructions{Name: "work/in/AGENTS.md", Text: "linked"}),
	} {
		if diff := cmp.Diff(want, found.of(location, "CLAUDE.md")); diff != "" {
			t.Errorf("of Claude Code at %q: -want +got\n%s", location, diff)
		}
	}
}

// A task follows what its project said when it began, and so does a manual fork of it.
func TestInstructionsAreKept(t *testing.T) {
	h := newScene(t)
	told := func(row store.Thread) string {
		t.Helper()
		found, err := h.instructions(t.Context(), row)
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, i := range found.of("later", "") {
			all = append(all, i.Text)
		}
		return strings.Join(all, ", ")
	}
	put(t, h.row.Tree, map[string]string{"AGENTS.md": "first"})
	if got := told(h.row); got != "first" {
		t.Errorf("the task is told %q", got)
	}
	put(t, h.row.Tree, map[string]string{"AGENTS.md": "by an agent", "later/AGENTS.md": "by an agent"})
	if got := told(h.row); got != "first" {
		t.Errorf("after an agent's change the task is told %q", got)
	}
	fork := h.row
	fork.ID, fork.Task, fork.Root = "01JD0000000000000000000001", "01JD0000000000000000000001", "01JD0000000000000000000001"
	fork.ForkedFrom = &store.ForkedFrom{Thread: h.row.ID, Step: h.row.Head}
	if err := h.store.Forge(t.Context(), store.Batch{Threads: []store.ThreadChange{{Row: fork}}}); err != nil {
		t.Fatal(err)
	}
	if got := told(fork); got != "first" {
		t.Errorf("the fork is told %q", got)
	}
	fresh := h.row
	fresh.ID, fresh.Task, fresh.Root = "01JD0000000000000000000002", "01JD0000000000000000000002", "01JD0000000000000000000002"
	if err := h.store.Forge(t.Context(), store.Batch{Threads: []store.ThreadChange{{Row: fresh}}}); err != nil {
		t.Fatal(err)
	}
	if got := told(fresh); got != "by an agent, by an agent" {
		t.Errorf("a task that begins now is told %q", got)
	}
}

// The agents of a task can write in its home. Nothing there changes what Plait reads, or where it writes.
func TestInstructionsAreOutOfReach(t *testing.T) {
	h := newScene(t)
	put(t, h.row.Tree, map[string]string{"AGENTS.md": "be nice"})
	home, other := filepath.Join(h.cfg.Home, "homes", h.row.Task), filepath.Join(t.TempDir(), "other")
	put(t, home, map[string]string{"instructions.json": `{"place":".","files":{"AGENTS.md":"be evil"}}`})
	put(t, filepath.Dir(other), map[string]string{"other": "the user's"})
	if err := os.Symlink(other, filepath.Join(home, "instructions.json.new")); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second engine of the task reads what the first has kept
		told, err := New(h.cfg).instructions(t.Context(), h.row)
		if err != nil || told.Files["AGENTS.md"] != "be nice" {
			t.Errorf("the task is told %q, %v", told.Files, err)
		}
		if err := os.RemoveAll(filepath.Join(home, "instructions.json")); err != nil {
			t.Fatal(err)
		}
	}
	if data, err := os.ReadFile(other); err != nil || string(data) != "the user's" {
		t.Errorf("the file that a link in the home leads to has %q, %v", data, err)
	}
}
