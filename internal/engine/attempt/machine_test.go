package attempt

import (
	"testing"

	"github.com/plait-run/plait/internal/agent"
)

// TestBlameLimit: an agent that used up one of its limits is at fault, not its machine, if its program broke.
func TestBlameLimit(t *testing.T) {
	const spent = "out of memory: limit 4.0 GiB"
	for _, tt := range []struct {
		fail  *agent.Failure
		spent string
		want  string
	}{
		{agent.OfMachine("tests exited with code 137"), spent, "out of memory: limit 4.0 GiB: tests exited with code 137"},
		{agent.Final("tests exited with code 1"), "", "tests exited with code 1"},
		{&agent.Failure{Kind: agent.Cancelled, Message: "stopped"}, spent, "stopped"},
	} {
		blameLimit(tt.fail, tt.spent)
		if tt.fail.Message != tt.want || tt.fail.Machine {
			t.Errorf("%+v", tt.fail)
		}
	}
}
