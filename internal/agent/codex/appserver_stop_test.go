package codex

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/agent/host"
	"github.com/plait-run/plait/internal/agent/scripted"
	"github.com/plait-run/plait/internal/sys/proc"
	"github.com/plait-run/plait/internal/testing/agenttest"
)

// sleeper is a scenario with a command that does not end by itself.
func sleeper(marker string) string {
	return `
turns:
- when: {contains: [sleep]}
  steps:
  - items:
    - run: {cmd: "echo begun; exec bash -c 'exec -a ` + marker + ` sleep 600'", yield_ms: 30000}
  - items:
    - answer: slept
- when: {contains: [hush]}
  steps:
  - silent: true
- steps:
  - items:
    - answer: all done
`
}

func TestAppCancelled(t *testing.T) {
	const marker = "plait-cancelled-sleeper"
	l := newLab(t, sleeper(marker))
	y := l.try(t, "sleep")
	y.req.Access = agent.Full
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	began, used := false, false
	y.on = func(e agent.Event) {
		if e.Kind == agent.EventCommand && e.Phase == "started" {
			eventually(t, "the command runs", func() bool { return running(t, marker) })
			began = true
		}
		used = used || e.Kind == agent.EventUsage
		if began && used {
			cancel()
		}
	}
	f := y.fails(ctx, t, l.agent, agent.Cancelled)
	if running(t, marker) || len(agenttest.Tagged(y.req.Tag)) > 0 {
		t.Error("the command runs on")
	}
	if f.Session != y.session || f.Usage.InputTokens == 0 {
		t.Errorf("got failure %+v", f)
	}
	if ends := y.of(agent.EventCommand, "failed"); len(ends) != 1 {
		t.Errorf("got commands %+v", y.of(agent.EventCommand, ""))
	}
	again := l.try(t, "go on")
	again.req.Session = y.session
	again.works(t, l.agent)
}

func TestAppTimeouts(t *testing.T) {
	const marker = "plait-timeout-sleeper"
	l := newLab(t, sleeper(marker))
	tests := []struct {
		name, prompt string
		wall, idle   time.Duration
		says         string
	}{
		{"wall while a command runs", "sleep", 6 * time.Second, 4 * time.Second, // idle until it runs, on a busy machine
			"longer than its timeout of 6s"},
		{"wall while the model is silent", "hush", 1200 * time.Millisecond, 0, "longer than its timeout of 1.2s"},
		{"idle while the model is silent", "hush", 0, time.Second, "said nothing for 1s"},
		{"wall before the turn began", "hush", time.Millisecond, 0, "longer than its timeout of 1ms"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			y := l.try(t, tt.prompt)
			y.req.Access, y.req.Timeout, y.req.Idle = agent.Full, tt.wall, tt.idle
			f := y.fails(t.Context(), t, l.agent, agent.TimedOut)
			contains(t, "the message", f.Message, tt.says)
			if running(t, marker) || len(agenttest.Tagged(y.req.Tag)) > 0 {
				t.Error("something runs on")
			}
		})
	}
}

func TestAppKilled(t *testing.T) {
	const marker = "plait-killed-sleeper"
	l := newLab(t, sleeper(marker))
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL, syscall.SIGINT, syscall.SIGHUP,
		syscall.SIGSEGV} {
		t.Run(sig.String(), func(t *testing.T) {
			y := l.try(t, "sleep")
			y.req.Access = agent.Full
			y.on = func(e agent.Event) {
				if e.Kind == agent.EventCommand && e.Phase == "started" {
					eventually(t, "the command runs", func() bool { return running(t, marker) })
					// Repeatedly: the first SIGSEGV only removes a handler.
					eventually(t, "Codex is dead", func() bool {
						syscall.Kill(y.process.PID, sig)
						return !proc.Alive(y.process.PID, y.process.Start)
					})
				}
			}
			f := y.fails(t.Context(), t, l.agent, agent.Infra)
			contains(t, "the message", f.Message, "Codex ended in the middle of its turn: ")
			if f.Final || f.Session != y.session {
				t.Errorf("got failure %+v of session %s", f, y.session)
			}
			if running(t, marker) || len(agenttest.Tagged(y.req.Tag)) > 0 {
				t.Error("something runs on")
			}
			again := l.try(t, "go on")
			again.req.Session = y.session
			if res := again.works(t, l.agent); res.Session != y.session {
				t.Errorf("got result %+v", res)
			}
		})
	}
	t.Run("before the turn", func(t *testing.T) {
		y := l.try(t, "go")
		y.req.Started = func(p agent.Process) { syscall.Kill(p.PID, syscall.SIGKILL) }
		f := y.fails(t.Context(), t, l.agent, agent.Infra)
		contains(t, "the message", f.Message, "killed")
		l.try(t, "go").works(t, l.agent)
	})
}

func TestAppFailures(t *testing.T) {
	l := newLab(t, `
turns:
- when: {contains: [unauthorized]}
  steps:
  - fail: {status: 401, body: '{"error":{"message":"no such key"}}'}
- when: {contains: [limited]}
  steps:
  - fail: {status: 429, body: '{"error":{"message":"try again in 20s"}}'}
- when: {contains: [broken]}
  steps:
  - fail: {status: 500}
- when: {contains: [wrong]}
  steps:
  - fail: {status: 400, body: '{"error":{"message":"that is wrong"}}'}
- when: {contains: [cut]}
  steps:
  - cut: true
    items:
    - answer: this is never said to its end because the line goes dead
- when: {contains: [full]}
  steps:
  - broken: {code: context_length_exceeded, message: too much}
`)
	tests := []struct {
		prompt, kind, says string
		final              bool
	}{
		{"unauthorized", agent.Infra, "refused the login", true},
		{"limited", agent.Limit, "rate limit", false},
		{"broken", agent.Infra, "high demand", false},
		{"wrong", agent.Infra, "that is wrong", true},
		{"cut", agent.Infra, "broke off", false},
		{"full", agent.Limit, "the session is full", true},
	}
	for _, tt := range tests {
		t.Run(tt.prompt, func(t *testing.T) {
			y := l.try(t, tt.prompt)
			f := y.fails(t.Context(), t, l.agent, tt.kind)
			contains(t, "the message", f.Message, tt.says)
			if f.Final != tt.final {
				t.Errorf("got failure %+v", f)
			}
			if keep := f.Session != ""; keep == (tt.prompt == "full") {
				t.Errorf("the session to go on in is %q", f.Session)
			}
			if len(y.of(agent.EventError, "")) == 0 {
				t.Error("no event tells of the error")
			}
		})
	}
	t.Run("refused", func(t *testing.T) {
		l.model.Close()
		f := l.try(t, "anything").fails(t.Context(), t, l.agent, agent.Infra)
		contains(t, "the message", f.Message, "could not be reached")
	})
}

func TestAppPlaces(t *testing.T) {
	l := newLab(t, answer)
	t.Run("no directory", func(t *testing.T) {
		y := l.try(t, "go")
		y.req.Dir = filepath.Join(y.req.Dir, "gone")
		if f := y.fails(t.Context(), t, l.agent, agent.Infra); !f.Final ||
			!strings.Contains(f.Message, "restore the working tree") {
			t.Errorf("got failure %+v", f)
		}
	})
	t.Run("no session", func(t *testing.T) {
		y := l.try(t, "go")
		y.req.Session = "01a1fdfc-de40-78c3-b14e-f798963e5525"
		if l.agent.Continues(y.req) {
			t.Error("a session that is not there can be gone on with")
		}
		if f := y.fails(t.Context(), t, l.agent, agent.Infra); f.Final || f.Session != "" {
			t.Errorf("got failure %+v", f)
		}
	})
	t.Run("no source of a fork", func(t *testing.T) {
		y := l.try(t, "go")
		y.req.From = &agent.Branch{Home: t.TempDir(), Session: "01a1fdfc-de40-78c3-b14e-f798963e5525", Turn: "x"}
		if f := y.fails(t.Context(), t, l.agent, agent.Infra); f.Message == "" {
			t.Errorf("got failure %+v", f)
		}
	})
}

func TestAppTwoWriters(t *testing.T) {
	l := newLab(t, shared)
	y, end := background(t, l)
	_, other := l.another(t)
	z := l.try(t, "look")
	z.req.Session = y.session
	f := z.fails(t.Context(), t, other, agent.Infra)
	contains(t, "the message", f.Message, "in use by another Codex")
	if f.Final || f.Session != y.session {
		t.Errorf("got failure %+v", f)
	}
	if string(end().Output) != "stayed" {
		t.Error("the first writer was disturbed")
	}
}

func TestAppDeskFails(t *testing.T) {
	l := newLab(t, answer)
	y := l.try(t, "go")
	y.req.Desk.Raw = fullDisk{}
	_, err := y.run(t.Context(), t, l.agent)
	if err == nil || !strings.Contains(err.Error(), "no space left") || asErr(err, new(*agent.Failure)) {
		t.Errorf("Run returned %v, want the error of the log", err)
	}
	if len(agenttest.Tagged(y.req.Tag)) > 0 {
		t.Error("something runs on")
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) {
	return 0, &os.PathError{Op: "write", Path: "events.jsonl", Err: syscall.ENOSPC}
}

func TestAppVersions(t *testing.T) {
	_, p := needCodex(t)
	model, err := scripted.Open(scripted.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer model.Close()
	program := func(t *testing.T, script string) string {
		path := filepath.Join(t.TempDir(), "codex")
		if err := os.WriteFile(path+".new", []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
		return path
	}
	cfg := endpoint(model.URL())
	says := func(version string) string {
		return `if [ "$1" = --version ]; then echo codex-cli ` + version + `; exit; fi; exec ` + p.Path + ` "$@"`
	}
	tests := []struct{ name, script, fails, warns string }{
		{"too old", says("0.101.0"), "too old", ""},
		{"not a codex", "echo hello", "is it Codex?", ""},
		{"breaks", "exit 7", "exit code 7", ""},
		{"newer", says("0.170.1"), "", "not the version that was tested"},
		{"this one", says(Version), "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg.Path = program(t, tt.script)
			a, err := NewHost(host.New(host.Config{Grace: time.Second})).Agent(cfg)
			if tt.fails != "" {
				if err == nil || !strings.Contains(err.Error(), tt.fails) {
					t.Errorf("got error %v, want %q in it", err, tt.fails)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			y := newAppTry(t, "go")
			y.works(t, a)
			warned := ""
			for _, e := range y.of(agent.EventProgress, "") {
				warned += e.Text
			}
			if !strings.Contains(warned, tt.warns) || tt.warns == "" && warned != "" {
				t.Errorf("warned was %q, want %q", warned, tt.warns)
			}
		})
	}
	t.Run("missing", func(t *testing.T) {
		t.Setenv("XDG_CACHE_HOME", t.TempDir())
		h := newHost(0)
		if _, err := h.Agent(Config{Path: filepath.Join(t.TempDir(), "codex")}); err == nil {
			t.Error("a Codex that is not there was found")
		}
	})
}
