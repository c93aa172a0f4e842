package acp

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/agent/agenttest"
	"github.com/plait-run/plait/internal/gateway"
)

// fake is a lab with a fake agent, which no wall bounds.
func fake(t *testing.T, mode, text string) *lab {
	t.Helper()
	l := newLab(t, "", "turns: [{steps: [{items: [{answer: x}]}]}]\n")
	l.cfg.Command, l.cfg.Endpoint, l.cfg.Model = fakeLine(mode, text), "", ""
	l.host.box.Bwrap = ""
	return l
}

// do runs the fake agent once, with a person who answers.
func (l *lab) do(yes bool) (*try, []agent.Question) {
	y := l.request("it")
	var asked []agent.Question
	y.req.Ask = func(_ context.Context, q agent.Question) (agent.Answer, error) {
		asked = append(asked, q)
		return agent.Answer{Approved: yes}, nil
	}
	return l.run(l.t.Context(), y), asked
}

func TestOddLines(t *testing.T) {
	y, _ := fake(t, "odd", "still here").do(false)
	if y.err != nil || string(y.res.Output) != "still here" || y.res.Session != "s1" {
		t.Fatal(y.log())
	}
	e := y.last(agent.EventFile)
	if e == nil || e.Phase != "completed" || e.ID != "u" || len(e.Files) != 1 || !strings.Contains(e.Files[0].Diff, "-x\n+y\n") {
		t.Errorf("%+v", e)
	}
	if !strings.Contains(y.raw.String(), "from_the_future") || !strings.Contains(y.raw.String(), "\xff\xfe\x00") {
		t.Error("the raw log is not what was said")
	}
}

func TestLongLine(t *testing.T) {
	y, _ := fake(t, "big", "done").do(false)
	if e := y.last(agent.EventCommand); y.err != nil || e == nil || e.Exit == nil || *e.Exit != 0 || len(e.Output) > maxOutput+8 || e.Text != "cat big" {
		t.Errorf("%v %v", y.err, len(y.events))
	}
	if y.raw.Len() < 10<<20 {
		t.Errorf("the raw log has %d bytes", y.raw.Len())
	}
}

// A question that overtakes its tool is asked with all that is known, and yes means once.
func TestQuestionOvertakes(t *testing.T) {
	for _, yes := range []bool{true, false} {
		y, asked := fake(t, "asks", "").do(yes)
		want, phase := "denied", "declined"
		if yes {
			want, phase = "allowed", "completed"
		}
		if y.err != nil || string(y.res.Output) != want || len(asked) != 1 || asked[0].Action.Command != "rm -r *" || asked[0].Inside {
			t.Fatalf("%+v\n%s", asked, y.log())
		}
		if e := y.last(agent.EventCommand); e == nil || e.Phase != phase || e.Text != "rm -r *" || yes != (e.Exit != nil) {
			t.Errorf("%+v", e)
		}
	}
	y, _ := fake(t, "stops", "").do(false)
	if f := y.fails(t, agent.Refused); !strings.Contains(f.Message, "not permitted: Remove all") {
		t.Errorf("%+v", f)
	}
}

// TestNobodyAnswers holds that what nobody can answer is refused.
func TestNobodyAnswers(t *testing.T) {
	l := fake(t, "asks", "")
	if y := l.run(t.Context(), l.request("it")); y.err != nil || string(y.res.Output) != "denied" {
		t.Error(y.log())
	}
}

func TestFakeFailures(t *testing.T) {
	for mode, want := range map[string]struct {
		kind, says string
		final      bool
	}{
		"early":    {agent.Infra, "ended with exit code 3 before it had answered", false},
		"never":    {agent.Infra, "ended with exit code 7 before it had answered", false},
		"version":  {agent.Infra, "speaks version 2 of the Agent Client Protocol", true},
		"login":    {agent.Infra, "Authentication required", true},
		"immodest": {agent.Infra, "set the mode careful", false},
		"nothing":  {agent.InvalidOutput, "without an answer", false},
	} {
		l := fake(t, mode, "")
		a, err := l.host.Agent(l.cfg)
		if err != nil {
			t.Fatal(err)
		}
		a.kind.Ask.Mode = "careful"
		y := l.request("it")
		y.res, y.err = a.Run(t.Context(), y.req, func(agent.Event) error { return nil })
		if f := y.fails(t, want.kind); !strings.Contains(f.Message, want.says) || f.Final != want.final {
			t.Errorf("%s: %+v", mode, f)
		}
	}
}

// TestModes holds that the mode is set in a new session and in one that is loaded, whose past is not told again.
func TestModes(t *testing.T) {
	l := fake(t, "mode", "in mode ")
	a, err := l.host.Agent(l.cfg)
	if err != nil {
		t.Fatal(err)
	}
	a.kind.Ask.Mode = "careful"
	for _, session := range []string{"", "s1"} {
		y := l.request("it")
		y.req.Session = session
		y.res, y.err = a.Run(t.Context(), y.req, func(e agent.Event) error { y.events = append(y.events, e); return nil })
		if y.err != nil || string(y.res.Output) != "in mode careful" || len(y.events) != 2 {
			t.Error(y.log())
		}
		y.req.Session = "s1"
		if !a.Continues(y.req) {
			t.Error("it does not continue")
		}
	}
	l = fake(t, "forgets", "")
	y := l.request("it")
	y.req.Session = "s1"
	if f := l.run(t.Context(), y).fails(t, agent.Infra); f.Session != "" || !strings.Contains(f.Message, "no such session") {
		t.Errorf("%+v", f)
	}
}

// TestLoadsLater holds that a session which can only be loaded in a later minute is not continued before.
func TestLoadsLater(t *testing.T) {
	l := fake(t, "mode", "x")
	y, _ := l.do(true)
	a, err := l.host.Agent(l.cfg)
	if err != nil {
		t.Fatal(err)
	}
	y.req.Session, a.kind.LoadsLater = y.res.Session, true
	mark, now := a.mark(y.req.Home, "s1"), time.Now()
	for _, tt := range []struct {
		opened time.Time
		want   bool
	}{{now.Add(-time.Minute), true}, {now.Add(time.Hour), true}} {
		if err := os.Chtimes(mark, tt.opened, tt.opened); err != nil {
			t.Fatal(err)
		}
		if got := a.Continues(y.req); got != tt.want {
			t.Errorf("opened at %v: %t", tt.opened, got)
		}
	}
	same := func() bool {
		now := time.Now()
		if err := os.Chtimes(mark, now, now); err != nil {
			t.Fatal(err)
		}
		return a.Continues(y.req)
	}
	if first, second := same(), same(); first && second { // the minute can end between, but not twice
		t.Error("it is continued in the minute in which it began")
	}
}

// TestModelFails holds that an agent's word for a model that cannot be asked is no answer.
func TestModelFails(t *testing.T) {
	l := fake(t, "plain", "Error: Authentication failed")
	a, err := l.host.Agent(l.cfg)
	if err != nil {
		t.Fatal(err)
	}
	copilot, _ := Named("copilot")
	a.kind.Failed = copilot.Failed
	y := l.request("it")
	y.res, y.err = a.Run(t.Context(), y.req, func(e agent.Event) error { y.events = append(y.events, e); return nil })
	if f := y.fails(t, agent.Infra); !strings.Contains(f.Message, "Authentication failed") || y.last(agent.EventError) == nil {
		t.Errorf("%+v", f)
	}
}

func TestVendorRequests(t *testing.T) {
	if y, _ := fake(t, "vendor", "").do(true); y.err != nil || !strings.Contains(string(y.res.Output), "-32601") {
		t.Error(y.log())
	}
}

// TestGatewayIgnored holds that an agent which does not use its gateway is found out.
func TestGatewayIgnored(t *testing.T) {
	l := fake(t, "plain", "all by myself")
	a, err := l.host.Agent(l.cfg)
	if err != nil {
		t.Fatal(err)
	}
	a.cfg.Endpoint, a.kind.Routes = l.model.URL(), []Route{{API: Messages, Env: map[string]string{"BASE": "{url}", "KEY": "{token}"}}}
	y := l.request("it")
	y.res, y.err = a.Run(t.Context(), y.req, func(agent.Event) error { return nil })
	if y.err != nil || !strings.Contains(y.res.Sandbox, "its gateway saw no request") || y.res.Usage != (agent.Usage{}) {
		t.Error(y.log())
	}
}

// TestSilentWithoutWall holds that an agent which does not ask is not started where nothing bounds it.
func TestSilentWithoutWall(t *testing.T) {
	l := fake(t, "plain", "x")
	a, err := l.host.Agent(l.cfg)
	if err != nil {
		t.Fatal(err)
	}
	a.kind.Silent = true
	y := l.request("it")
	y.res, y.err = a.Run(t.Context(), y.req, func(agent.Event) error { return nil })
	if f := y.fails(t, agent.Infra); !f.Final || !strings.Contains(f.Message, "install bubblewrap") {
		t.Errorf("%+v", f)
	}
	y.req.Access = agent.Full
	if y.res, y.err = a.Run(t.Context(), y.req, func(agent.Event) error { return nil }); y.err != nil {
		t.Error(y.err)
	}
}

func TestWrongDefinitions(t *testing.T) {
	l := fake(t, "plain", "x")
	for says, cfg := range map[string]Config{
		"exclude each other":   {Kind: "copilot", Command: []string{"x"}},
		"name an agent":        {},
		"no agent is called":   {Kind: "nobody"},
		"correct its command":  {Command: []string{"there-is-none"}},
		"leaves the working":   {Command: l.cfg.Command, Dir: "../x"},
		"there is none at":     {Kind: "copilot", Path: l.dir},
		"GEMINI_API_KEY":       {Kind: "gemini", Path: os.Args[0]},
		"no address":           {Kind: "qwen", Path: os.Args[0], Env: map[string]string{"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "::"}},
		"set model: in the ag": {Kind: "qwen", Path: os.Args[0], Env: map[string]string{"OPENAI_API_KEY": "k"}},
	} {
		for _, name := range []string{"gemini", "qwen"} {
			k, _ := Named(name)
			if p, err := l.host.locate(k, os.Args[0]); err == nil {
				l.host.versions[p.Path] = k.Package.Version
			}
		}
		if _, err := l.host.Agent(cfg); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("want %q in %v", says, err)
		}
	}
}

// TestKeyStays holds that a person's key is in nothing that an agent is given.
func TestKeyStays(t *testing.T) {
	const key = "a-real-key-4711"
	t.Setenv("OPENAI_API_KEY", key)
	l := fake(t, "plain", "x")
	for _, k := range Kinds {
		for i := range k.Routes {
			a := &Agent{l.host, Config{Model: "m", Env: map[string]string{"ANTHROPIC_API_KEY": key}, Pass: []string{"OPENAI_API_KEY"}}, k}
			y := l.request("it")
			s := &site{agent: a, home: a.SessionHome(y.req.Home)}
			var err error
			if s.gateway, err = gateway.Open(gateway.Config{}); err != nil {
				t.Fatal(err)
			}
			if err := a.furnish(s, y.req, Login{route: &k.Routes[i]}, map[string]string{}); err != nil {
				t.Fatal(err)
			}
			if strings.Contains(strings.Join(s.env, " "), key) {
				t.Errorf("%s is given the key: %q", k.Name, s.env)
			}
			s.close()
		}
	}
}

func TestConformance(t *testing.T) { agenttest.Run(t, agenttest.Config{New: fakes}) }

// fakes makes fake agents for the suite.
func fakes(t *testing.T, s agenttest.Script) agent.Agent {
	mode := map[agenttest.Ending]string{agenttest.Done: "plain", agenttest.Fails: "early", agenttest.Hangs: "hangs",
		agenttest.Stubborn: "stubborn", agenttest.Leaves: "leaves"}[s.End]
	l := fake(t, mode, string(s.Text))
	l.host.cfg.Grace = 500 * time.Millisecond
	a, err := l.host.Agent(l.cfg)
	if err != nil {
		t.Fatal(err)
	}
	return homed{a, t.TempDir()}
}

// homed is an agent whose requests have a home.
type homed struct {
	*Agent
	home string
}

func (h homed) Run(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
	req.Home = h.home
	return h.Agent.Run(ctx, req, emit)
}
