package session

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/testing/mem"
)

// TestPackSession carries files that grow, appear late and are rewritten.
func TestPackSession(t *testing.T) {
	s := mem.New(mem.Config{})
	k := &Keeper{Config{Store: s}}
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := root.Mkdir("d", 0o700); err != nil {
		t.Fatal(err)
	}
	sizes, got := map[string]int64{}, map[string][]byte{}
	for i, round := range []struct {
		files map[string]string
		parts int
	}{
		{map[string]string{"a": "one\n", "d/b": ""}, 1},
		{map[string]string{"a": "one\ntwo\n", "d/b": "late\n"}, 2},
		{map[string]string{"a": "one\ntwo\n", "d/b": "late\n"}, 0},
		{map[string]string{"a": "new\n", "d/b": "late\nlater\n"}, 2},
	} {
		var names []string
		for name, text := range round.files {
			names = append(names, name)
			if err := root.WriteFile(name, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		parts, err := appended(root, names, sizes)
		if err != nil || len(parts) != round.parts {
			t.Fatalf("round %d: %v, %v", i, parts, err)
		}
		var b bytes.Buffer
		if err := k.pack(&b, root, parts, sizes); err != nil {
			t.Fatal(err)
		}
		blob := store.Object{Hash: dag.Sum(b.Bytes()), Data: b.Bytes()}
		if err := s.Commit(t.Context(), store.Batch{Objects: []store.Object{blob}}); err != nil {
			t.Fatal(err)
		}
		if err := k.read(t.Context(), blob.Hash, got); err != nil {
			t.Fatal(err)
		}
		for name, text := range round.files {
			if text == "" {
				continue
			}
			if d := cmp.Diff(text, string(got[name])); d != "" {
				t.Errorf("round %d: %s (-want +got)\n%s", i, name, d)
			}
		}
	}
}

// TestHostileSession checks that bytes that are not a session write nothing.
func TestHostileSession(t *testing.T) {
	s := mem.New(mem.Config{})
	k := &Keeper{Config{Store: s}}
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := root.WriteFile("a", []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	var whole bytes.Buffer
	if err := k.pack(&whole, root, []part{{"a", 0, 4}}, map[string]int64{"a": 4}); err != nil {
		t.Fatal(err)
	}
	var short bytes.Buffer
	if err := k.pack(&short, root, []part{{"a", 2, 4}}, map[string]int64{"a": 4}); err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{
		"nothing":                   nil,
		"no tar":                    []byte(strings.Repeat("x", 2000)),
		"cut":                       whole.Bytes()[:1100],
		"the end of a file":         short.Bytes(),
		"a name that leads outside": bytes.ReplaceAll(whole.Bytes(), []byte("a\x00\x00\x00\x00\x00"), []byte("../a\x00\x00")),
	} {
		blob := store.Object{Hash: dag.Sum(data), Data: data}
		if err := s.Commit(t.Context(), store.Batch{Objects: []store.Object{blob}}); err != nil {
			t.Fatal(err)
		}
		if err := k.read(t.Context(), blob.Hash, map[string][]byte{}); err == nil {
			t.Errorf("%s: was taken", name)
		}
	}
}
