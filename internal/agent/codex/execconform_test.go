package codex

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/testing/agenttest"
)

// A homed agent gives each request its own home.
type homed struct {
	agent.Agent
	t *testing.T
}

func (h homed) Run(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
	req.Home = h.t.TempDir()
	return h.Agent.Run(ctx, req, emit)
}

// TestExecConformance runs the suite with the real Codex, whose model says the
// script's text, and with a fake one that ignores signals.
func TestExecConformance(t *testing.T) {
	h, _ := needCodex(t)
	const noPerson = "codex exec asks nobody"
	agenttest.Run(t, agenttest.Config{
		Model: func(t *testing.T, m agenttest.Model) agent.Agent {
			a, err := h.ExecAgent(endpoint(m.URL))
			if err != nil {
				t.Fatal(err)
			}
			return a
		},
		Lacks: map[string]string{
			"Approved": noPerson, "Denied": noPerson, "DeniedReason": noPerson, "AskFails": noPerson,
			"AskCancelled": noPerson, "AskWaits": noPerson, "Edited": noPerson,
			"Steered": "codex exec reads one prompt", "SteeredInVain": "codex exec reads one prompt",
			"SteeredLate": "codex exec reads one prompt",
			"Forked":      "a session whose turn is not known is not forked",
		},
		New: func(t *testing.T, s agenttest.Script) agent.Agent {
			said, err := json.Marshal(string(s.Text))
			if err != nil {
				t.Fatal(err)
			}
			text := string(said)
			if s.End == agenttest.Stubborn {
				// The real one never ignores SIGINT.
				return homed{fakeCodex(t, sayStart+"cat <<'EOF'\n"+`{"type":"item.completed","item":{"id":"m",`+
					`"type":"agent_message","text":`+text+"}}\nEOF\n"+
					"trap '' INT TERM; while :; do sleep 1; done"), t}
			}
			steps := "  - items:\n    - answer: " + text + "\n"
			switch s.End {
			case agenttest.Fails:
				steps = "  - items:\n    - say: " + text + "\n    - run: 'true'\n  - fail: {status: 500}\n"
			case agenttest.Hangs:
				// The model says something, and then nothing more.
				steps = "  - items:\n    - say: " + text + "\n    - run: 'true'\n  - silent: true\n"
			case agenttest.Leaves:
				steps = "  - items:\n    - run: setsid sleep 60 >/dev/null 2>&1 &\n  - items:\n    - answer: " + text +
					"\n"
			}
			return homed{scriptedExec(t, "about: conformance\nturns:\n- steps:\n"+steps, nil), t}
		},
	})
}
