package claude

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/agent/host"
	"github.com/plait-run/plait/internal/agent/sandbox"
	"github.com/plait-run/plait/internal/testing/agenttest"
)

// TestConformance runs the suite with the real Claude Code, in a sandbox where one can be made.
func TestConformance(t *testing.T) {
	needClaude(t)
	agenttest.Run(t, agenttest.Config{
		Model: func(t *testing.T, m agenttest.Model) agent.Agent {
			bin, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			home := t.TempDir()
			env := map[string]string{"PATH": os.Getenv("PATH"), "HOME": home}
			h := host.New(host.Config{Config: sandbox.Config{Getenv: func(k string) string { return env[k] },
				Forward: []string{bin, "gateway-forward"}, Hide: []string{filepath.Join(home, "record")}},
				Grace: 500 * time.Millisecond})
			if m.Asks {
				h.Sandbox.Bwrap = "" // in a sandbox nothing needs approval
			}
			a, err := New(h, Config{Endpoint: strings.TrimSuffix(m.URL, "/v1"),
				Terms: host.Terms{Env: map[string]string{"HOME": home, "CLAUDE_CODE_MAX_RETRIES": "1"}}})
			if err != nil {
				t.Fatal(err)
			}
			return a
		},
	})
}
