package main

import (
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/testing/rooms"
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
	h := &house{fset: token.NewFileSet(), plan: &rooms.Plan{Rooms: map[string]map[string][]string{}}}
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
		folder, name, ok := strings.Cut(s.dir, "/")
		if !ok {
			name = folder
		}
		h.plan.Rooms[folder] = map[string][]string{name: nil}
		p.room = h.plan.Of(s.dir)
		h.packages = append(h.packages, p)
	}
	return h
}

func TestCountRooms(t *testing.T) {
	root := t.TempDir()
	for name, src := range map[string]string{
		"cmd/plait/main.go":                   "package main\n\nfunc main() {}\n",
		"internal/engine/engine.go":           "package engine\n",
		"internal/record/store/store.go":      "package store\n",
		"internal/record/store/sqlite/x.go":   "package sqlite\n\nvar a int\n",
		"internal/testing/mem/mem.go":         "package mem\n\nvar a int\n",
		"internal/testing/mem/mem_darwin.go":  "package mem\n",
		"internal/testing/mem/mem_test.go":    "package mem\n\nvar b int\n",
		"internal/testing/storetest/run.go":   "package storetest\n",
		"internal/record/store/testdata/x.go": "package x\n",
		"internal/record/store/README.md":     "store\n",
	} {
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(src), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	plan := &rooms.Plan{Rooms: map[string]map[string][]string{"record": {"store": nil}, "engine": {"engine": nil}}}
	got, err := countRooms(root, plan)
	if err != nil {
		t.Fatal(err)
	}
	want := map[rooms.Room]int{{Folder: "cmd", Name: "plait"}: 2, {Folder: "record", Name: "store"}: 3, {Folder: "engine", Name: "engine"}: 1}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestAbove(t *testing.T) {
	packages := build(t, source{"dag", []string{"package dag"}}, source{"agent", []string{"package agent"}},
		source{"store", []string{`package store; import _ "dag"`}}, source{"engine", []string{`package engine; import _ "store"`}}).packages
	at := map[string]*types.Package{}
	for _, p := range packages {
		at[p.dir] = p.types
	}
	for _, tt := range []struct {
		a, b string
		want bool
	}{
		{"store", "dag", true}, {"engine", "dag", true}, {"dag", "engine", false}, {"engine", "agent", false}, {"engine", "engine", false},
	} {
		if got := above(at[tt.a], at[tt.b]); got != tt.want {
			t.Errorf("%s is above %s: %t, want %t", tt.a, tt.b, got, tt.want)
		}
	}
}
