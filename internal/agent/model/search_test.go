package model

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plait-run/plait/internal/agent"
)

// TestSearchEnds checks that a search ends with its attempt.
func TestSearchEnds(t *testing.T) {
	dir := t.TempDir()
	f, err := openFiles(agent.Request{Dir: dir}, dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.close()
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if found, err := f.search(over, "x", ".", ""); !errors.Is(err, context.Canceled) {
		t.Errorf("%q, %v", found, err)
	}
}

// TestSearch checks which files are searched: those of the project, unless the path leads elsewhere.
func TestSearch(t *testing.T) {
	top := t.TempDir()
	for name, text := range map[string]string{
		"a.go": "needle", "src/x.go": "needle", "src/sub/y.go": "needle", "src/sub/z.txt": "needle", "src/ü[1].md": "needle",
		".plait/tasks/T/events.jsonl": "needle", ".plait/worktrees/T/w.go": "needle", ".plait/flows/f.yaml": "needle",
		".plait/.gitignore":        "tasks\n.gitignore",
		"inner/.plait/tasks/T/log": "needle", "node_modules/m/index.js": "needle", "src/node_modules/n.js": "needle",
		"out/o.txt": "needle", "out/kept.txt": "needle", "src/sub/gen.txt": "needle", "excluded.txt": "needle",
		"venv/.gitignore": "*", "venv/lib.py": "needle",
		".gitignore":     "# what is built\nnode_modules/\r\n/out/*\n!/out/kept.txt\n\\!not\n[\n",
		"src/.gitignore": "sub/gen.*\n**/deep/\n", "src/a/deep/d.go": "needle",
		".git/info/exclude": "/excluded.txt\n", ".git/HEAD": "needle",
	} {
		name = filepath.Join(top, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755),
			os.WriteFile(name, []byte(text+"\n"), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Symlink(".plait/tasks", filepath.Join(top, "logs")),
		os.Symlink("../.plait", filepath.Join(top, "src/linked"))); err != nil {
		t.Fatal(err)
	}
	f, err := openFiles(agent.Request{Dir: top}, top)
	if err != nil {
		t.Fatal(err)
	}
	defer f.close()
	const aside = "[not searched, since Git ignores it: "
	for _, c := range []struct{ pattern, path, name, want string }{
		{"needle", "", "", ".plait/flows/f.yaml a.go out/kept.txt src/sub/y.go src/sub/z.txt src/x.go src/ü[1].md " + aside +
			"excluded.txt, node_modules/, out/o.txt and 5 more; give it as path to search it]"},
		{"", "", "*.go", "a.go src/sub/y.go src/x.go " + aside +
			"node_modules/, src/a/deep/, src/node_modules/; give it as path to search it]"},
		{"", "src", "*.{go,txt}", "src/sub/y.go src/sub/z.txt src/x.go " + aside +
			"src/a/deep/, src/node_modules/, src/sub/gen.txt; give it as path to search it]"},
		{"", "", "src/*.go", "src/x.go"}, {"", "", "./src/*.go", "src/x.go"}, {"", "", "/src/*.go", "src/x.go"},
		{"", "", "src/**/*.go", "src/sub/y.go src/x.go"},
		{"", "", "**/*.go", "a.go src/sub/y.go src/x.go"}, {"", "src", "src/*.go", "src/x.go"},
		{"", "src", "sub/*.go", "src/sub/y.go"},
		{"", "", top + "/src/*.go", "src/x.go"}, {"", "", "src/{x,sub/*}.go", "src/sub/y.go src/x.go"},
		{"", "", "src/sub/", "src/sub/y.go src/sub/z.txt"},
		{"", "", "[!a-w].go", "src/sub/y.go src/x.go"}, {"", "", `ü\[?].md`, "src/ü[1].md"}, {"", "", "ü*", "src/ü[1].md"},
		{"", "a.go", "", "a.go"}, {"", "", "X.go", "[nothing was found]"},
		{"", "", "[a", "! [ has no ]"}, {"", "", "{a", "! { has no }"}, {"(", "", "", "! the pattern is wrong"},
		{"", "none", "", "! none: "},
		{"needle", "node_modules", "", "node_modules/m/index.js"},
		{"needle", "node_modules/m", "", "node_modules/m/index.js"},
		{"needle", "venv", "", "venv/lib.py"}, {"needle", "out", "",
			"out/kept.txt " + aside + "out/o.txt; give it as path to search it]"}, {"needle", "out/o.txt", "", "out/o.txt"},
		{"needle", ".plait", "", ".plait/flows/f.yaml"}, {"needle", ".plait/tasks", "", ".plait/tasks/T/events.jsonl"},
		{"needle", "./src/../.plait/tasks/", "", ".plait/tasks/T/events.jsonl"},
		{"needle", "logs", "", ".plait/tasks/T/events.jsonl"}, {"needle", "src/linked", "", ".plait/flows/f.yaml"},
		{"needle", top + "/.plait/worktrees/T", "", ".plait/worktrees/T/w.go"},
	} {
		found, err := f.search(t.Context(), c.pattern, c.path, c.name)
		got := strings.Join(strings.Split(strings.ReplaceAll(found, ":1:needle", ""), "\n"), " ")
		if err != nil {
			got = "! " + err.Error()
		}
		if strings.Contains(c.name, "/") || strings.HasPrefix(c.name, "[!") || strings.Contains(c.name, "ü") ||
			c.name == "X.go" {
			got, _, _ = strings.Cut(got, " "+aside)
		}
		if fault, fails := strings.CutPrefix(c.want, "! "); got != c.want && !(fails && strings.Contains(got, fault)) {
			t.Errorf("search %q in %q for names %q:\n%s, want\n%s", c.pattern, c.path, c.name, got, c.want)
		}
	}
}

// TestSearchTracked checks that what Git tracks is searched although a .gitignore names it.
func TestSearchTracked(t *testing.T) {
	top := t.TempDir()
	run := func(args ...string) {
		t.Helper()
		if out, err := exec.Command("git", append([]string{"-C", top}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	write := func(name, text string) {
		t.Helper()
		name = filepath.Join(top, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"work/.env", "work/out/kept/a.go", "work/out/b.go", "work/src/c.go",
		"work/src/gen/d.go"} {
		write(name, "needle\n")
	}
	run("init", "-q")
	run("add", "work/.env", "work/out/kept/a.go", "work/src/c.go")
	write("work/.gitignore", "\uFEFF.env\nout/\ngen\n")
	write("work/out/kept/.gitignore", "!*.txt\n")
	write("work/out/kept/x.txt", "needle\n")
	dir := filepath.Join(top, "work")
	f, err := openFiles(agent.Request{Dir: dir}, dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.close()
	got, err := f.search(t.Context(), "needle", "", "")
	const want = ".env:1:needle\nout/kept/a.go:1:needle\nsrc/c.go:1:needle\n" +
		"[not searched, since Git ignores it: out/b.go, out/kept/.gitignore, out/kept/x.txt and 1 more; give it as path to " +
		"search it]"
	if err != nil || got != want {
		t.Errorf("found\n%s, %v, want\n%s", got, err, want)
	}
}

// TestNotSearched checks that a search says what it passes over, and that a byte order mark hides no line.
func TestNotSearched(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"large.csv": "needle\n" + strings.Repeat("x", maxFile),
		"le.txt": "\xff\xfen\x00\n\x00",
		"be.txt": "\xfe\xff\x00n", "logo.png": "\x89PNG\x00needle", "marked.cs": "\uFEFFneedle\nneedle\n", "empty": ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	f, err := openFiles(agent.Request{Dir: dir}, dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.close()
	got, err := f.search(t.Context(), "^needle", "", "")
	const want = "marked.cs:1:needle\nmarked.cs:2:needle\n[not searched, since it has over 8 MiB: large.csv]\n" +
		"[not searched, since it is UTF-16: be.txt, le.txt]\n[not searched, since it is no text: logo.png]"
	if err != nil || got != want {
		t.Errorf("found\n%s, %v, want\n%s", got, err, want)
	}
	if got, err = f.search(t.Context(), "needle", "", "*.cs"); err != nil || strings.Contains(got, "not searched") {
		t.Errorf("found\n%s, %v", got, err)
	}
}
