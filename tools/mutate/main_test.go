package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const source = `package p

func f(a, b int) (bool, error) {
	var err error
	_ = err
	if a < b && b != 1 {
		return false, err
	}
	return a+b > 2, nil
}
`

const check = `package p

import "testing"

func TestF(t *testing.T) {
	if ok, _ := f(1, 2); ok {
		t.Error("1, 2")
	}
}
`

// put makes a module with a package that has a test.
func put(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module p\n\ngo 1.24\n", "p.go": source, "p_test.go": check} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestChanges(t *testing.T) {
	changes, err := changesIn(put(t))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range changes {
		got = append(got, c.what)
	}
	if diff := cmp.Diff([]string{"&& → ||", "< → >=", "!= → ==", "err → nil", "> → <="}, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if _, err := changesIn(t.TempDir()); err == nil {
		t.Error("a directory without Go files has changes")
	}
}

// TestTry: a change that a test notices is killed, another survives, and one that does not compile does not count.
func TestTry(t *testing.T) {
	dir := put(t)
	changes, err := changesIn(dir)
	if err != nil {
		t.Fatal(err)
	}
	changes = append(changes, change{file: changes[0].file, what: "nonsense", text: []byte("package q")})
	survivors := map[string]bool{"&& → ||": true, "err → nil": true, "> → <=": true}
	for _, c := range changes {
		survives, compiles, err := try(dir, t.TempDir(), c, time.Minute)
		if err != nil || survives != survivors[c.what] || compiles != (c.what != "nonsense") {
			t.Errorf("%s: survives %v, compiles %v, %v", c.what, survives, compiles, err)
		}
	}
	if text, err := os.ReadFile(filepath.Join(dir, "p.go")); err != nil || string(text) != source {
		t.Errorf("the file is changed: %v", err)
	}
}
