package command_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/agent/command"
	"github.com/plait-run/plait/internal/testing/agenttest"
)

func TestConformance(t *testing.T) {
	agenttest.Run(t, agenttest.Config{
		Exact: true,
		New: func(t *testing.T, s agenttest.Script) agent.Agent {
			said := filepath.Join(t.TempDir(), "said")
			if err := os.WriteFile(said, s.Text, 0o600); err != nil {
				t.Fatal(err)
			}
			// The program is a sh that prints the text and execs what comes next;
			// a stubborn one stays, and ignores signals too.
			var then []string
			switch s.End {
			case agenttest.Fails:
				then = agenttest.Fake("exit", "3")
			case agenttest.Hangs:
				then = agenttest.Fake("mute")
			case agenttest.Stubborn:
				then = agenttest.Fake("mute", "stubborn")
			case agenttest.Leaves:
				then = agenttest.Fake("daemon", "clear", "quiet")
			default:
				then = []string{"true"}
			}
			script := `f=$1; shift; trap '' INT TERM; cat "$f"; "$@"`
			if s.End != agenttest.Stubborn {
				script = `f=$1; shift; cat "$f"; exec "$@"`
			}
			return mustNew(t, command.Config{
				Command: append([]string{"sh", "-c", script, "sh", said}, then...),
				Grace:   200 * time.Millisecond,
			})
		},
	})
}

func mustNew(t *testing.T, cfg command.Config) *command.Agent {
	t.Helper()
	a, err := command.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return a
}
