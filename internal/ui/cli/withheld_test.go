package cli

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/agent/acp"
	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/sys/proc"
)

// TestWithheld checks that no kind of agent can be made with a variable that is withheld, however it is named, that a
// worker records this as a refusal, and that hosts of agents read none.
func TestWithheld(t *testing.T) {
	a := &app{program: Program{Name: "plaitd", Withheld: []string{"PG", "AWS_"}},
		getenv: func(name string) string { return "value of " + name }}
	pass := func(names ...string) flow.Agent {
		return flow.Agent{Kind: "command", Command: []string{"env"}, Pass: names}
	}
	codex := func(config map[string]any) flow.Agent { return flow.Agent{Kind: "codex", Config: config} }
	for name, def := range map[string]flow.Agent{
		"pass":           pass("A", "PGPASSWORD"),
		"a pattern":      pass("PGP*"),
		"a wide pattern": pass("P*"),
		"the widest":     pass("*"),
		"env":            {Kind: "acp", Agent: "gemini", Env: map[string]string{"AWS_REGION": "x"}},
		"sandbox.pass":   {Kind: "claude", Sandbox: &flow.Sandbox{Pass: []string{"AWS_*"}}},
		"sandbox.env":    {Kind: "model", Sandbox: &flow.Sandbox{Env: map[string]string{"PGUSER": ""}}},
		"keyEnv":         {Kind: "model", ModelServer: flow.ModelServer{KeyEnv: "PGPASSWORD"}},
		"env_key": codex(map[string]any{"model_providers": map[string]any{
			"x": map[string]any{"env_key": "PGPASSWORD"}}}),
		"a dotted setting": codex(map[string]any{"model_providers.x.env_key": "PGPASSWORD"}),
		"env_http_headers": codex(map[string]any{"model_providers": map[string]any{
			"x": map[string]any{"env_http_headers": map[string]any{"X": "AWS_X"}}}}),
		"a server": codex(map[string]any{"mcp_servers": map[string]any{
			"x": map[string]any{"bearer_token_env_var": "PGPASSWORD"}}}),
		"a server's list": codex(map[string]any{"mcp_servers": map[string]any{
			"x": map[string]any{"env_vars": []any{"PGPASSWORD"}}}}),
		"a server's own": codex(map[string]any{"mcp_servers": map[string]any{
			"x": map[string]any{"env": map[string]any{"PGHOST": "x"}}}}),
		"codex-exec": {Kind: "codex-exec", Config: map[string]any{"x": "AWS_SESSION_TOKEN"}},
	} {
		a.worker = ""
		if _, err := a.newAgent("", def, control.AgentOptions{}); err == nil || !strings.Contains(err.Error(),
			"not given to agents") {
			t.Errorf("%s: %v", name, err)
		}
		a.worker = "build"
		made, err := a.newAgent("", def, control.AgentOptions{})
		if err != nil {
			t.Errorf("%s: on a worker: %v", name, err)
			continue
		}
		var f *agent.Failure
		if _, err := made.Run(t.Context(), agent.Request{}, nil); !errors.As(err, &f) || f.Kind != agent.Refused || !f.Final {
			t.Errorf("%s: on a worker: %v", name, err)
		}
	}
	a.worker = ""
	for _, def := range []flow.Agent{pass("PATHS", "AX*", "AWSKEY"), pass("pgpassword")} {
		if _, err := a.newAgent("", def, control.AgentOptions{}); err != nil {
			t.Errorf("%v: %v", def.Pass, err)
		}
	}
	if got := a.secret("PGPASSWORD") + a.secret("AWS_X"); got != "" {
		t.Errorf("a host of agents reads %q", got)
	}
	if got := a.secret("OPENAI_API_KEY"); got != "value of OPENAI_API_KEY" {
		t.Errorf("a host of agents reads %q", got)
	}
}

// TestNothingBuiltInIsWithheld checks what agents get without being told to.
func TestNothingBuiltInIsWithheld(t *testing.T) {
	a := &app{program: Program{Withheld: []string{"PLAIT_", "PG", "AWS_", "TEMPORAL_"}}}
	for _, name := range []string{"PGPASSWORD", "AWS_SECRET_ACCESS_KEY", "TEMPORAL_API_KEY", "PLAIT_STORE", "PLAIT_HOME"} {
		t.Setenv(name, "canary")
	}
	names := []string{}
	for _, kv := range proc.Environ(nil, nil, nil, "") {
		name, _, _ := strings.Cut(kv, "=")
		names = append(names, name)
	}
	for _, k := range acp.Kinds {
		names = append(names, k.Tokens...)
	}
	for _, name := range names {
		if a.withholds(name) {
			t.Errorf("agents get %s", name)
		}
	}
}

// TestKeysOfPrograms asks a program for a key again in each process: it has the whole environment, and runs outside.
func TestKeysOfPrograms(t *testing.T) {
	home := t.TempDir()
	t.Setenv("PGPASSWORD", "canary")
	script := filepath.Join(home, "key")
	if err := os.WriteFile(script,
		[]byte("#!/bin/sh\necho x >> "+home+"/runs\necho $PGPASSWORD-$(grep -c x "+home+"/runs)\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"canary-1", "canary-2"} {
		a := &app{program: Program{Withheld: []string{"PG"}}, getenv: func(string) string { return "" }}
		a.keys.read, a.keys.values, a.keys.commands = true, map[string]string{}, map[string][]string{"MODEL_KEY": {script},
			"PGPASSWORD": {script}}
		if got := a.secret("MODEL_KEY"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if got := a.secret("PGPASSWORD"); got != "" {
			t.Errorf("a key that is withheld is %q", got)
		}
	}
}
