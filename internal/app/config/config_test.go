package config

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/flow"
)

func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func none(string) string { return "" }

func TestPrecedenceNamesItsSources(t *testing.T) {
	dir := t.TempDir()
	user := write(t, filepath.Join(dir, "user.yaml"), "default: a\nagents:\n  a: {kind: command, command: [true]}\n"+
		"  b: {kind: command, command: [false]}\nlimits: {maxRounds: 5, maxTokens: 10}\n")
	project := write(t, filepath.Join(dir, "project.yaml"), "default: b\n\nagents:\n  b: {kind: command, command: "+
		"[echo]}\nlimits: {maxTokens: 20, timeout: 1h}\nprices: {m: {input: 2, output: 0.5}}\nrecord: true\n")
	s, err := Load(user, project, none)
	if err != nil {
		t.Fatal(err)
	}
	want := []Origin{
		{"agents.a", `command ["true"]`, user + ":3"},
		{"agents.b", `command ["echo"]`, project + ":4"},
		{"default", "b", project + ":1"},
		{"files", "true", "default"},
		{"limits.maxRounds", "5", user + ":5"},
		{"limits.maxTokens", "20", project + ":5"},
		{"limits.timeout", "1h0m0s", project + ":5"},
		{"mcp", "questions: person, approvals: nobody", "default"},
		{"prices.m", "input 2, cached 2, output 0.5", project + ":6"},
		{"record", "true", project + ":7"},
	}
	if diff := cmp.Diff(want, s.Origins()); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	env := func(k string) string { return map[string]string{"PLAIT_AGENT": "c"}[k] }
	if s, err = Load(user, project, env); err != nil || s.Default != (Value[string]{"c", "PLAIT_AGENT"}) {
		t.Errorf("default is %+v: %v", s.Default, err)
	}
	if s, err = Load(filepath.Join(dir, "no"), filepath.Join(dir, "no"), none); err != nil ||
		s.Default.From != "default" {
		t.Errorf("without files: %+v, %v", s, err)
	}
}

// TestKeeping checks that keepFiles means what it meant: everything, or nothing.
func TestKeeping(t *testing.T) {
	for text, want := range map[string][3]bool{
		"": {true, false, false}, "files: false": {false, false, false}, "sessions: true": {true, true, false},
		"keepFiles: true": {true, false, true}, "keepFiles: false": {false, false, false},
		"keepFiles: false\nfiles: true": {true, false, false},
	} {
		s, err := Load(write(t, filepath.Join(t.TempDir(), "c.yaml"), text+"\n"), "/nowhere", none)
		if err != nil {
			t.Fatal(err)
		}
		if got := [3]bool{s.Files.V, s.Sessions.V, s.Keep.V}; got != want {
			t.Errorf("%q: files, sessions, both: %v, want %v", text, got, want)
		}
	}
}

func TestAllProblemsAtOnce(t *testing.T) {
	file := write(t, filepath.Join(t.TempDir(), "c.yaml"), `defalt: x
agents:
  a: {kind: command}
  b: {kind: nothing}
limits: {maxRounds: -1, rounds: 3}
worktree: {setup: 3, discard: [/abs]}
default: 5
default: x
prices:
  m: {input: -1, output: 2}
  n: {inputs: 1}
  o: {}
`)
	_, err := Load(file, "/nowhere", none)
	var bad *flow.InvalidError
	if !errors.As(err, &bad) {
		t.Fatalf("got %v", err)
	}
	lines := map[int]bool{}
	for _, p := range bad.Problems {
		lines[p.Line] = true
		if p.File != file || p.Code == "" || p.Message == "" {
			t.Errorf("problem without place or code: %+v", p)
		}
	}
	for line := 1; line <= 12; line++ {
		if line != 2 && line != 9 && !lines[line] {
			t.Errorf("nothing is said about line %d:\n%v", line, err)
		}
	}
	for _, text := range []string{"- a list", "{", "a: b: c"} {
		if _, err := Load(write(t, file, text), "/nowhere", none); !errors.As(err, &bad) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestWorkspace(t *testing.T) {
	top := t.TempDir()
	top, _ = filepath.EvalSymlinks(top)
	for _, dir := range []string{"repo/.git", "repo/sub/deep", "repo/own/.plait", "repo/own/x", "plain/x",
		"outer/.plait", "outer/repo/.git"} {
		if err := os.MkdirAll(filepath.Join(top, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for dir, want := range map[string]string{
		"repo": "repo", "repo/sub/deep": "repo", "repo/own/x": "repo/own", "plain/x": "plain/x", "outer": "outer",
		"outer/repo": "outer/repo",
	} {
		if got, err := Workspace(filepath.Join(top, dir)); err != nil || got != filepath.Join(top, want) {
			t.Errorf("Workspace(%s) = %s, %v; want %s", dir, got, err, want)
		}
	}
	home := filepath.Join(top, "home")
	for _, want := range []bool{true, false} {
		if created, err := Init(filepath.Join(top, "repo"), home); err != nil || created != want {
			t.Errorf("Init: created %v, %v; want %v", created, err, want)
		}
	}
	for _, inside := range []string{"repo", "repo/x/y", "repo/.plait/home"} {
		if _, err := Init(filepath.Join(top, "repo"), filepath.Join(top, inside)); err == nil ||
			!strings.Contains(err.Error(), "PLAIT_HOME") {
			t.Errorf("PLAIT_HOME in %s: %v", inside, err)
		}
	}
}

func TestTrust(t *testing.T) {
	home := t.TempDir()
	files := map[string][]byte{"/p/flow.yaml": []byte("one")}
	trust, err := OpenTrust(home)
	if err != nil {
		t.Fatal(err)
	}
	if changed := trust.Check(files); len(changed) != 0 {
		t.Errorf("first use is not consent: %v", changed)
	}
	if err := trust.Consent(files); err != nil {
		t.Fatal(err)
	}
	if trust, err = OpenTrust(home); err != nil {
		t.Fatal(err)
	}
	files["/p/flow.yaml"] = []byte("two")
	want := []Changed{{"/p/flow.yaml", "one", "two"}}
	if diff := cmp.Diff(want, trust.Check(files)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if info, err := os.Stat(filepath.Join(home, "trusted.json")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("trusted.json: %v %v", info.Mode(), err)
	}
	// Of two processes that began with the same list, neither forgets what the other recorded.
	other := map[string][]byte{"/q/flow.yaml": []byte("three")}
	late, err := OpenTrust(home)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(trust.Consent(files), late.Consent(other)); err != nil {
		t.Fatal(err)
	}
	if trust, err = OpenTrust(home); err != nil || !trust.Agreed(files) || !trust.Agreed(other) {
		t.Errorf("a consent is lost: %v", err)
	}
	write(t, filepath.Join(home, "trusted.json"), "{broken")
	if _, err := OpenTrust(home); err == nil {
		t.Error("a broken list of trusted files is read as nothing trusted")
	}
}

// A project cannot have a configuration that never ends or that blocks.
func TestOddFiles(t *testing.T) {
	for name, make := range map[string]func(string) error{
		"pipe":      func(f string) error { return syscall.Mkfifo(f, 0o644) },
		"endless":   func(f string) error { return os.Symlink("/dev/zero", f) },
		"directory": func(f string) error { return os.Mkdir(f, 0o755) },
		"large":     func(f string) error { return os.WriteFile(f, bytes.Repeat([]byte("#"), maxFile+1), 0o644) },
	} {
		file := filepath.Join(t.TempDir(), "config.yaml")
		if err := make(file); err != nil {
			t.Fatal(err)
		}
		if _, err := Load("", file, none); err == nil || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestDiscard adds up what both files let go with a worktree.
func TestDiscard(t *testing.T) {
	dir := t.TempDir()
	user := write(t, filepath.Join(dir, "user.yaml"), "worktree: {discard: ['*.log', dist/], setup: [make, deps]}\n")
	project := write(t, filepath.Join(dir, "project.yaml"), "worktree:\n  discard: [web/cache]\n")
	s, err := Load(user, project, none)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Value[[]string]{[]string{"*.log", "dist", "web/cache"}, project + ":2"}, s.Discard); diff != "" {
		t.Errorf("discard (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(Value[[]string]{[]string{"make", "deps"}, user + ":1"}, s.Setup); diff != "" {
		t.Errorf("setup (-want +got):\n%s", diff)
	}
	for _, bad := range []string{"dist", "[/dist]", "['']", "[..]", "[../dist]", "[a//b]", "['[']", "[.]", "[{a: b}]"} {
		file := write(t, filepath.Join(dir, "bad.yaml"), "worktree: {discard: "+bad+"}\n")
		if _, err := Load(file, project, none); err == nil || !strings.Contains(err.Error(), "worktree.discard must be") {
			t.Errorf("discard %s: %v", bad, err)
		}
	}
}
