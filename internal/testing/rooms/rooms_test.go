package rooms

import (
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	module = "github.com/plait-run/plait/"
	root   = "../../.."
	below  = root + "/internal"
)

// maxLines is the length beyond which a file is more than one idea.
const maxLines = 450

// TestWalls checks that rooms import what the plan allows, and that the plan allows nothing else. The standard library
// and other modules are free. Tests may import whatever they need to try their room for real, except app and ui.
func TestWalls(t *testing.T) {
	plan, err := Read(root)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[Room]bool{}
	used := map[[2]string]bool{}
	for _, file := range goFiles(t, below) {
		rel, _ := filepath.Rel(below, file)
		from := plan.Of(filepath.Dir(rel))
		if from.Name == "" {
			t.Errorf("%s: the page of %s has no row for its room: add it, with what it may import", rel, from.Folder)
			continue
		}
		seen[from] = true
		isTest := strings.HasSuffix(file, "_test.go")
		for _, imported := range imports(t, file) {
			dir, ok := strings.CutPrefix(imported, module+"internal/")
			if !ok {
				if strings.HasPrefix(imported, module) {
					t.Errorf("%s imports %s: nothing below internal knows the programs", rel, imported)
				}
				continue
			}
			to := plan.Of(dir)
			if !isTest {
				used[[2]string{from.Folder, to.Folder}] = true
				used[[2]string{from.String(), to.String()}] = true
			}
			if !plan.Allows(from, to) && !(isTest && to.Folder != "app" && to.Folder != "ui") {
				t.Errorf("%s imports %s: %s may not, so that each floor can be read without those above it", rel, to, from)
			}
		}
	}
	for folder, allowed := range plan.Folders {
		for _, to := range allowed {
			if !used[[2]string{folder, to}] {
				t.Errorf("folder %s may import %s and does not: close the door", folder, to)
			}
		}
		for name, allowed := range plan.Rooms[folder] {
			from := Room{folder, name}
			if !seen[from] {
				t.Errorf("room %s is in the plan but not in the house", from)
			}
			for _, to := range allowed {
				if !used[[2]string{from.String(), Room{folder, to}.String()}] {
					t.Errorf("room %s may import %s and does not: close the door", from, to)
				}
			}
		}
	}
}

// TestPlan checks that the plan has floors: no folder imports one that may import it, nor a room one of its folder.
func TestPlan(t *testing.T) {
	plan, err := Read(root)
	if err != nil {
		t.Fatal(err)
	}
	if len(plan.Folders) != 10 {
		t.Errorf("the house has %d folders, want 10", len(plan.Folders))
	}
	graphs := map[string]map[string][]string{"internal": plan.Folders}
	maps.Copy(graphs, plan.Rooms)
	for name, graph := range graphs {
		var enter func(room string, way []string)
		enter = func(room string, way []string) {
			if slices.Contains(way, room) {
				t.Errorf("a circle in %s: %v", name, append(way, room))
				return
			}
			for _, to := range graph[room] {
				enter(to, append(slices.Clip(way), room))
			}
		}
		for room := range graph {
			enter(room, nil)
		}
	}
}

// TestConcrete checks that no room imports an implementation of store.Store: rooms
// take the interface, and only the programs choose.
func TestConcrete(t *testing.T) {
	for _, file := range goFiles(t, below) {
		rel, _ := filepath.Rel(below, file)
		if strings.HasSuffix(file, "_test.go") || strings.HasPrefix(filepath.ToSlash(rel), "record/store/sqlite") {
			continue
		}
		for _, imported := range imports(t, file) {
			if imported == module+"internal/record/store/sqlite" || imported == module+"internal/testing/mem" {
				t.Errorf("%s imports %s: take a store.Store instead", rel, imported)
			}
		}
	}
}

func TestFilesAreOneIdea(t *testing.T) {
	for _, top := range []string{below, root + "/cmd"} {
		for _, file := range goFiles(t, top) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(string(data), "\n"); n > maxLines {
				t.Errorf("%s has %d lines, over %d: it is more than one idea", file, n, maxLines)
			}
		}
	}
}

// badNames are package names that say nothing about the contents.
var badNames = []string{"util", "utils", "common", "helper", "helpers", "manager", "misc", "base", "types", "models",
	"shared", "lib", "pkg"}

func TestNames(t *testing.T) {
	for _, file := range goFiles(t, below) {
		for _, part := range strings.Split(filepath.ToSlash(filepath.Dir(file)), "/") {
			if slices.Contains(badNames, part) {
				t.Errorf("%s: %q is no noun of the field", file, part)
			}
		}
	}
}

func goFiles(t *testing.T, root string) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && d.Name() == "testdata" {
			return fs.SkipDir
		}
		if strings.HasSuffix(p, ".go") {
			files = append(files, p)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatalf("no Go files below %s", root)
	}
	return files
}

func imports(t *testing.T, file string) []string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, spec := range f.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, p)
	}
	return out
}

// TestDependencies checks that the docs say, for each required module, why it is used.
func TestDependencies(t *testing.T) {
	mod, err := os.ReadFile("../../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	why, err := os.ReadFile("../../../docs/decisions/0004-dependencies.md")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for line := range strings.Lines(string(mod)) {
		name, version, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok || !strings.HasPrefix(version, "v") || strings.HasSuffix(version, "// indirect") {
			continue
		}
		if found++; !strings.Contains(string(why), name) {
			t.Errorf("docs/decisions/0004-dependencies.md does not say why %s is used", name)
		}
	}
	if found < 10 {
		t.Errorf("only %d modules are found in go.mod", found)
	}
}
