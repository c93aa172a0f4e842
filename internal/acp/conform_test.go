package acp

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/agent/agenttest"
	"github.com/plait-run/plait/internal/sandbox"
	"github.com/plait-run/plait/internal/scripted"
)

// TestCopilotConformance runs the suite with the real Copilot, behind a wall.
func TestCopilotConformance(t *testing.T) {
	need(t, "copilot")
	needWall(t)
	bin, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	const noSteer = "the protocol has no way to add to a prompt that is being answered"
	const noFork = "Copilot offers no fork of a session over the protocol"
	agenttest.Run(t, agenttest.Config{
		Said: said,
		Lacks: map[string]string{
			"Denied":       "Copilot ends its turn when a person says no, and the attempt is refused; see TestCopilotAsks",
			"DeniedReason": "the protocol's answer to a question has no words",
			"Edited":       "the protocol's answer to a question has no input",
			"Steered":      noSteer, "SteeredLate": noSteer, "SteeredInVain": noSteer,
			"Forked": noFork, "ForkedAtTurn": noFork,
			"KilledInCommand": "Copilot writes its session down a moment later; see TestCopilotKilled, which waits for that",
			"KilledInAnswer":  "Copilot writes its session down a moment later: whether a cut prompt is in it depends on the moment",
		},
		Model: func(t *testing.T, m agenttest.Model) agent.Agent {
			home := t.TempDir()
			env := map[string]string{"PATH": os.Getenv("PATH"), "HOME": home}
			h := NewHost(HostConfig{Config: sandbox.Config{Getenv: func(k string) string { return env[k] },
				Forward: []string{bin, "gateway-forward"}, Hide: []string{filepath.Join(home, "record")}},
				Deliver: []string{bin, "deliver"}, Grace: 500 * time.Millisecond})
			if m.Asks {
				h.box.Bwrap = "" // behind a wall nothing is asked for
			}
			a, err := h.Agent(Config{Kind: "copilot", Model: scripted.Model, Endpoint: m.URL,
				Env: map[string]string{"HOME": home}})
			if err != nil {
				t.Fatal(err)
			}
			return a
		},
	})
}

// said puts together what Copilot says: the protocol has it in pieces only.
func said(raw []byte) []byte {
	var all []byte
	k, _ := Named("copilot")
	for line := range bytes.Lines(raw) {
		var m struct {
			Params struct {
				Update struct {
					Kind    string `json:"sessionUpdate"`
					Content struct{ Text string }
				}
			}
		}
		if json.Unmarshal(line, &m) == nil && m.Params.Update.Kind == "agent_message_chunk" &&
			!k.Notice.MatchString(m.Params.Update.Content.Text) {
			all = append(all, m.Params.Update.Content.Text...)
		}
	}
	return all
}
