package command_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/agent/command"
	"github.com/plait-run/plait/internal/agent/host"
	"github.com/plait-run/plait/internal/testing/agenttest"
)

var attempts atomic.Int64

// request makes a request and the buffers of its desk.
func request(t *testing.T) (req agent.Request, raw, stderr *bytes.Buffer) {
	raw, stderr = new(bytes.Buffer), new(bytes.Buffer)
	tag := fmt.Sprintf("commandtest-%d-%d", os.Getpid(), attempts.Add(1))
	return agent.Request{
		Place: agent.Place{Attempt: tag}, Dir: t.TempDir(), Tag: tag,
		Desk: agent.Desk{Raw: raw, Stderr: stderr},
	}, raw, stderr
}

func ignore(agent.Event) error { return nil }

func TestNewRefuses(t *testing.T) {
	for _, tt := range []struct {
		name string
		cfg  command.Config
		want string
	}{
		{"no command", command.Config{}, "empty"},
		{"empty program", command.Config{Command: []string{"", "x"}}, "empty"},
		{"NUL", command.Config{Command: []string{"echo", "a\x00b"}}, "NUL"},
		{"word as exit", command.Config{Command: []string{"x"}, Exit: map[string]string{"one": "done"}}, `"one"`},
		{"exit too large", command.Config{Command: []string{"x"}, Exit: map[string]string{"256": "done"}}, `"256"`},
		{"negative exit", command.Config{Command: []string{"x"}, Exit: map[string]string{"-1": "done"}}, `"-1"`},
		{"exit spelled oddly", command.Config{Command: []string{"x"}, Exit: map[string]string{"01": "done"}}, `"01"`},
		{"exit without status", command.Config{Command: []string{"x"}, Exit: map[string]string{"1": ""}}, "no status"},
		{"dir above", command.Config{Command: []string{"x"}, Dir: "../y"}, "leaves"},
		{"absolute dir", command.Config{Command: []string{"x"}, Dir: "/y"}, "leaves"},
		{"negative idle", command.Config{Command: []string{"x"}, Idle: -1}, "negative"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a, err := command.New(tt.cfg)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, %v; want an error with %q", a, err, tt.want)
			}
		})
	}
}

func TestOutcome(t *testing.T) {
	t.Parallel()
	three, zero := 3, 0
	exits := map[string]string{"0": "passed", "3": "failed"}
	for _, tt := range []struct {
		name    string
		command []string
		exit    map[string]string
		want    agent.Result
		failure *agent.Failure
	}{
		{"zero", agenttest.Fake("say", agenttest.Base64([]byte("hi"))), nil,
			agent.Result{Output: []byte("hi"), Exit: &zero, Sandbox: "none", Plain: true}, nil},
		{"prints nothing", agenttest.Fake("exit", "0"), nil,
			agent.Result{Exit: &zero, Sandbox: "none", Plain: true}, nil},
		{"mapped zero", agenttest.Fake("exit", "0"), exits,
			agent.Result{Status: "passed", Exit: &zero, Sandbox: "none", Plain: true}, nil},
		{"mapped code", agenttest.Fake("exit", "3"), exits,
			agent.Result{Status: "failed", Exit: &three, Sandbox: "none", Plain: true}, nil},
		{"code", agenttest.Fake("exit", "3"), nil, agent.Result{},
			&agent.Failure{Kind: agent.Infra, Message: "PROG exited with code 3", Exit: &three}},
		{"code and words", agenttest.Fake("err", agenttest.Base64([]byte("first\nthe \xffcause \n\n  \n")), "3"), nil,
			agent.Result{},
			&agent.Failure{Kind: agent.Infra, Message: "PROG exited with code 3: the \uFFFDcause", Exit: &three}},
		{"words without newline", agenttest.Fake("err", agenttest.Base64([]byte("first\nthe cause")), "3"), nil,
			agent.Result{},
			&agent.Failure{Kind: agent.Infra, Message: "PROG exited with code 3: the cause", Exit: &three}},
		{"signal", agenttest.Fake("kill", "9"), exits, agent.Result{},
			&agent.Failure{Kind: agent.Infra, Message: "PROG was killed by signal SIGKILL (9)"}},
		{"too much", agenttest.Fake("flood", "0", "stderr"), nil, agent.Result{},
			&agent.Failure{Kind: agent.Limit, Message: "PROG was stopped: it printed more than 256 MiB"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a := mustNew(t, command.Config{Command: tt.command, Exit: tt.exit})
			req, _, _ := request(t)
			req.Desk.Stderr = io.Discard
			got, err := a.Run(t.Context(), req, ignore)
			if tt.failure == nil {
				if err != nil {
					t.Fatalf("Run returned %v", err)
				}
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("result (-want +got):\n%s", diff)
				}
				return
			}
			var f *agent.Failure
			if !errors.As(err, &f) {
				t.Fatalf("Run returned %v, want a Failure", err)
			}
			f.Message = strings.ReplaceAll(f.Message, tt.command[0], "PROG")
			if diff := cmp.Diff(tt.failure, f); diff != "" {
				t.Errorf("failure (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLastWordsAreCut(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ä", 5000)
	a := mustNew(t, command.Config{Command: agenttest.Fake("err", agenttest.Base64([]byte(long)), "1")})
	req, _, stderr := request(t)
	_, err := a.Run(t.Context(), req, ignore)
	if err == nil || len(err.Error()) > 1000 || !strings.HasSuffix(err.Error(), "ä…") {
		t.Errorf("got error %v", err)
	}
	if stderr.String() != long {
		t.Errorf("the stderr log has %d bytes, want all %d", stderr.Len(), len(long))
	}
}

func TestPromptIsStdin(t *testing.T) {
	t.Parallel()
	prompt := "do this\r\nthen \x00 that; $(not a command) {{ nor a template }}"
	a := mustNew(t, command.Config{Command: agenttest.Fake("echo")})
	req, raw, _ := request(t)
	req.Prompt = prompt
	got, err := a.Run(t.Context(), req, ignore)
	if err != nil || string(got.Output) != prompt || raw.String() != prompt {
		t.Errorf("got output %q, raw %q, error %v; want %q", got.Output, raw, err, prompt)
	}
}

// TestInstruction tests that a program gets its instruction in a variable, if one can hold it.
func TestInstruction(t *testing.T) {
	t.Parallel()
	a := mustNew(t, command.Config{Command: agenttest.Fake("env"), Env: map[string]string{"PLAIT_PROMPT": "canary"}})
	long := strings.Repeat("x", 100<<10)
	for instruction, want := range map[string]string{"": "", "add; $(1)": "add; $(1)", long: long,
		long + "x": "canary", "a\x00b": "canary"} {
		req, _, _ := request(t)
		req.Desk.Context = t.TempDir()
		if err := os.WriteFile(filepath.Join(req.Desk.Context, agent.Instruction), []byte(instruction), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := a.Run(t.Context(), req, ignore)
		if err != nil || !strings.Contains("\n"+string(got.Output), "\nPLAIT_PROMPT="+want+"\n") {
			t.Errorf("%.20q: it does not get %.20q: %v", instruction, want, err)
		}
	}
}

func TestLargeOutputIsCut(t *testing.T) {
	t.Parallel()
	const size = agent.MaxOutput + 3
	a := mustNew(t, command.Config{Command: agenttest.Fake("flood", fmt.Sprint(size), "stdout")})
	req, raw, _ := request(t)
	got, err := a.Run(t.Context(), req, ignore)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Output) != agent.MaxOutput || !got.Truncated {
		t.Errorf("got %d bytes, truncated %t; want %d, true", len(got.Output), got.Truncated, agent.MaxOutput)
	}
	if raw.Len() != size || !bytes.HasPrefix(raw.Bytes(), got.Output) {
		t.Errorf("the raw log has %d bytes, want %d that begin with the output", raw.Len(), size)
	}
}

func TestDirectory(t *testing.T) {
	t.Parallel()
	req, _, _ := request(t)
	outside := t.TempDir()
	for _, err := range []error{
		os.MkdirAll(filepath.Join(req.Dir, "a", "b"), 0o700),
		os.Symlink("a", filepath.Join(req.Dir, "inside")),
		os.Symlink(outside, filepath.Join(req.Dir, "outside")),
		os.WriteFile(filepath.Join(req.Dir, "file"), nil, 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct{ dir, want, failure string }{
		{dir: "", want: "."},
		{dir: ".", want: "."},
		{dir: "a/b", want: "a/b"},
		{dir: "inside/b", want: "a/b"},
		{dir: "outside", failure: "leaves the working tree"},
		{dir: "gone", failure: "does not exist"},
		{dir: "file", failure: "not a directory"},
	} {
		t.Run(tt.dir, func(t *testing.T) {
			a := mustNew(t, command.Config{Command: []string{"pwd", "-P"}, Dir: tt.dir})
			got, err := a.Run(t.Context(), req, ignore)
			if tt.failure != "" {
				final(t, err, tt.failure)
				return
			}
			root, _ := filepath.EvalSymlinks(req.Dir)
			if want := filepath.Join(root, tt.want) + "\n"; err != nil || string(got.Output) != want {
				t.Errorf("got directory %q and error %v, want %q", got.Output, err, want)
			}
		})
	}
}

// final checks for an infra failure that trying again cannot help.
func final(t *testing.T, err error, want string) {
	t.Helper()
	var f *agent.Failure
	if !errors.As(err, &f) || f.Kind != agent.Infra || !f.Final || !strings.Contains(f.Message, want) {
		t.Errorf("got %v, want a final infra failure with %q", err, want)
	}
}

func TestCannotStart(t *testing.T) { // not parallel: a file that another test's fork has open for writing is busy
	req, _, _ := request(t)
	for name, mode := range map[string]os.FileMode{"data": 0o600, "garbage": 0o700} {
		if err := os.WriteFile(filepath.Join(req.Dir, name), []byte{1}, mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct{ program, want string }{
		{"no-such-program", "not found in PATH; install it"},
		{"./no-such-file", "does not exist; correct"},
		{"./data", "chmod +x"},
		{"./garbage", "not a program"},
	} {
		t.Run(tt.program, func(t *testing.T) {
			a := mustNew(t, command.Config{Command: []string{tt.program, "x"}})
			_, err := a.Run(t.Context(), req, func(e agent.Event) error {
				t.Errorf("event %+v of a program that did not start", e)
				return nil
			})
			final(t, err, tt.want)
		})
	}
	t.Run("wrapped", func(t *testing.T) {
		wrapped := req
		wrapped.Wrap = func(path string, args []string, _ agent.Needs) (string, []string) {
			return "/bin/sh", append([]string{"-c", `"$0" "$@"`, path}, args...)
		}
		_, err := mustNew(t, command.Config{Command: []string{"no-such-program"}, Exit: map[string]string{"127": "red"}}).
			Run(t.Context(), wrapped, ignore)
		final(t, err, "not found in PATH; install it")
	})
	t.Run("tree gone", func(t *testing.T) {
		gone := req
		gone.Dir = filepath.Join(req.Dir, "gone")
		_, err := mustNew(t, command.Config{Command: []string{"true"}}).Run(t.Context(), gone, ignore)
		final(t, err, "restore the working tree")
	})
}

func TestEnvironment(t *testing.T) {
	t.Setenv("PLAIT_HOME", "/canary")
	t.Setenv("COMMAND_TEST_TOKEN", "canary")
	t.Setenv("COMMAND_TEST_FLAGS", "-v")
	a := mustNew(t, command.Config{
		Command: agenttest.Fake("env"),
		Env:     map[string]string{"MODE": "test", "PLAIT_HOME": "/canary"},
		Pass:    []string{"COMMAND_TEST_FLAGS", "PLAIT_HOME"},
	})
	req, _, _ := request(t)
	req.Env = []string{"PLAIT_ROLE=tester"}
	got, err := a.Run(t.Context(), req, ignore)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(got.Output), "canary") {
		t.Errorf("a secret is in the environment:\n%s", got.Output)
	}
	for _, want := range []string{"MODE=test", "COMMAND_TEST_FLAGS=-v", "PLAIT_ROLE=tester", "PLAIT_TAG=" + req.Tag,
		"TERM=dumb"} {
		if !strings.Contains("\n"+string(got.Output), "\n"+want+"\n") {
			t.Errorf("the environment lacks %s", want)
		}
	}
}

func TestBrokenDeskIsNoFailure(t *testing.T) {
	t.Parallel()
	full := errors.New("no space left")
	a := mustNew(t, command.Config{Command: agenttest.Fake("tick")})
	req, _, _ := request(t)
	req.Desk.Raw = brokenWriter{full}
	_, err := a.Run(t.Context(), req, ignore)
	var f *agent.Failure
	if !errors.Is(err, full) || errors.As(err, &f) {
		t.Errorf("got %v, want the desk's error and no Failure", err)
	}
}

type brokenWriter struct{ err error }

func (b brokenWriter) Write([]byte) (int, error) { return 0, b.err }

func TestEvents(t *testing.T) {
	t.Parallel()
	a := mustNew(t, command.Config{Command: agenttest.Fake("say", agenttest.Base64([]byte("10%\r50%\r100%\r\n\n")),
		"4")})
	req, _, _ := request(t)
	var got []agent.Event
	_, err := a.Run(t.Context(), req, func(e agent.Event) error { got = append(got, e); return nil })
	if err == nil {
		t.Error("exit 4 is no failure")
	}
	four := 4
	name := strings.Join(agenttest.Fake("say", agenttest.Base64([]byte("10%\r50%\r100%\r\n\n")), "4"), " ")
	want := []agent.Event{
		{Kind: agent.EventCommand, Text: name, Phase: "started"},
		{Kind: agent.EventProgress, Text: "100%"},
		{Kind: agent.EventCommand, Text: name, Phase: "completed", Exit: &four},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// TestSandboxThatCannotStart checks that a machine on which bubblewrap may not make a namespace is to blame, and not the
// command; and that what a confined command prints on stderr is in its output.
func TestSandboxThatCannotStart(t *testing.T) {
	for script, want := range map[string]string{
		"echo 'bwrap: setting up uid map: Permission denied' >&2; exit 1": "",
		"echo 'vet: bwrap: x' >&2; exit 1":                                "vet: bwrap: x\n",
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "bwrap"), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
		a, err := command.New(command.Config{Command: []string{"true"}, Other: "failed", Host: host.New(host.Config{})})
		if err != nil {
			t.Fatal(err)
		}
		req, _, _ := request(t)
		req.Access, req.Home = agent.Write, t.TempDir()
		res, err := a.Run(t.Context(), req, ignore)
		var fail *agent.Failure
		switch {
		case want != "" && (err != nil || string(res.Output) != want || res.Status != "failed"):
			t.Errorf("got %+v, %v", res, err)
		case want == "" && (!errors.As(err, &fail) || !fail.Machine || !strings.Contains(fail.Message, "uid map")):
			t.Errorf("got %+v, %v, want that the machine failed", res, err)
		}
	}
}
