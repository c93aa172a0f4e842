package host

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plait-run/plait/internal/agent/sandbox"
)

// script writes an executable script and returns its path.
func script(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(file, []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return file
}

func newHost() *Host { return New(sandbox.Config{Getenv: func(string) string { return "" }}) }

var pkg = Package{Name: "plait-no-such-agent", Title: "An Agent", NPM: "@x/agent", Version: "1.2.3", Program: "bin/x"}

// TestFind checks that a program is asked for its version in a home of its own, and only once.
func TestFind(t *testing.T) {
	asked := filepath.Join(t.TempDir(), "asked")
	file, h := script(t, `echo "$HOME $STATE" >> `+asked+"; echo agent 1.2.4"), newHost()
	for range 2 {
		p, err := h.Find(t.Context(), pkg, file, func(home string) map[string]string {
			return map[string]string{"STATE": home + "/state"}
		})
		if err != nil || p.Version != "1.2.4" || p.Path != file || len(p.Line) != 1 || p.Line[0] != file {
			t.Errorf("%+v, %v", p, err)
		}
	}
	data, err := os.ReadFile(asked)
	home, state, _ := strings.Cut(strings.TrimSuffix(string(data), "\n"), " ")
	if err != nil || state != home+"/state" || home == os.Getenv("HOME") {
		t.Errorf("it was asked with %q: %v", data, err)
	}
}

func TestNotFound(t *testing.T) {
	var missing *MissingError
	if _, err := newHost().Find(t.Context(), pkg, "", nil); !errors.As(err, &missing) ||
		!strings.Contains(err.Error(), "An Agent is not installed; install it with `npm install -g @x/agent@1.2.3`, or") {
		t.Error(err)
	}
	for path, want := range map[string]string{filepath.Join(t.TempDir(), "x"): "there is none at", script(t, "exit 3"): "it said nothing"} {
		if _, err := newHost().Find(t.Context(), pkg, path, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
}
