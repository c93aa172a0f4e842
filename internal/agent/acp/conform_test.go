package acp

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/agent/host"
	"github.com/plait-run/plait/internal/agent/sandbox"
	"github.com/plait-run/plait/internal/agent/scripted"
	"github.com/plait-run/plait/internal/testing/agenttest"
)

const (
	noSteer = "the protocol has no way to add to a prompt that is being answered"
	noFork  = "the protocol forks whole sessions at most"
	noAsk   = "it does not ask before everything it does: without a sandbox it is not started"
	noTurn  = "it ends its turn when a person says no, and the attempt is refused; see testAsks"
	minute  = "a session that is loaded in the minute in which it began is lost"
	titled  = "it asks its model for a title too, which counts"
	later   = "it writes its session down a moment later"
	shown   = "it shows what a command gave in a terminal of its client's, and Plait offers none"
)

// lacks are the cases of the suite that agents cannot show: under "" for all of them, under a name for one.
var lacks = map[string]map[string]string{
	"": {
		"DeniedReason": "the protocol's answer to a question has no words",
		"Edited":       "the protocol's answer to a question has no input",
		"Steered":      noSteer, "SteeredLate": noSteer, "SteeredInVain": noSteer,
		"Forked": noFork, "ForkedAtTurn": noFork,
	},
	"copilot": {
		"Denied":          noTurn,
		"KilledInCommand": later + "; see TestCopilotKilled, which waits for that",
		"KilledInAnswer":  later + ": whether a cut prompt is in it depends on the moment",
	},
	"opencode":   {"Usage": titled, "Denied": noTurn},
	"claude-acp": {"Usage": titled},
	"gemini": {
		"Items":           "it tells what a command gave to its model only",
		"Odd":             "it takes this text for a loop, and stops",
		"Continued":       minute + "; see testTurn, which waits for the next",
		"KilledInCommand": minute,
	},
	"qwen": {
		"Usage":  "it asks its model what to remember and to suggest too, which counts",
		"Denied": noTurn,
		"Cut":    "it asks its model itself to go on where an answer was cut off",
	},
	"kimi":      {"KilledInCommand": later, "KilledInAnswer": later},
	"codex-acp": {"Items": shown, "Odd": shown},
}

// asking are the cases that need an agent that asks a person.
var asking = []string{"Approved", "Denied", "AskFails", "AskCancelled", "AskWaits"}

func TestCopilotConformance(t *testing.T) {
	need(t, "copilot")
	conforms(t, "copilot")
}

// conforms runs the suite with a real agent, in a sandbox.
func conforms(t *testing.T, kind string) {
	needSandbox(t)
	bin, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cannot := maps.Clone(lacks[""])
	maps.Copy(cannot, lacks[kind])
	k, _ := Named(kind)
	for _, name := range asking {
		if k.Silent {
			cannot[name] = noAsk
		}
	}
	var quiet time.Duration
	if kind != "copilot" {
		quiet = 15 * time.Second // scripts take long to start
	}
	agenttest.Run(t, agenttest.Config{
		Said:  func(raw []byte) []byte { return said(k, raw) },
		Lacks: cannot, Quiet: quiet,
		Model: func(t *testing.T, m agenttest.Model) agent.Agent {
			home := t.TempDir()
			env := map[string]string{"PATH": os.Getenv("PATH"), "HOME": home}
			h := host.New(host.Config{Config: sandbox.Config{Getenv: func(k string) string { return env[k] },
				Forward: []string{bin, "gateway-forward"}, Hide: []string{filepath.Join(home, "record")}},
				Grace: 500 * time.Millisecond})
			if m.Asks {
				h.Sandbox.Bwrap = "" // in a sandbox nothing needs approval
			}
			a, err := New(h, Config{Kind: kind, Model: scripted.Model, Endpoint: m.URL, Deliver: []string{bin, "deliver"},
				Terms: host.Terms{Env: map[string]string{"HOME": home}}})
			if err != nil {
				t.Fatal(err)
			}
			return a
		},
	})
}

// said joins what an agent says, which the protocol only has in pieces.
func said(k Kind, raw []byte) []byte {
	var all []byte
	own := func(text string) bool {
		return k.Notice != nil && k.Notice.MatchString(text) || k.Again != nil && k.Again.MatchString(text)
	}
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
			!own(m.Params.Update.Content.Text) {
			all = append(all, m.Params.Update.Content.Text...)
		}
	}
	return all
}
