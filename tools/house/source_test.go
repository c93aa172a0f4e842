package main

import (
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A source is one package of a small house: its directory, and its files in order.
type source struct {
	dir   string
	files []string
}

// build makes a house of sources, each of which may import those before it by their
// directory. The file at index i is called i.go.
func build(t *testing.T, of ...source) *house {
	t.Helper()
	h := &house{fset: token.NewFileSet(), lines: map[string]int{}, doors: map[string][]string{}}
	im := &sources{own: map[string]*types.Package{}, rest: importer.Default()}
	for _, s := range of {
		files := map[string][]byte{}
		for i, src := range s.files {
			files[fmt.Sprintf("%s/%d.go", s.dir, i)] = []byte(src)
		}
		p, err := check(h.fset, s.dir, files, im)
		if err != nil {
			t.Fatal(err)
		}
		im.own[s.dir] = p.types
		h.packages = append(h.packages, p)
	}
	return h
}

func TestCountRooms(t *testing.T) {
	root := t.TempDir()
	for name, src := range map[string]string{
		"cmd/plait/main.go":                "package main\n\nfunc main() {}\n",
		"internal/store/store.go":          "package store\n",
		"internal/store/mem/mem.go":        "package mem\n\nvar a int\n",
		"internal/store/mem/mem_darwin.go": "package mem\n",
		"internal/store/mem/mem_test.go":   "package mem\n\nvar b int\n",
		"internal/store/storetest/run.go":  "package storetest\n",
		"internal/store/testdata/x.go":     "package x\n",
		"internal/store/README.md":         "store\n",
	} {
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(src), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := countRooms(root)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]int{"cli": 2, "store": 4}, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestDoors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rooms_test.go")
	src := `package rooms
var other = map[string][]string{"x": {"y"}}
var doors = map[string][]string{"dag": {}, "store": {"dag"}, "engine": {"store"}, "agent": {"dag"}}
`
	if err := os.WriteFile(file, []byte(src), 0o644); err != nil {
		t.Fatal(err)
	}
	doors, err := readDoors(file)
	if err != nil {
		t.Fatal(err)
	}
	h := &house{doors: doors}
	for _, tt := range []struct {
		a, b  string
		above bool
	}{
		{"store", "dag", true}, {"engine", "dag", true}, {"cli", "engine", true}, {"dag", "engine", false},
		{"engine", "agent", false}, {"engine", "engine", false}, {"engine", "cli", false},
	} {
		if got := h.above(tt.a, tt.b); got != tt.above {
			t.Errorf("%s is above %s: %t, want %t", tt.a, tt.b, got, tt.above)
		}
	}
}
