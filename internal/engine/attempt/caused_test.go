package attempt

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/engine/evidence"
	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/testing/housetest"
)

// What an agent can cause must not look like a fault of the record, which ends the run of all agents.

// TestCannotBeAsked checks that an agent is told no if what it asks cannot be shown as it is.
func TestCannotBeAsked(t *testing.T) {
	for name, act := range map[string]agent.Action{
		"a command": {Type: "command", Command: "rm \xff"},
		"params":    {Type: "tool_call", Tool: "send", Params: json.RawMessage("{\"a\":\"\xff\"}")},
	} {
		k := &gatekeeper{e: newHouse(t, "", nil).Runner}
		said, err := k.ask(t.Context(), agent.Question{Action: act})
		if err != nil || said.Approved || !strings.HasPrefix(said.Text, "cannot ask for approval: ") {
			t.Errorf("%s: %+v, %v", name, said, err)
		}
	}
}

// TestAskedAsSpelled checks that a person is asked about params without a canonical form too: they are shown as they
// were spelled, the digest covers exactly that, and no other input can be given.
func TestAskedAsSpelled(t *testing.T) {
	deep := strings.Repeat("[", 100) + strings.Repeat("]", 100)
	digests := map[dag.Hash]string{}
	for _, params := range []string{
		`{"channel": 1234567890123456789}`, `{"channel": 1234567890123456788}`, `{"channel": "1234567890123456789"}`,
		`{"a":1,"a":2}`, `{"a":"\ud800"}`, deep,
	} {
		k := &gatekeeper{e: newHouse(t, "", nil).Runner}
		q := agent.Question{Editable: true,
			Action: agent.Action{Type: "tool_call", Tool: "send", Params: json.RawMessage(params)}}
		g, err := k.gate(q)
		if err != nil {
			t.Errorf("%s: %v", params, err)
			continue
		}
		var act struct{ Params any }
		if err := json.Unmarshal(g.Action, &act); err != nil {
			t.Fatal(err)
		}
		text, spelled := act.Params.(string)
		if canon := strings.Contains(params, `"123`); canon == spelled || spelled && text != params {
			t.Errorf("%s is shown as %s", params, g.Action)
		}
		if slices.Contains(g.Options, gate.Edit) == spelled || gate.Editable(g) == spelled {
			t.Errorf("%s: options %v", params, g.Options)
		}
		if _, digest, err := gate.Carries(g); err != nil || digest != g.Digest {
			t.Errorf("%s: digest %s, %v", params, digest, err)
		}
		if other, ok := digests[g.Digest]; ok {
			t.Errorf("%s and %s have one digest", params, other)
		}
		digests[g.Digest] = params
	}
}

// TestCloneForgets checks that what attempts at one head did and heard does not count at another.
func TestCloneForgets(t *testing.T) {
	h := newHouse(t, "", nil)
	c, err := h.Thread(t.Context(), h.row)
	if err != nil {
		t.Fatal(err)
	}
	c.seen = &evidence.Activities{}
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
		h.Runner = New(h.cfg)
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
