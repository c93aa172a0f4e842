package claude

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/agent/gateway"
	"github.com/plait-run/plait/internal/agent/host"
	"github.com/plait-run/plait/internal/agent/sandbox"
	"github.com/plait-run/plait/internal/testing/agenttest"
)

// TestMain makes the test binary also the forwarder between a agent in a sandbox and its gateway, and the lab's MCP
// server.
func TestMain(m *testing.M) {
	if len(os.Args) > 3 && os.Args[1] == "gateway-forward" {
		code, err := gateway.Forward(context.Background(), os.Args[2], os.Args[3], os.Args[4:])
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 99
		}
		os.Exit(code)
	}
	if len(os.Args) == 2 && os.Args[1] == "serve-lab" {
		if err := serveLab(); err != nil {
			os.Exit(99)
		}
		os.Exit(0)
	}
	flag.Parse()
	goleak.VerifyTestMain(m)
}

// A lab is a place for the real Claude Code.
type lab struct {
	*agenttest.Lab
	host *host.Host
	cfg  Config
}

type try = agenttest.Try

// needClaude skips a test if there is no Claude Code, or fails it where no test may be skipped.
func needClaude(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("NOT TESTED with -short: the real Claude Code")
	}
	if _, err := host.New(host.Config{}).Find(t.Context(), Package, "", nil); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skipf("NOT TESTED WITH THE REAL CLAUDE CODE: %v", err)
	}
}

func newLab(t *testing.T, scenario string) *lab {
	t.Helper()
	needClaude(t)
	l := &lab{Lab: agenttest.NewLab(t, scenario)}
	l.host = host.New(host.Config{Config: sandbox.Config{Getenv: l.Getenv, Forward: []string{l.Bin, "gateway-forward"},
		Hide: []string{l.Record()}}, Grace: time.Second})
	l.cfg.Endpoint = strings.TrimSuffix(l.Model.URL(), "/v1")
	l.cfg.Env = map[string]string{"HOME": l.Home()} // its shell reads the profile of a login
	return l
}

func (l *lab) run(ctx context.Context, y *try) *try {
	l.T.Helper()
	a, err := New(l.host, l.cfg)
	if err != nil {
		l.T.Fatal(err)
	}
	return l.Run(ctx, a, y)
}

const answers = `turns:
- when: {contains: [again]}
  steps:
  - items: [{answer: "Once more."}]
- steps:
  - items: [{reason: "I look around."}, {say: "I will write a file."}, {run: "echo one > f.txt; false"}]
  - items: [{answer: "The command gave: {{output 1}}"}]
`

func TestTurn(t *testing.T) {
	l := newLab(t, answers)
	y := l.run(t.Context(), l.Request("one"))
	if y.Err != nil {
		t.Fatalf("%v\n%s\n%s", y.Err, y.Raw.String(), y.Stderr.String())
	}
	if !strings.HasPrefix(string(y.Res.Output), "The command gave: Exit code 1") || y.Res.Session == "" ||
		y.Res.Turn == "" {
		t.Errorf("result: %s %+v", y.Res.Output, y.Res)
	}
	if y.Res.Usage.InputTokens != 200 || y.Res.Usage.CachedInputTokens != 20 || y.Res.Usage.OutputTokens != 40 {
		t.Errorf("used: %+v", y.Res.Usage)
	}
	if y.Res.Sandbox != "bubblewrap: workspace-write" {
		t.Errorf("sandbox: %s", y.Res.Sandbox)
	}
	var kinds []string
	for _, e := range y.Events {
		kinds = append(kinds, e.Kind+" "+e.Phase)
		if e.Kind == agent.EventCommand && e.Phase == "completed" &&
			(e.Exit == nil || *e.Exit != 1 || !strings.Contains(e.Text, "echo one")) {
			t.Errorf("the command: %+v", e)
		}
	}
	want := []string{"reasoning completed", "message completed", "command started", "command completed", "usage ",
		"message completed", "usage "}
	if !slices.Equal(kinds, want) {
		t.Errorf("events %q, want %q", kinds, want)
	}
	if data, err := os.ReadFile(filepath.Join(y.Req.Dir, "f.txt")); string(data) != "one\n" {
		t.Errorf("the file: %q, %v", data, err)
	}
	// The session continues, with what was said.
	z := l.Request("again")
	z.Req.Session = y.Res.Session
	if l.run(t.Context(), z); z.Err != nil || string(z.Res.Output) != "Once more." || z.Res.Session != y.Res.Session {
		t.Fatalf("%v %s\n%s", z.Err, z.Res.Output, z.Raw.String())
	}
	last := l.Seen()[len(l.Seen())-1]
	if len(last.Prompts) != 2 || last.Prompts[0] != "Do one." {
		t.Errorf("the model was told %q", last.Prompts)
	}
}

const probes = `turns:
- steps:
  - items:
    - run: "env | grep -c a-real-key; cat $HOME/.ssh/id ../record/plait.db; ls ../record; touch new && echo tree; touch .git/hooks/x && echo hooks;
        touch ../outside && echo outside; touch $PLAIT_ARTIFACTS/a && echo artifact; (exec 3<>/dev/tcp/127.0.0.1/{{prompt port ([0-9]+)}}) && echo network; echo end"
  - items: [{answer: "{{output 1}}"}]
`

// TestWall tries what the sandbox forbids, in a command of the model.
func TestWall(t *testing.T) {
	if _, err := exec.LookPath("bwrap"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("bubblewrap is not installed")
		}
		t.Skip("NOT TESTED: bubblewrap is not installed")
	}
	for access, want := range map[agent.Access]string{agent.Write: "tree artifact", agent.Read: "artifact"} {
		l := newLab(t, probes)
		y := l.Request("probe")
		y.Req.Prompt += " port " + l.cfg.Endpoint[strings.LastIndexByte(l.cfg.Endpoint, ':')+1:]
		y.Req.Access = access
		l.run(t.Context(), y)
		var got []string
		for _, word := range []string{"a secret", "plait.db\n", "tree", "hooks\n", "outside\n", "artifact", "network\n"} {
			for line := range strings.Lines(string(y.Res.Output)) {
				if strings.TrimSpace(line) == strings.TrimSpace(word) {
					got = append(got, strings.TrimSpace(word))
				}
			}
		}
		if strings.Join(got, " ") != want || !strings.Contains(string(y.Res.Output), "end") {
			t.Errorf("access %s: %q, want %q: %v\n%s\n%s", access, got, want, y.Err, y.Res.Output, y.Stderr.String())
		}
	}
}

// TestKeyStays checks that the user's key is nowhere where an agent could read it.
func TestKeyStays(t *testing.T) {
	l := newLab(t, "turns:\n- steps:\n  - items: [{run: 'env; cat /proc/*/environ | tr \"\\0\" \"\\n\"'}]\n  - items: "+
		"[{answer: '{{output 1}}'}]\n")
	const key = "a-real-key-4711"
	get := l.host.Getenv
	l.host.Getenv = func(name string) string {
		switch name {
		case "ANTHROPIC_API_KEY":
			return key
		case "ANTHROPIC_BASE_URL":
			return strings.TrimSuffix(l.Model.URL(), "/v1")
		}
		return get(name)
	}
	t.Setenv("ANTHROPIC_API_KEY", key)
	l.cfg.Endpoint = ""
	y := l.run(t.Context(), l.Request("env"))
	if y.Err != nil || !strings.Contains(string(y.Res.Output), "ANTHROPIC_API_KEY=plait-") {
		t.Fatalf("%v\n%s", y.Err, y.Res.Output)
	}
	if strings.Contains(y.Raw.String()+y.Stderr.String(), key) {
		t.Error("the key is in the logs, or in what a command saw")
	}
	if got := l.Seen()[0].Header.Get("X-Api-Key"); got != key {
		t.Errorf("the model's server is shown %q", got)
	}
}

// TestAsksWithoutSandbox checks that without a sandbox, a person is asked about the exact command.
func TestAsksWithoutSandbox(t *testing.T) {
	l := newLab(t, answers)
	l.host.Sandbox.Bwrap = ""
	for _, yes := range []bool{false, true} {
		y := l.Request(fmt.Sprint("one ", yes))
		var asked []agent.Question
		y.Req.Ask = func(_ context.Context, q agent.Question) (agent.Answer, error) {
			asked = append(asked, q)
			return agent.Answer{Approved: yes, Text: "not today"}, nil
		}
		l.run(t.Context(), y)
		if len(asked) != 1 || asked[0].Action.Type != "command" || asked[0].Action.Command != "echo one > f.txt; false" ||
			asked[0].Inside {
			t.Fatalf("asked: %+v, %v\n%s", asked, y.Err, y.Raw.String())
		}
		_, err := os.Stat(filepath.Join(y.Req.Dir, "f.txt"))
		if yes != (err == nil) {
			t.Errorf("answered %t: %v %v\n%s\n%s", yes, err, y.Err, y.Raw.String(), y.Stderr.String())
		}
		if !yes && (!strings.Contains(string(y.Res.Output), "not today") || !slices.ContainsFunc(y.Events,
			func(e agent.Event) bool { return e.Phase == "declined" && e.Exit == nil })) {
			t.Errorf("declined: %s %+v", y.Res.Output, y.Events)
		}
		if !strings.HasPrefix(y.Res.Sandbox, "none") {
			t.Errorf("sandbox: %s", y.Res.Sandbox)
		}
	}
}

// TestPayment checks that a 402, which a gateway answers when a budget is used up, is not retried.
func TestPayment(t *testing.T) {
	l := newLab(t, `turns: [{steps: [{fail: {status: 402, body: '{"type":"error","error":{"type":"billing_error",`+
		`"message":"no money"}}'}}]}]`)
	f := l.run(t.Context(), l.Request("pay")).Fails(t, agent.Limit)
	if !f.Final || !strings.Contains(f.Message, "no money") || len(l.Seen()) != 1 {
		t.Errorf("%+v after %d requests", f, len(l.Seen()))
	}
}

// TestCancelled ends an attempt in the middle of a command.
func TestCancelled(t *testing.T) {
	l := newLab(t, "turns:\n- steps:\n  - items: [{run: 'echo > begun; tail -f /dev/null'}]\n  - items: [{answer: x}]\n")
	y := l.Request("cancel")
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for ctx.Err() == nil {
			if _, err := os.Stat(filepath.Join(y.Req.Dir, "begun")); err == nil {
				cancel()
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	f := l.run(ctx, y).Fails(t, agent.Cancelled)
	cancel()
	if f.Session == "" {
		t.Error("the session is not known: it could be continued")
	}
}

func TestNotThere(t *testing.T) {
	h := newHost()
	if _, err := h.Find(t.Context(), Package, filepath.Join(t.TempDir(), "claude"), nil); err == nil ||
		!strings.Contains(err.Error(), "correct the agent's path") {
		t.Error(err)
	}
	if l := Login(h, Config{}); l.OK || !strings.Contains(l.Do, "ANTHROPIC_API_KEY") {
		t.Errorf("%+v", l)
	}
	for version, want := range map[string]string{Version: "", "99.0.0": "not the version that was tested",
		"2.1.329": "too old"} {
		text, err := Package.Advice(host.Program{Version: version})
		if got := fmt.Sprint(text, err); want == "" && got != "<nil>" || !strings.Contains(got, want) {
			t.Errorf("%s: %s", version, got)
		}
	}
}

// TestDirect checks that Claude Code can use the user's login, even in a sandbox that hides its directory, and that
// the record says so.
func TestDirect(t *testing.T) {
	l := newLab(t, answers)
	home := l.host.Getenv("HOME")
	login := fmt.Sprintf(`{"claudeAiOauth":{"accessToken":"a-login-4711","refreshToken":"r","expiresAt":%d,`+
		`"scopes":["user:inference","user:profile"],"subscriptionType":"max"}}`, time.Now().Add(time.Hour).UnixMilli())
	file := filepath.Join(home, ".claude", ".credentials.json")
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(login), 0o600)); err != nil {
		t.Fatal(err)
	}
	l.cfg.Endpoint, l.cfg.Env["ANTHROPIC_BASE_URL"] = "", strings.TrimSuffix(l.Model.URL(), "/v1")
	if in := Login(l.host, l.cfg); !in.OK || in.Upstream != nil {
		t.Fatalf("%+v", in)
	}
	y := l.run(t.Context(), l.Request("direct"))
	if y.Err != nil {
		t.Fatalf("%v\n%s\n%s", y.Err, y.Raw.String(), y.Stderr.String())
	}
	if got := l.Seen()[0].Header.Get("Authorization"); got != "Bearer a-login-4711" {
		t.Errorf("the model's server is shown %q", got)
	}
	if !strings.HasSuffix(y.Res.Sandbox, ", network, via: direct") || y.Res.Usage.InputTokens != 200 ||
		y.Res.Usage.OutputTokens != 40 {
		t.Errorf("sandbox %s, used %+v", y.Res.Sandbox, y.Res.Usage)
	}
}
