package codex

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/agent/host"
	"github.com/plait-run/plait/internal/agent/sandbox"
	"github.com/plait-run/plait/internal/testing/agenttest"
)

// An execTry is a request and what was seen of it.
type execTry struct {
	req      agent.Request
	raw      bytes.Buffer
	stderr   bytes.Buffer
	requests bytes.Buffer
	events   []agent.Event
	started  []agent.Process
}

func newExecTry(t *testing.T, prompt string) *execTry {
	t.Helper()
	y := new(execTry)
	y.req = newRequest(t, "exectest", prompt, agent.Desk{Raw: &y.raw, Stderr: &y.stderr, Requests: &y.requests})
	y.req.Started = func(p agent.Process) { y.started = append(y.started, p) }
	return y
}

func (y *execTry) run(ctx context.Context, t *testing.T, a *ExecAgent) (agent.Result, error) {
	t.Helper()
	res, err := a.Run(ctx, y.req, func(e agent.Event) error { y.events = append(y.events, e); return nil })
	if left := agenttest.Tagged(y.req.Tag); len(left) > 0 {
		t.Errorf("processes %v are left", left)
	}
	return res, err
}

// fails runs the agent and returns its failure, which must be of a kind.
func (y *execTry) fails(t *testing.T, a *ExecAgent, kind string) *agent.Failure {
	t.Helper()
	res, err := y.run(t.Context(), t, a)
	var f *agent.Failure
	if !errors.As(err, &f) {
		t.Fatalf("got result %+v and error %v, want a failure", res, err)
	}
	if f.Kind != kind || f.Message == "" {
		t.Errorf("got failure %+v, want kind %s", f, kind)
	}
	return f
}

// newHost returns a host without an environment.
func newHost(grace time.Duration) *Host {
	none := sandbox.Config{Getenv: func(string) string { return "" }}
	return NewHost(host.New(host.Config{Config: none, Grace: grace}))
}

// fakeCodex returns an agent whose Codex is a shell script.
func fakeCodex(t *testing.T, script string) *ExecAgent {
	t.Helper()
	path := filepath.Join(t.TempDir(), "codex")
	text := "#!/bin/sh\nif [ \"$1\" = --version ]; then echo codex-cli " + Version + "; exit; fi\n" + script + "\n"
	// A program that is open for writing in a child that is being forked cannot be run.
	syscall.ForkLock.RLock()
	err := os.WriteFile(path, []byte(text), 0o700)
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
	h := newHost(300 * time.Millisecond)
	a, err := h.ExecAgent(Config{Path: path, Env: map[string]string{apiKey: "key"}})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

const (
	sayStart = `cat >/dev/null; echo '{"type":"thread.started","thread_id":"01a1fdfc-de40-78c3-b14e-f798963e5525"}'; echo '{"type":"turn.started"}'
`
	sayDone = `
echo '{"type":"item.completed","item":{"id":"item_9","type":"agent_message","text":"all done"}}'
echo '{"type":"turn.completed","usage":{"input_tokens":10,"cached_input_tokens":1,"output_tokens":5,"reasoning_output_tokens":2}}'
`
)

func TestExecOddStreams(t *testing.T) {
	tests := []struct {
		name, script string
		want         string // the answer
		kind, says   string // of the failure
	}{
		{"plain", sayStart + sayDone, "all done", "", ""},
		{"unknown things", sayStart + `echo '{"type":"item.completed","item":{"id":"x","type":"telepathy",` +
			`"text":7}}'; echo '{"type":"whatever"}'; echo '[1]'; echo 'not json'; echo; echo ` +
			`'{"type":"item.completed"}'` + sayDone, "all done", "", ""},
		{"fields of another type", sayStart + `echo '{"type":"item.completed","item":{"id":"m",` +
			`"type":"agent_message","text":"first","exit_code":"none","changes":{}}}'` + sayDone, "all done", "", ""},
		{"a line of 6 MB", sayStart + `printf '{"type":"item.completed","item":{"id":"c","type":"command_execution",` +
			`"command":"x","status":"completed","exit_code":0,"aggregated_output":"'; head -c 6300000 /dev/zero | tr ` +
			`'\0' x; echo '"}}'` + sayDone, "all done", "", ""},
		{"a line of 17 MiB", sayStart + `printf '{"type":"item.completed","item":{"id":"c",` +
			`"type":"command_execution","aggregated_output":"'; head -c 17825792 /dev/zero | tr '\0' x; echo '"}}'` +
			sayDone, "all done", "", ""},
		{"no newline at the end", sayStart + `printf '{"type":"item.completed","item":{"id":"i",` +
			`"type":"agent_message","text":"x"}}\n{"type":"turn.completed"}'`, "x", "", ""},
		{"truncated", sayStart + `printf '{"type":"turn.comp'`, "", agent.Infra, "without finishing its turn"},
		{"nothing", `cat >/dev/null`, "", agent.Infra, "without finishing its turn"},
		{"exit 0 without an end", sayStart, "", agent.Infra, "without finishing its turn"},
		{"done, but exit 101", sayStart + sayDone + `echo "thread 'main' panicked at src/main.rs" >&2; exit 101`, "",
			agent.Infra, "exit code 101: thread 'main' panicked"},
		{"exit 1, said nothing", sayStart + "exit 1", "", agent.Infra, "exit code 1 and said nothing"},
		{"turn failed", sayStart + `echo '{"type":"error","message":"boom"}'; echo '{"type":"turn.failed",` +
			`"error":{"message":"boom"}}'; exit 1`, "", agent.Infra, "the turn failed: boom"},
		{"turn failed, exit 0", sayStart + `echo '{"type":"turn.failed","error":{"message":"bang"}}'`, "", agent.Infra,
			"bang"},
		{"an error that passes", sayStart + `echo '{"type":"error","message":"Reconnecting... 1/5 (x)"}'` + sayDone,
			"all done", "", ""},
		{"stdout closed early", sayStart + sayDone + `exec >&-; exit 3`, "", agent.Infra, "exit code 3"},
		{"stdin not read", `echo '{"type":"thread.started","thread_id":"01a1fdfc-de40-78c3-b14e-f798963e5525"}'` +
			sayDone, "all done", "", ""},
		{"two writers", `cat >/dev/null; echo 'Error: thread/resume: thread/resume failed: thread x already has an ` +
			`active writer (code -32600)' >&2; exit 1`, "", agent.Infra, "being written by another process"},
		{"bad flag", `cat >/dev/null; echo "error: unexpected argument '--x' found" >&2; exit 2`, "", agent.Infra,
			"could not start"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a, y := fakeCodex(t, tt.script), newExecTry(t, strings.Repeat("prompt ", 20_000))
			if tt.kind != "" {
				if f := y.fails(t, a, tt.kind); !strings.Contains(f.Message, tt.says) {
					t.Errorf("got message %q, want %q in it", f.Message, tt.says)
				}
				return
			}
			res, err := y.run(t.Context(), t, a)
			if err != nil || string(res.Output) != tt.want {
				t.Fatalf("got output %q and error %v, want %q", res.Output, err, tt.want)
			}
			if len(y.started) != 1 || res.Exit == nil || *res.Exit != 0 ||
				res.Sandbox != "workspace-write (asked for)" {
				t.Errorf("got %d starts and result %+v", len(y.started), res)
			}
			if got := strings.Count(y.raw.String(), "\n"); got < 2 {
				t.Errorf("the raw log has %d lines", got)
			}
			for _, e := range y.events {
				if len(e.Output) > maxItemOutput+8 {
					t.Errorf("an event holds %d bytes of output", len(e.Output))
				}
			}
		})
	}
}

func TestExecEvents(t *testing.T) {
	script := sayStart + `
echo '{"type":"item.completed","item":{"id":"item_0","type":"error","message":"old setting"}}'
echo '{"type":"item.completed","item":{"id":"item_1","type":"error","message":"old setting"}}'
echo '{"type":"item.completed","item":{"id":"item_2","type":"reasoning","text":"hm"}}'
echo '{"type":"item.completed","item":{"id":"item_3","type":"agent_message","text":"I look."}}'
echo '{"type":"error","message":"Reconnecting... 1/1 (cut)"}'
echo '{"type":"item.completed","item":{"id":"item_4","type":"reasoning","text":"hm"}}'
echo '{"type":"item.completed","item":{"id":"item_5","type":"agent_message","text":"I look."}}'
echo '{"type":"item.started","item":{"id":"item_6","type":"command_execution","command":"ls","aggregated_output":"","exit_code":null,"status":"in_progress"}}'
echo '{"type":"item.updated","item":{"id":"item_6","type":"command_execution","command":"ls","aggregated_output":"one ","exit_code":null,"status":"in_progress"}}'
echo '{"type":"item.updated","item":{"id":"item_6","type":"command_execution","command":"ls","aggregated_output":"one two","exit_code":null,"status":"in_progress"}}'
echo '{"type":"item.completed","item":{"id":"item_6","type":"command_execution","command":"ls","aggregated_output":"one two","exit_code":3,"status":"failed"}}'
echo '{"type":"item.completed","item":{"id":"item_7","type":"agent_message","text":"I look."}}'
echo '{"type":"item.completed","item":{"id":"item_8","type":"file_change","changes":[{"path":"/w/a","kind":"add"}],"status":"completed"}}'
echo '{"type":"item.completed","item":{"id":"item_9","type":"mcp_tool_call","server":"lab","tool":"echo","arguments":{"t":1},"result":{"x":2},"error":null,"status":"completed"}}'
echo '{"type":"item.updated","item":{"id":"item_10","type":"todo_list","items":[{"text":"a","completed":true},{"text":"b","completed":false}]}}'
echo '{"type":"item.started","item":{"id":"item_11","type":"command_execution","command":"sleep 9","aggregated_output":"","status":"in_progress"}}'
echo '{"type":"turn.completed","usage":{"input_tokens":10,"cached_input_tokens":1,"output_tokens":5,"reasoning_output_tokens":2}}'`
	y := newExecTry(t, "p")
	if _, err := y.run(t.Context(), t, fakeCodex(t, script)); err != nil {
		t.Fatal(err)
	}
	three := 3
	want := []agent.Event{
		{Kind: agent.EventProgress, ID: "item_0", Text: "Codex warns: old setting"},
		{Kind: agent.EventThought, ID: "item_2", Phase: "completed", Text: "hm"},
		{Kind: agent.EventMessage, ID: "item_3", Phase: "completed", Text: "I look."},
		{Kind: agent.EventError, Text: "Reconnecting... 1/1 (cut)", WillRetry: true},
		{Kind: agent.EventCommand, ID: "item_6", Phase: "started", Text: "ls"},
		{Kind: agent.EventCommand, ID: "item_6", Phase: "updated", Text: "ls", Output: "one "},
		{Kind: agent.EventCommand, ID: "item_6", Phase: "updated", Text: "ls", Output: "two"},
		{Kind: agent.EventCommand, ID: "item_6", Phase: "failed", Text: "ls", Output: "one two", Exit: &three},
		{Kind: agent.EventMessage, ID: "item_7", Phase: "completed", Text: "I look."},
		{Kind: agent.EventFile, ID: "item_8", Phase: "completed", Text: "/w/a",
			Files: []agent.File{{Path: "/w/a", Change: "add"}}},
		{Kind: agent.EventTool, ID: "item_9", Phase: "completed", Text: "lab/echo", Output: `{"x":2}`,
			Detail: json.RawMessage(`{"t":1}`), Line: 16},
		{Kind: agent.EventPlan, ID: "item_10", Phase: "updated", Text: "[x] a\n[ ] b",
			Detail: json.RawMessage(`[{"text":"a","completed":true},{"text":"b","completed":false}]`)},
		{Kind: agent.EventCommand, ID: "item_11", Phase: "started", Text: "sleep 9"},
		{Kind: agent.EventCommand, ID: "item_11", Phase: "failed", Text: "sleep 9"},
		{Kind: agent.EventUsage, Usage: &agent.Usage{InputTokens: 10, CachedInputTokens: 1, OutputTokens: 5,
			ReasoningTokens: 2}},
	}
	if diff := cmp.Diff(want, y.events); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestExecDeathBySignal(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGSEGV, syscall.SIGABRT,
		syscall.SIGHUP} {
		for phase, before := range map[string]string{"before its session": "cat >/dev/null", "in its turn": sayStart,
			"after its turn": sayStart + sayDone} {
			t.Run(fmt.Sprintf("%v %s", sig, phase), func(t *testing.T) {
				a, y := fakeCodex(t, before+fmt.Sprintf("\nkill -%d $$; sleep 5", int(sig))), newExecTry(t, "p")
				f := y.fails(t, a, agent.Infra)
				if !strings.Contains(f.Message, execSignal(sig)) || f.Final {
					t.Errorf("got %+v, want the name of %v and not final", f, sig)
				}
			})
		}
	}
}

func TestExecLimits(t *testing.T) {
	t.Run("silent start", func(t *testing.T) {
		a, y := fakeCodex(t, "exec sleep 20"), newExecTry(t, "p")
		a.startup = 200 * time.Millisecond
		if f := y.fails(t, a, agent.Infra); !strings.Contains(f.Message, "did not begin its session") {
			t.Errorf("got %+v", f)
		}
	})
	t.Run("idle", func(t *testing.T) {
		a, y := fakeCodex(t, sayStart+"exec sleep 20"), newExecTry(t, "p")
		y.req.Idle = 200 * time.Millisecond
		if f := y.fails(t, a, agent.TimedOut); !strings.Contains(f.Message, "idle limit") {
			t.Errorf("got %+v", f)
		}
	})
	t.Run("not idle while a command runs", func(t *testing.T) {
		a, y := fakeCodex(t, sayStart+
			`echo '{"type":"item.started","item":{"id":"c","type":"command_execution","command":"make"}}'; sleep 1
echo '{"type":"item.completed","item":{"id":"c","type":"command_execution","command":"make","exit_code":0,"status":"completed"}}'`+sayDone), newExecTry(t, "p")
		y.req.Idle = 300 * time.Millisecond
		if _, err := y.run(t.Context(), t, a); err != nil {
			t.Error(err)
		}
	})
	t.Run("wall", func(t *testing.T) {
		a, y := fakeCodex(t, sayStart+"exec sleep 20"), newExecTry(t, "p")
		y.req.Timeout = 200 * time.Millisecond
		if f := y.fails(t, a, agent.TimedOut); !strings.Contains(f.Message, "200ms") {
			t.Errorf("got %+v", f)
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		a, y := fakeCodex(t, sayStart+"trap '' INT; sleep 20"), newExecTry(t, "p")
		ctx, cancel := context.WithCancelCause(t.Context())
		y.req.Started = func(agent.Process) { cancel(errors.New("the person said so")) }
		_, err := y.run(ctx, t, a)
		var f *agent.Failure
		if !errors.As(err, &f) || f.Kind != agent.Cancelled || !strings.Contains(f.Message, "the person said so") {
			t.Errorf("got %v", err)
		}
	})
}

func TestExecArguments(t *testing.T) {
	args := filepath.Join(t.TempDir(), "args")
	a, y := fakeCodex(t, `for x; do printf '%s\n' "$x"; done >`+args+"\n"+sayStart+sayDone), newExecTry(t, "p")
	a.cfg.Model, a.cfg.Effort = "big", "high"
	a.cfg.Config = map[string]any{
		"mcp_servers": map[string]any{"lab": map[string]any{"command": "/bin/x", "args": []any{"a b", 1},
			"env": map[string]any{"KEY": "secret-1"}}},
		"odd": map[string]any{"a.b": `quote " and 'this'` + "\nline", "n": 1.5},
	}
	y.req.Prompt = "the prompt is no argument"
	y.req.Schema, y.req.Shaped = json.RawMessage(`{"type":"object","properties":{"$status":{"enum":["done"]}},`+
		`"required":["$status"]}`), true
	if _, err := y.run(t.Context(), t, a); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(args)
	if err != nil {
		t.Fatal(err)
	}
	got := string(data)
	for _, want := range []string{
		"exec\n--json\n--skip-git-repo-check\n-C\n" + y.req.Dir + "\n-c\n",
		"-c\nmodel='big'\n", "model_reasoning_effort='high'\n", "mcp_servers.lab.args=['a b', 1]\n",
		"mcp_servers.lab.env.KEY='secret-1'\n",
		`odd={'a.b' = "quote \" and 'this'\nline", n = 1.5}` + "\n",
		"shell_environment_policy.inherit='core'\n", "shell_environment_policy.set.PLAIT_TAG='" + y.req.Tag + "'\n",
		"network.enabled=false\n", "'" + y.req.Desk.Artifacts + "' = 'write'", "':root' = 'read'",
		"--output-schema\n" + y.req.Home,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the arguments lack %q:\n%s", want, got)
		}
	}
	if strings.Contains(got, "the prompt") || !strings.HasSuffix(got, "\n-\n") {
		t.Errorf("the prompt must come through stdin:\n%s", got)
	}
	if log := y.requests.String(); strings.Contains(log, "secret-1") || !strings.Contains(log, `"prompt bytes":25`) ||
		strings.Count(log, "\n") != 1 {
		t.Errorf("got request log %s", log)
	}
}

func TestExecRolloutLink(t *testing.T) {
	// The agent plants a link at the path of the rollout's copy.
	victim := filepath.Join(t.TempDir(), "victim")
	if err := os.WriteFile(victim, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	y := newExecTry(t, "p")
	a := fakeCodex(t, sayStart+`ln -s `+victim+` `+y.req.Desk.Artifacts+`/rollout.jsonl
d=$CODEX_HOME/sessions/2026/11/21; mkdir -p $d
f=$d/rollout-2026-11-21T12-00-00-01a1fdfc-de40-78c3-b14e-f798963e5525.jsonl
echo '{"type":"turn_context","payload":{"turn_id":"t1","model":"m1","sandbox_policy":{"type":"read-only"}}}' >$f
echo '{"type":"token_usage_record","payload":{"turn_id":"t1","turn_token_usage":{"input_tokens":3,"output_tokens":4}}}' >>$f`+sayDone)
	res, err := y.run(t.Context(), t, a)
	if err != nil {
		t.Fatal(err)
	}
	if data, _ := os.ReadFile(victim); string(data) != "precious" {
		t.Errorf("the file behind the link was written: %q", data)
	}
	if res.Turn != "t1" || res.Model != "m1" || res.Sandbox != "read-only" ||
		res.Usage != (agent.Usage{InputTokens: 3, OutputTokens: 4}) {
		t.Errorf("got %+v", res)
	}
	kept, err := os.ReadFile(filepath.Join(y.req.Desk.Artifacts, "rollout.jsonl"))
	if err != nil || bytes.Count(kept, []byte("\n")) != 2 {
		t.Errorf("got rollout %q and error %v", kept, err)
	}
}

func TestExecEmitError(t *testing.T) {
	broken := errors.New("the record is full")
	a, y := fakeCodex(t, sayStart+sayDone+"exec sleep 20"), newExecTry(t, "p")
	_, err := a.Run(t.Context(), y.req, func(agent.Event) error { return broken })
	if !errors.Is(err, broken) {
		t.Errorf("got %v, want the error of emit", err)
	}
}
