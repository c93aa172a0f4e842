package host

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/agent/sandbox"
	"github.com/plait-run/plait/internal/sys/proc"
	"github.com/plait-run/plait/internal/testing/agenttest"
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

func newHost() *Host {
	return New(Config{Config: sandbox.Config{Getenv: func(string) string { return "" }}})
}

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
	for path, want := range map[string]string{
		filepath.Join(t.TempDir(), "x"): "there is none at",
		script(t, "exit 3"):             "does not say its version: its output has none (exit code 3); is it An Agent?",
	} {
		if _, err := newHost().Find(t.Context(), pkg, path, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestAdvice(t *testing.T) {
	p := pkg
	p.Oldest = "1.2.0"
	for version, want := range map[string]string{
		"1.2.3":  "",
		"1.10.0": "An Agent 1.10.0 (/bin/x) is not the version that was tested, 1.2.3",
		"1.2.1":  "An Agent 1.2.1 (/bin/x) is not the version that was tested, 1.2.3",
		"1.1.9":  "this An Agent 1.1.9 (/bin/x) is too old: 1.2.0 or newer is needed; install it",
	} {
		text, err := p.Advice(Program{Path: "/bin/x", Version: version})
		if err != nil {
			text = err.Error()
		}
		if !strings.HasPrefix(text, want) || want == "" && text != "" || (err != nil) != (version == "1.1.9") {
			t.Errorf("%s: %q, %v", version, text, err)
		}
	}
}

func TestAddress(t *testing.T) {
	for text, want := range map[string]string{
		"https://a.example/v1/": "https://a.example/v1", "http://localhost:1": "http://localhost:1",
		"localhost:1": "", "ftp://a.example": "", "::": "", "http://": "",
	} {
		u, err := Address(text)
		if (err == nil) != (want != "") || err == nil && u.String() != want {
			t.Errorf("%s: %v, %v", text, u, err)
		}
	}
}

// TestRun checks that a program's output is in the desk's logs, its start reported, and that what cannot be started
// is a final failure.
func TestRun(t *testing.T) {
	var raw, told, lines strings.Builder
	started := 0
	s := &Setup{Title: "An Agent", Dir: t.TempDir(), Path: script(t, "read x; echo got $x"), Request: agent.Request{
		Desk: agent.Desk{Raw: &raw, Requests: &told}, Started: func(agent.Process) { started++ }}}
	if err := s.Log([]byte("one\n")); err != nil {
		t.Fatal(err)
	}
	_, err := s.Run(t.Context(), proc.Config{Stdin: strings.NewReader("one\n"), Line: func(line []byte, _ bool) error {
		lines.Write(line)
		return nil
	}})
	if err != nil || raw.String() != "got one\n" || lines.String() != "got one" || told.String() != "one\n" ||
		started != 1 {
		t.Errorf("%q, %q, %q, started %d: %v", raw.String(), lines.String(), told.String(), started, err)
	}
	s.Path = filepath.Join(s.Dir, "none")
	var f *agent.Failure
	if _, err := s.Run(t.Context(), proc.Config{}); !errors.As(err, &f) || !f.Final ||
		!strings.HasPrefix(f.Message, "An Agent could not be started: ") {
		t.Error(err)
	}
}

// TestDiskFull checks that the first error of a log stays.
func TestDiskFull(t *testing.T) {
	s := &Setup{Title: "An Agent", Request: agent.Request{Desk: agent.Desk{Requests: &agenttest.Disk{}}}}
	first := s.Log([]byte("x"))
	if !errors.Is(first, agenttest.ErrDisk) || s.Log(nil) != first || s.Logged() != first {
		t.Errorf("%v, then %v", first, s.Logged())
	}
}
