package attempt

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/dag"
	"github.com/plait-run/plait/internal/housetest"
)

// What an agent can cause must not look like a fault of the record, which ends the run of all agents.

// TestCannotBeAsked checks that an agent is told no if what it asks has no canonical form.
func TestCannotBeAsked(t *testing.T) {
	for name, params := range map[string]string{
		"a large number":   `{"channel":1234567890123456789}`,
		"a key twice":      `{"a":1,"a":2}`,
		"half a character": `{"a":"\ud800"}`,
		"depth":            strings.Repeat("[", 100) + strings.Repeat("]", 100),
	} {
		k := &asker{e: newHouse(t, "", nil).Runner}
		act := agent.Action{Type: "tool_call", Tool: "send", Params: json.RawMessage(params)}
		said, err := k.ask(t.Context(), agent.Question{Action: act})
		if err != nil || said.Approved || !strings.HasPrefix(said.Text, "cannot ask for approval: ") {
			t.Errorf("%s: %+v, %v", name, said, err)
		}
	}
}

// TestCloneForgets checks that what attempts at one head did and heard does not count at another.
func TestCloneForgets(t *testing.T) {
	h := newHouse(t, "", nil)
	c, err := h.Thread(t.Context(), h.row)
	if err != nil {
		t.Fatal(err)
	}
	c.seen = &activityRecorder{}
	if n := c.Clone(); n.seen != nil || n.heard != nil || c.seen == nil {
		t.Errorf("%+v", n)
	}
}

// A traveller's sessions are one file, which hurt spoils.
type traveller struct {
	housetest.Role
	hurt func(t *testing.T, dir string)
	t    *testing.T
}

func (v traveller) SessionFiles(home, session string) (dir string, files []string) {
	dir = filepath.Join(home, "sessions")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		v.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, session), []byte("said"), 0o600); err != nil {
		v.t.Fatal(err)
	}
	v.hurt(v.t, dir)
	return dir, []string{session}
}

// TestSpoiltSession checks that a step counts even if its agent spoilt the session that would be kept with it.
func TestSpoiltSession(t *testing.T) {
	for name, tt := range map[string]struct {
		hurt func(t *testing.T, dir string)
		kept bool
	}{
		"whole": {func(*testing.T, string) {}, true},
		"gone":  {func(t *testing.T, dir string) { os.RemoveAll(dir) }, false},
		"huge":  {func(t *testing.T, dir string) { os.Truncate(filepath.Join(dir, "s"), 2<<30) }, false},
		"a directory": {func(t *testing.T, dir string) {
			os.Remove(filepath.Join(dir, "s"))
			os.MkdirAll(filepath.Join(dir, "s", "d"), 0o700)
		}, false},
		"a link that leads out": {func(t *testing.T, dir string) {
			os.Remove(filepath.Join(dir, "s"))
			os.Symlink("/etc/passwd", filepath.Join(dir, "s"))
		}, false},
	} {
		answer := housetest.Say(housetest.Status("done"))
		do := func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
			res, err := answer(ctx, req, emit)
			res.Session = "s"
			return res, err
		}
		h := newHouse(t, "", traveller{do, tt.hurt, t})
		h.cfg.Host.Home = t.TempDir()
		h.options = func(c *Thread) { c.Options.KeepFiles = true }
		after, err := h.Step(t.Context())
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		nodes := h.cfg.Record.Nodes()
		st, err := nodes.State(t.Context(), after.Head)
		if err != nil {
			t.Fatal(err)
		}
		d, err := nodes.Detail(t.Context(), st.Detail)
		if err != nil || (d.SessionFiles != dag.Hash{}) != tt.kept {
			t.Errorf("%s: %+v, %v", name, d, err)
		}
	}
}
