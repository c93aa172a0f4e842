package replay_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/agent/replay"
)

// TestInside reads recordings with a program of the attempt, which sees other files than this process.
func TestInside(t *testing.T) {
	tree := t.TempDir()
	for name, text := range map[string]string{"mine.json": `{"attempts": [{"role": "one", "output": "answer"}]}`,
		"hidden.json": `{"attempts": [{"role": "one", "output": "canary"}]}`, "odd.json": `{"canary": 1}`} {
		if err := os.WriteFile(filepath.Join(tree, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	req := agent.Request{Place: agent.Place{Role: "one", Try: 1}, Dir: tree}
	req.Wrap = func(path string, args []string, _ agent.Needs) (string, []string) {
		return "/bin/sh", append([]string{"-c", `case "$*" in *hidden*) echo "there is none" >&2; exit 1;; esac; exec ` +
			`"$0" ` +
			`"$@"`, path}, args...)
	}
	for name, want := range map[string]string{"mine.json": "answer", "hidden.json": "there is none",
		"odd.json":    "not a recording",
		"absent.json": "No such file"} {
		got, err := replay.Inside(name).Run(t.Context(), req, ignore)
		said := string(got.Output)
		if f := new(agent.Failure); errors.As(err, &f) {
			said = f.Message
			if !f.Final {
				t.Errorf("%s: it is tried again", name)
			}
		} else if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if !strings.Contains(said, want) || strings.Contains(said, "canary") {
			t.Errorf("%s: got %q, want %q", name, said, want)
		}
	}
}
