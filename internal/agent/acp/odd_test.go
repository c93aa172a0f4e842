package acp

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/testing/agenttest"
)

// fake returns a lab with a fake agent and no sandbox.
func fake(t *testing.T, mode, text string) *lab {
	t.Helper()
	l := newLab(t, "", "turns: [{steps: [{items: [{answer: x}]}]}]\n")
	l.cfg.Command, l.cfg.Endpoint, l.cfg.Model = fakeLine(mode, text), "", ""
	l.host.Sandbox.Bwrap = ""
	return l
}

// do runs the fake agent once, with a person who answers.
func (l *lab) do(yes bool) (*try, []agent.Question) {
	y := l.Request("it")
	var asked []agent.Question
	y.Req.Ask = func(_ context.Context, q agent.Question) (agent.Answer, error) {
		asked = append(asked, q)
		return agent.Answer{Approved: yes}, nil
	}
	return l.run(l.T.Context(), y), asked
}

func TestOddLines(t *testing.T) {
	y, _ := fake(t, "odd", "still here").do(false)
	if y.Err != nil || string(y.Res.Output) != "I am still here" || y.Res.Session != "s1" {
		t.Fatal(y.Log())
	}
	e := last(y, agent.EventFile)
	if e == nil || e.Phase != "completed" || e.ID != "u" || len(e.Files) != 1 ||
		!strings.Contains(e.Files[0].Diff, "-x\n+y\n") {
		t.Errorf("%+v", e)
	}
	if !strings.Contains(y.Raw.String(), "from_the_future") || !strings.Contains(y.Raw.String(), "\xff\xfe\x00") {
		t.Error("the raw log is not what was said")
	}
}

func TestLongLine(t *testing.T) {
	y, _ := fake(t, "big", "done").do(false)
	if e := last(y, agent.EventCommand); y.Err != nil || e == nil || e.Exit == nil || *e.Exit != 0 ||
		len(e.Output) > maxOutput+8 || e.Text != "cat big" {
		t.Errorf("%v %v", y.Err, len(y.Events))
	}
	if y.Raw.Len() < 10<<20 {
		t.Errorf("the raw log has %d bytes", y.Raw.Len())
	}
}

// TestQuestionOvertakes checks that a question that arrives before its tool is asked with all that is known.
func TestQuestionOvertakes(t *testing.T) {
	for _, yes := range []bool{true, false} {
		y, asked := fake(t, "asks", "").do(yes)
		want, phase := "denied", "declined"
		if yes {
			want, phase = "allowed", "completed"
		}
		if y.Err != nil || string(y.Res.Output) != want || len(asked) != 1 || asked[0].Action.Command != "rm -r *" ||
			asked[0].Inside {
			t.Fatalf("%+v\n%s", asked, y.Log())
		}
		if e := last(y, agent.EventCommand); e == nil || e.Phase != phase || e.Text != "rm -r *" || yes != (e.Exit != nil) {
			t.Errorf("%+v", e)
		}
	}
	y, _ := fake(t, "stops", "").do(false)
	if f := y.Fails(t, agent.Refused); !strings.Contains(f.Message, "not permitted: Remove all") {
		t.Errorf("%+v", f)
	}
}

// TestNobodyAnswers checks that requests that no person can answer are refused.
func TestNobodyAnswers(t *testing.T) {
	l := fake(t, "asks", "")
	if y := l.run(t.Context(), l.Request("it")); y.Err != nil || string(y.Res.Output) != "denied" {
		t.Error(y.Log())
	}
}

// A lastWords ends an attempt when an agent that has answered says more before it exits.
type lastWords struct {
	io.Writer
	end func()
}

func (w lastWords) Write(p []byte) (int, error) {
	if strings.HasPrefix(string(p), "{}") {
		w.end()
	}
	return w.Writer.Write(p)
}

// TestStoppedAfterItsAnswer checks that an answer counts if the attempt is stopped while the agent exits.
func TestStoppedAfterItsAnswer(t *testing.T) {
	l := fake(t, "late", "done")
	y := l.Request("it")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	y.Req.Desk.Raw = lastWords{y.Req.Desk.Raw, cancel}
	if l.run(ctx, y); y.Err != nil || string(y.Res.Output) != "done" || ctx.Err() == nil {
		t.Errorf("%v\n%s", ctx.Err(), y.Log())
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
		"paused":   {agent.Infra, "ended its turn by itself: pause_turn", false},
		"nothing":  {agent.InvalidOutput, "without an answer", false},
	} {
		l := fake(t, mode, "")
		a, err := New(l.host, l.cfg)
		if err != nil {
			t.Fatal(err)
		}
		a.kind.Ask.Mode = "careful"
		y := l.Request("it")
		y.Res, y.Err = a.Run(t.Context(), y.Req, func(agent.Event) error { return nil })
		if f := y.Fails(t, want.kind); !strings.Contains(f.Message, want.says) || f.Final != want.final {
			t.Errorf("%s: %+v", mode, f)
		}
	}
}

// TestModes checks that the mode is set in a new session and in a loaded one, whose history is not reported again.
func TestModes(t *testing.T) {
	l := fake(t, "mode", "in mode ")
	a, err := New(l.host, l.cfg)
	if err != nil {
		t.Fatal(err)
	}
	a.kind.Ask.Mode = "careful"
	for _, session := range []string{"", "s1"} {
		y := l.Request("it")
		y.Req.Session = session
		y.Res, y.Err = a.Run(t.Context(), y.Req, func(e agent.Event) error { y.Events = append(y.Events, e); return nil })
		if y.Err != nil || string(y.Res.Output) != "in mode careful" || len(y.Events) != 2 {
			t.Error(y.Log())
		}
		y.Req.Session = "s1"
		if !a.Continues(y.Req) {
			t.Error("it does not continue")
		}
	}
	l = fake(t, "forgets", "")
	y := l.Request("it")
	y.Req.Session = "s1"
	if f := l.run(t.Context(), y).Fails(t, agent.Infra); f.Session != "" ||
		!strings.Contains(f.Message, "no such session") {
		t.Errorf("%+v", f)
	}
}

// TestLoadsLater checks that a session that can only be loaded in a later minute is not continued before.
func TestLoadsLater(t *testing.T) {
	l := fake(t, "mode", "x")
	y, _ := l.do(true)
	a, err := New(l.host, l.cfg)
	if err != nil {
		t.Fatal(err)
	}
	y.Req.Session, a.kind.LoadsLater = y.Res.Session, true
	mark, now := a.mark(y.Req.Home, "s1"), time.Now()
	for _, tt := range []struct {
		opened time.Time
		want   bool
	}{{now.Add(-time.Minute), true}, {now.Add(time.Hour), true}} {
		if err := os.Chtimes(mark, tt.opened, tt.opened); err != nil {
			t.Fatal(err)
		}
		if got := a.Continues(y.Req); got != tt.want {
			t.Errorf("opened at %v: %t", tt.opened, got)
		}
	}
	same := func() bool {
		now := time.Now()
		if err := os.Chtimes(mark, now, now); err != nil {
			t.Fatal(err)
		}
		return a.Continues(y.Req)
	}
	if first, second := same(), same(); first && second { // the minute can end in between, but not twice
		t.Error("it is continued in the minute in which it began")
	}
}

// TestModelFails checks that an agent's message about a model that it cannot reach is not an answer.
func TestModelFails(t *testing.T) {
	l := fake(t, "plain", "Error: Authentication failed")
	a, err := New(l.host, l.cfg)
	if err != nil {
		t.Fatal(err)
	}
	copilot, _ := Named("copilot")
	a.kind.Failed = copilot.Failed
	y := l.Request("it")
	y.Res, y.Err = a.Run(t.Context(), y.Req, func(e agent.Event) error { y.Events = append(y.Events, e); return nil })
	if f := y.Fails(t, agent.Infra); !strings.Contains(f.Message, "Authentication failed") ||
		last(y, agent.EventError) == nil {
		t.Errorf("%+v", f)
	}
}

// routed runs an agent with a gateway for the Messages API.
func routed(t *testing.T, l *lab, session ...string) *agenttest.Try {
	t.Helper()
	a, err := New(l.host, l.cfg)
	if err != nil {
		t.Fatal(err)
	}
	a.cfg.Endpoint, a.kind.Routes = l.Model.URL(), []Route{{API: Messages,
		Env: map[string]string{"BASE": "{url}", "KEY": "{token}"}}}
	y := l.Request("it")
	y.Req.Session = strings.Join(session, "")
	y.Res, y.Err = a.Run(t.Context(), y.Req, func(agent.Event) error { return nil })
	return y
}

// TestRefusedForGood checks that a session that cannot be continued is begun anew: at once if the model's server
// refuses it, otherwise after two attempts without an answer.
func TestRefusedForGood(t *testing.T) {
	if f := routed(t, fake(t, "model", "I look around."), "s1").Fails(t, agent.Infra); f.Session != "" || f.Final ||
		!strings.Contains(f.Message, "begins a new conversation") {
		t.Errorf("%+v", f)
	}
	for mode, kind := range map[string]string{"full": agent.Infra, "nothing": agent.InvalidOutput,
		"refusal":    agent.Refused,
		"max_tokens": agent.Limit, "early": agent.Infra, "paused": agent.Infra} {
		for try, want := range map[int]string{1: "s1", 2: ""} {
			text := map[string]string{"refusal": "No", "max_tokens": "I see", "paused": "I see"}[mode]
			l := fake(t, mode, text)
			y := l.Request("it")
			y.Req.Session, y.Req.Try = "s1", try
			if mode == "paused" {
				want = "s1" // the model has answered
			}
			if f := l.run(t.Context(), y).Fails(t, kind); f.Session != want || f.Final {
				t.Errorf("%s, attempt %d: %+v", mode, try, f)
			}
		}
	}
}

// TestModelFailedUnsaid checks that a turn that ends normally has no answer if the model's last response failed.
func TestModelFailedUnsaid(t *testing.T) {
	l := fake(t, "model", "I look around.")
	y := routed(t, l)
	f := y.Fails(t, agent.Infra)
	if !f.Final || !strings.Contains(f.Message, "though its model failed (400 Bad Request): I look around.") {
		t.Errorf("%+v", f)
	}
}

func TestVendorRequests(t *testing.T) {
	if y, _ := fake(t, "vendor", "").do(true); y.Err != nil || !strings.Contains(string(y.Res.Output), "-32601") {
		t.Error(y.Log())
	}
}

// TestGatewayIgnored checks that an agent that does not use its gateway is detected.
func TestGatewayIgnored(t *testing.T) {
	l := fake(t, "plain", "all by myself")
	y := routed(t, l)
	if y.Err != nil || !strings.Contains(y.Res.Sandbox, "its gateway saw no request") || y.Res.Usage != (agent.Usage{}) {
		t.Error(y.Log())
	}
}

// TestSilentWithoutSandbox checks that an agent that does not ask is not started without a sandbox.
func TestSilentWithoutSandbox(t *testing.T) {
	l := fake(t, "plain", "x")
	a, err := New(l.host, l.cfg)
	if err != nil {
		t.Fatal(err)
	}
	a.kind.Silent = true
	y := l.Request("it")
	y.Res, y.Err = a.Run(t.Context(), y.Req, func(agent.Event) error { return nil })
	if f := y.Fails(t, agent.Infra); !f.Final || !strings.Contains(f.Message, "install bubblewrap") {
		t.Errorf("%+v", f)
	}
	y.Req.Access = agent.Full
	if y.Res, y.Err = a.Run(t.Context(), y.Req, func(agent.Event) error { return nil }); y.Err != nil {
		t.Error(y.Err)
	}
}

// TestDiskFull checks that an attempt ends with the error if one of its logs cannot be written, also the last line.
func TestDiskFull(t *testing.T) {
	for name, set := range map[string]func(desk *agent.Desk, d *agenttest.Disk){
		"raw":      func(desk *agent.Desk, d *agenttest.Disk) { desk.Raw = d },
		"requests": func(desk *agent.Desk, d *agenttest.Disk) { desk.Requests = d },
	} {
		l := fake(t, "late", "done")
		for n := 0; ; n++ {
			d := &agenttest.Disk{Room: n}
			y := l.Request("it")
			set(&y.Req.Desk, d)
			l.run(t.Context(), y)
			if !d.Failed {
				if n < 2 || y.Err != nil {
					t.Errorf("%s: %d writes: %s", name, n, y.Log())
				}
				break
			}
			var f *agent.Failure
			if !errors.Is(y.Err, agenttest.ErrDisk) || errors.As(y.Err, &f) {
				t.Errorf("%s: with room for %d writes: %v", name, n, y.Err)
			}
		}
	}
}

// TestFloods checks that an agent that would need too much memory is stopped.
func TestFloods(t *testing.T) {
	for mode, want := range map[string]string{"floods": "open requests", "calls": "tool calls",
		"deaf": "does not read its input"} {
		l := fake(t, mode, "")
		l.host.Grace = 100 * time.Millisecond
		y := l.Request("it")
		y.Req.Ask = func(ctx context.Context, _ agent.Question) (agent.Answer, error) {
			<-ctx.Done()
			return agent.Answer{}, ctx.Err()
		}
		l.run(t.Context(), y)
		if f := y.Fails(t, agent.Limit); !strings.Contains(f.Message, want) || f.Session != "s1" {
			t.Errorf("%s: %+v", mode, f)
		}
	}
}

func TestConformance(t *testing.T) { agenttest.Run(t, agenttest.Config{New: fakes}) }

// fakes makes fake agents for the suite.
func fakes(t *testing.T, s agenttest.Script) agent.Agent {
	mode := map[agenttest.Ending]string{agenttest.Done: "plain", agenttest.Fails: "early", agenttest.Hangs: "hangs",
		agenttest.Stubborn: "stubborn", agenttest.Leaves: "leaves"}[s.End]
	l := fake(t, mode, string(s.Text))
	l.host.Grace = 500 * time.Millisecond
	a, err := New(l.host, l.cfg)
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
