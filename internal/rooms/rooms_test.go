// Package rooms tests which internal package, called a room, may import which. The
// table is the map; the test reads the imports and compares them with it.
package rooms

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/plait-run/plait/"

// doors lists, for each room, the rooms it may import. A room may always import
// its own parts (store/sqlite imports store). The standard library and other
// modules are free. Test files may import more, see testDoors.
var doors = map[string][]string{
	"number":   {},
	"dag":      {"number"},
	"dispatch": {"store"},
	"yamldoc":  {"number"},
	"flow":     {"number", "yamldoc"},
	"proc":     {},
	"lock":     {},
	"store":    {"dag", "lock"},
	"event":    {"dag", "store"},
	"thread":   {"dag", "store"},
	"record":   {"dag", "flow", "store", "thread"},
	"gate":     {"dag", "store", "event"},
	"gc":       {"dag", "store"},
	"git":      {"proc"},
	"verify":   {"dag", "store", "event", "thread", "flow", "record"},
	"redact":   {"dag", "store", "event", "thread", "secret"},
	"secret":   {},
	"agent":    {"secret"},
	"command":  {"agent", "proc"},
	"replay":   {"dag", "store", "thread", "agent", "gateway", "proc", "sandbox", "worktree"},
	"gateway":  {"agent", "secret"},
	"sandbox":  {"agent", "gateway", "proc"},
	"claude":   {"agent", "gateway", "proc", "sandbox"},
	"model":    {"agent", "gateway", "proc", "sandbox", "secret", "worktree"},
	"jsonrpc":  {},
	"codex":    {"agent", "gateway", "jsonrpc", "proc", "worktree"},
	"acp":      {"agent", "flow", "gateway", "jsonrpc", "proc", "sandbox"},
	"scripted": {"yamldoc"},
	"config":   {"flow", "lock", "yamldoc"},
	"place":    {"git", "store"},
	"worktree": {"dag", "store", "thread", "record", "git", "proc", "secret"},
	"attempt":  {"dag", "store", "event", "thread", "flow", "record", "gate", "agent", "proc", "secret", "worktree", "yamldoc"},
	"engine":   {"dag", "lock", "store", "event", "thread", "flow", "record", "gate", "agent", "attempt", "worktree"},
	"transfer": {"dag", "event", "record", "store", "thread", "verify"},
	"view":     {"dag", "flow", "store", "event", "thread", "record", "gate", "agent"},
	"task":     {"dag", "flow", "store", "event", "thread", "agent", "view"},
	"notes":    {"event", "gate", "store", "task"},
	"notify":   {"config", "event", "store", "thread", "view", "proc"},
	"control": {
		"dag", "dispatch", "flow", "lock", "store", "event", "thread", "record", "gate", "agent", "config", "attempt", "worktree", "notes", "engine",
		"task", "gateway", "proc", "redact", "replay", "secret", "transfer", "view",
	},
	"web":   {"dag", "flow", "store", "event", "thread", "gate", "agent", "verify", "config", "task", "control", "view"},
	"mcp":   {"flow", "store", "record", "gate", "config", "jsonrpc", "task", "control", "view"},
	"tui":   {"dag", "flow", "store", "event", "thread", "gate", "engine", "control", "view"},
	"heap":  {},
	"soak":  {},
	"rooms": {},
	// What tests of several rooms share. It must not import anything above thread.
	"housetest": {"agent", "config", "flow", "store", "thread"},
}

// testDoors is what tests may import besides their room's doors: whatever they
// need to try it for real.
var testDoors = []string{"dag", "store", "event", "thread", "flow", "agent", "proc", "command", "replay", "attempt", "engine", "task", "gate", "scripted", "claude", "codex", "gateway", "git", "sandbox", "verify", "view", "housetest", "soak", "worktree"}

// program is the room of the command line, which may import every other: it wires the rooms together. But it does
// not choose where the record is stored: see TestConcrete.
const program = "cli"

// maxLines is the length beyond which a file is more than one idea.
const maxLines = 450

func TestWalls(t *testing.T) {
	seen := map[string]bool{}
	for _, file := range goFiles(t, "..") {
		rel, _ := filepath.Rel("..", file)
		room, _, _ := strings.Cut(filepath.ToSlash(rel), "/")
		if room == program {
			continue
		}
		allowed, ok := doors[room]
		if !ok {
			t.Errorf("%s: room %q is not on the map; add it to doors, with what it may import", rel, room)
			continue
		}
		seen[room] = true
		for _, imported := range imports(t, file) {
			to, ok := strings.CutPrefix(imported, module+"internal/")
			if !ok {
				if strings.HasPrefix(imported, module) {
					t.Errorf("%s imports %s: nothing below internal knows the programs", rel, imported)
				}
				continue
			}
			to, _, _ = strings.Cut(to, "/")
			isTest := strings.HasSuffix(file, "_test.go") || strings.HasSuffix(path.Dir(filepath.ToSlash(file)), "test")
			if to == room || slices.Contains(allowed, to) || isTest && slices.Contains(testDoors, to) {
				continue
			}
			t.Errorf("%s imports %s: %s may import only %v, so that each layer can be read without those above it", rel, to, room, allowed)
		}
	}
	for room := range doors {
		if !seen[room] {
			t.Errorf("room %q is on the map but not in the house", room)
		}
	}
}

// TestDoorsAreUsed checks that every allowed import is used.
func TestDoorsAreUsed(t *testing.T) {
	used := map[string]map[string]bool{}
	for _, file := range goFiles(t, "..") {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		rel, _ := filepath.Rel("..", file)
		room, _, _ := strings.Cut(filepath.ToSlash(rel), "/")
		if used[room] == nil {
			used[room] = map[string]bool{}
		}
		for _, imported := range imports(t, file) {
			to, _ := strings.CutPrefix(imported, module+"internal/")
			to, _, _ = strings.Cut(to, "/")
			used[room][to] = true
		}
	}
	for room, allowed := range doors {
		for _, to := range allowed {
			if !used[room][to] {
				t.Errorf("%s may import %s and does not: close the door", room, to)
			}
		}
	}
}

// TestConcrete checks that no room imports an implementation of store.Store: rooms
// take the interface, and only the programs choose.
func TestConcrete(t *testing.T) {
	for _, file := range goFiles(t, "..") {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		rel, _ := filepath.Rel("..", file)
		for _, imported := range imports(t, file) {
			for _, concrete := range []string{"store/sqlite", "store/mem"} {
				if imported == module+"internal/"+concrete && !strings.HasPrefix(filepath.ToSlash(rel), concrete) {
					t.Errorf("%s imports %s: take a store.Store instead", rel, concrete)
				}
			}
		}
	}
}

func TestFilesAreOneIdea(t *testing.T) {
	for _, root := range []string{"..", "../../cmd"} {
		for _, file := range goFiles(t, root) {
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
var badNames = []string{"util", "utils", "common", "helper", "helpers", "manager", "misc", "base", "types", "models", "shared", "lib", "pkg"}

func TestNames(t *testing.T) {
	for _, file := range goFiles(t, "..") {
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
	mod, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	why, err := os.ReadFile("../../docs/decisions/0004-dependencies.md")
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
