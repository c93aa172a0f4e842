package flow_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/flow"
)

func TestVariables(t *testing.T) {
	a := flow.Agent{Kind: "codex", Pass: []string{"A", "B*"}, Env: map[string]string{"C": "text"}, ModelServer: flow.ModelServer{KeyEnv: "D"},
		Sandbox: &flow.Sandbox{Pass: []string{"E"}, Env: map[string]string{"F": ""}},
		Config: map[string]any{"model_providers": map[string]any{"x": map[string]any{"env_key": "G", "base_url": "http://x",
			"env_http_headers": map[string]any{"X-Key": "H"}}}, "mcp_servers.y.env_vars": []any{"I", 1.0, true}}}
	want := []flow.Variable{{"pass", "A"}, {"pass", "B*"}, {"env", "C"}, {"sandbox.pass", "E"}, {"sandbox.env", "F"}, {"keyEnv", "D"},
		{"config", "I"}, {"config", "model_providers"}, {"config", "x"}, {"config", "base_url"}, {"config", "env_http_headers"},
		{"config", "H"}, {"config", "env_key"}, {"config", "G"}}
	if diff := cmp.Diff(want, a.Variables()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	a.Kind = "model" // its config is the body of requests
	if diff := cmp.Diff(want[:6], a.Variables()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestPasses(t *testing.T) {
	a := flow.Agent{Kind: "claude", Pass: []string{"SSH_*"}, Sandbox: &flow.Sandbox{Pass: []string{"E"}}}
	for name, want := range map[string]bool{"SSH_AUTH_SOCK": true, "SSH": false, "E": true, "EE": false, "": false} {
		if got := a.Passes(name); got != want {
			t.Errorf("%q: %t", name, got)
		}
	}
}
