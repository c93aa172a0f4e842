package session

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
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
	s := mem.New(mem.Config{Proven: true})
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
	s := mem.New(mem.Config{Proven: true})
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
	for name, tt := range map[string]struct {
		data []byte
		why  string
	}{
		"nothing":                   {nil, "do not begin with the sizes"},
		"no tar":                    {[]byte(strings.Repeat("x", 2000)), "do not begin with the sizes"},
		"cut":                       {whole.Bytes()[:1100], "EOF"},
		"the end of a file":         {short.Bytes(), "has 2 bytes, not 4"},
		"a name that leads outside": {archive(t, tar.TypeReg, "../a"), `entry "../a"`},
		"a link":                    {archive(t, tar.TypeSymlink, "a"), `entry "a"`},
		"a file":                    {data: archive(t, tar.TypeReg, "a")},
	} {
		blob := store.Object{Hash: dag.Sum(tt.data), Data: tt.data}
		if err := s.Commit(t.Context(), store.Batch{Objects: []store.Object{blob}}); err != nil {
			t.Fatal(err)
		}
		err := k.read(t.Context(), blob.Hash, map[string][]byte{})
		if refused := tt.why != ""; refused != errors.Is(err, store.ErrCorrupt) ||
			refused && !strings.Contains(err.Error(), tt.why) || !refused && err != nil {
			t.Errorf("%s: got %v, want %q", name, err, tt.why)
		}
	}
}

// archive returns the bytes of a session with one empty entry.
func archive(t *testing.T, kind byte, name string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	list := fmt.Sprintf(`{%q: 0}`, name)
	err := w.WriteHeader(&tar.Header{Name: sizesName, Mode: 0o600, Size: int64(len(list))})
	if err == nil {
		_, err = io.WriteString(w, list)
	}
	if err == nil {
		err = w.WriteHeader(&tar.Header{Typeflag: kind, Name: name, Linkname: "b", Mode: 0o600})
	}
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
