package control

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/flow/parse"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/testing/mem"
)

// calling is a flow that calls others, or works itself.
func calling(name string, calls ...string) string {
	text := "version: 1\nname: " + name + "\nroles:\n"
	if len(calls) == 0 {
		return text + "  w: {description: works}\ngraph:\n  $START: {new: {role: w, prompt: p}}\n" +
			"  w: {done: {role: $END}}\n"
	}
	for i, c := range calls {
		text += fmt.Sprintf("  c%d: {flow: %q}\n", i, c)
	}
	text += "graph:\n  $START: {new: {role: c0, prompt: p}}\n"
	for i := range calls {
		next := "{role: $END}"
		if i+1 < len(calls) {
			next = fmt.Sprintf("{role: c%d, prompt: p}", i+1)
		}
		text += fmt.Sprintf("  c%d: {done: %s}\n", i, next)
	}
	return text
}

// write puts files below the house's directory.
func (h *house) write(files map[string]string) {
	h.t.Helper()
	for name, text := range files {
		file := filepath.Join(h.dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			h.t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			h.t.Fatal(err)
		}
	}
}

// calls lists the flows of a bundle, each with what it calls.
func calls(t *testing.T, f Found) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	for name, raw := range f.Bundle.Flows {
		var d flow.Definition
		if err := json.Unmarshal(raw, &d); err != nil {
			t.Fatal(err)
		}
		out[name] = []string{}
		for _, role := range slices.Sorted(maps.Keys(d.Roles)) {
			if c := d.Roles[role].Flow; c != "" {
				out[name] = append(out[name], c)
			}
		}
	}
	return out
}

// A bundle has every flow that calls reach, and the files are all that it was read from.
func TestBundleHoldsWhatItCalls(t *testing.T) {
	h := newHouse(t, nil)
	h.write(map[string]string{
		".git/HEAD":            "ref: x\n",
		"main.yaml":            calling("main", "beside", "lib/path.yaml", "project", "solo"),
		"beside.yaml":          calling("beside", "main"),
		"lib/path.yaml":        calling("pathed", "project"),
		".plait/flows/project": "not this one",
		".plait/flows/project.yaml": "version: 1\nname: project\nroles: {w: {goal: !include goal.md}}\n" +
			"graph: {$START: {new: {role: w, prompt: p}}, w: {done: {role: $END}}}\n",
		".plait/flows/goal.md": "the goal",
	})
	found, err := h.controller().Find(t.Context(), h.dir, "./main.yaml")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{"main": {"beside", "pathed", "project", "solo"}, "beside": {"main"},
		"pathed": {"project"}, "project": {}, "solo": {}}
	if diff := cmp.Diff(want, calls(t, found)); diff != "" {
		t.Errorf("flows (-want +got):\n%s", diff)
	}
	var files []string
	for file := range found.Files {
		rel, err := filepath.Rel(h.dir, file)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, filepath.ToSlash(rel))
	}
	slices.Sort(files)
	if diff := cmp.Diff([]string{".plait/flows/goal.md", ".plait/flows/project.yaml", "beside.yaml", "lib/path.yaml",
		"main.yaml"}, files); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	again, err := h.controller().Find(t.Context(), h.dir, filepath.Join(h.dir, "main.yaml"))
	if err != nil || again.Object.Hash != found.Object.Hash {
		t.Errorf("the same files gave bundles %s and %s, %v", found.Object.Hash.Short(), again.Object.Hash.Short(), err)
	}
	h.write(map[string]string{".plait/flows/goal.md": "another goal"})
	if other, err := h.controller().Find(t.Context(), h.dir, "main.yaml"); err != nil ||
		other.Object.Hash == found.Object.Hash {
		t.Errorf("a called flow changed, the bundle did not: %v", err)
	}
}

// A called flow that is in no file is looked up in the registry, by name and by hash.
func TestCalledFlowsOfTheRegistry(t *testing.T) {
	h := newHouse(t, nil)
	c := h.controller()
	h.write(map[string]string{"kept.yaml": calling("kept", "part"), "part.yaml": calling("part")})
	kept, err := c.Find(t.Context(), h.dir, "kept.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Register(t.Context(), "alias", kept); err != nil {
		t.Fatal(err)
	}
	here := t.TempDir()
	h.dir = here
	prefix := kept.Object.Hash.String()[:16]
	h.write(map[string]string{"main.yaml": calling("main", "alias", prefix), "taken.yaml": calling("part", "alias"),
		"none.yaml": calling("none", "nowhere")})
	found, err := c.Find(t.Context(), here, "main.yaml")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{"main": {"kept", "kept"}, "kept": {"part"}, "part": {}}
	if diff := cmp.Diff(want, calls(t, found)); diff != "" {
		t.Errorf("flows (-want +got):\n%s", diff)
	}
	for file, code := range map[string]string{"taken.yaml": "CALL_NAME_TAKEN", "none.yaml": "CALL_NOT_FOUND"} {
		_, err := c.Find(t.Context(), here, file)
		var invalid *flow.InvalidError
		if !errors.As(err, &invalid) || len(invalid.Problems) != 1 || invalid.Problems[0].Code != code ||
			invalid.Problems[0].File != filepath.Join(here, file) {
			t.Errorf("%s: %v, want %s", file, err, code)
		}
	}
	byHash, err := c.Find(t.Context(), here, prefix)
	if err != nil || byHash.Object.Hash != kept.Object.Hash || len(byHash.Bundle.Flows) != 2 {
		t.Errorf("by hash: %+v, %v", byHash.Bundle, err)
	}
	if flows, err := c.Kept(t.Context(), "nowhere"); flows != nil || err != nil {
		t.Errorf("Kept of nothing = %v, %v", flows, err)
	}
	if _, err := c.Find(t.Context(), here, "nowhere"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("Find of nothing: %v", err)
	}
}

// The built-in flows are complete bundles too.
func TestBuiltInBundles(t *testing.T) {
	h := newHouse(t, nil)
	for _, name := range parse.BuiltIns() {
		found, err := h.controller().Find(t.Context(), h.dir, name)
		if err != nil {
			t.Fatal(err)
		}
		have := calls(t, found)
		for _, called := range have {
			for _, c := range called {
				if _, ok := have[c]; !ok {
					t.Errorf("%s calls %s, which is not in its bundle", name, c)
				}
			}
		}
		if found.Bundle.Name != name {
			t.Errorf("built-in %s is named %s", name, found.Bundle.Name)
		}
	}
}

// A flow that cannot be read is not said to be missing.
func TestALookupThatFailsIsAnError(t *testing.T) {
	for _, op := range []mem.Op{mem.OpResolve, mem.OpGet} {
		h := newHouse(t, loopAgents())
		row := h.begin(h.controller(), loop)
		h.store = h.store.(*mem.Store).With(func(o mem.Op, _ mem.When) error {
			if o == op {
				return errBroken
			}
			return nil
		})
		_, err := h.controller().Find(t.Context(), t.TempDir(), row.Bundle.String()[:16])
		if !errors.Is(err, errBroken) || errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: %v", op, err)
		}
	}
}

// A name is registered even while another process that was stopped holds the right to draw.
func TestRegisteredThoughNotDrawn(t *testing.T) {
	h := newHouse(t, nil)
	c := h.controller()
	h.write(map[string]string{"kept.yaml": calling("kept")})
	kept, err := c.Find(t.Context(), h.dir, "kept.yaml")
	if err != nil {
		t.Fatal(err)
	}
	held, err := c.views.lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer held.Release()
	if _, err := c.Register(t.Context(), "alias", kept); err != nil {
		t.Error(err)
	}
	if row, err := h.store.Flow(t.Context(), "alias"); err != nil || row.Hash != kept.Object.Hash {
		t.Errorf("%+v, %v", row, err)
	}
}
