package attempt

import (
	"testing"

	"github.com/plait-run/plait/internal/agent"
)

// TestSummaryOf: a summary is kept whole, but for front matter that it begins with.
func TestSummaryOf(t *testing.T) {
	for name, tt := range map[string]struct{ output, want string }{
		"plain": {"It is half done.\n", "It is half done."},
		"with a rule": {"# Done\n\nThe parser.\n\n---\n\n# Left\n\nThe printer.",
			"# Done\n\nThe parser.\n\n---\n\n# Left\n\nThe printer."},
		"front matter":            {"---\n$status: done\nn: 1\n---\n\nIt is half done.", "It is half done."},
		"front matter and a rule": {"---\n$status: done\n---\nOne\n\n---\n\nTwo", "One\n\n---\n\nTwo"},
		"begins with a rule":      {"---\n\nIt is half done.", "---\n\nIt is half done."},
	} {
		if got := summaryOf(agent.Result{Output: []byte(tt.output)}); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}
