package claude

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/agent/agenttest"
	"github.com/plait-run/plait/internal/gateway"
	"github.com/plait-run/plait/internal/sandbox"
	"github.com/plait-run/plait/internal/scripted"
)

// TestMain makes the test binary be what stands between an agent behind a wall and its gateway.
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

// A lab is a scripted model, and the real Claude Code that works with it.
type lab struct {
	t     *testing.T
	host  *Host
	cfg   Config
	model *scripted.Server
	dir   string

	mu   sync.Mutex
	seen []scripted.Request
}

// needClaude skips a test where there is no Claude Code, which fails where nothing may be skipped.
func needClaude(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("NOT TESTED with -short: the real Claude Code")
	}
	if _, err := NewHost(HostConfig{Config: sandbox.Config{Getenv: os.Getenv}}).Find(t.Context(), ""); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skipf("NOT TESTED WITH THE REAL CLAUDE CODE: %v", err)
	}
}

func newLab(t *testing.T, scenario string) *lab {
	t.Helper()
	needClaude(t)
	l := &lab{t: t, dir: t.TempDir()}
	bin, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	home := filepath.Join(l.dir, "user")
	env := map[string]string{"PATH": os.Getenv("PATH"), "HOME": home}
	l.host = NewHost(HostConfig{Config: sandbox.Config{Getenv: func(k string) string { return env[k] },
		Forward: []string{bin, "gateway-forward"}, Hide: []string{filepath.Join(l.dir, "record")}}, Grace: time.Second})
	for name, text := range map[string]string{filepath.Join(home, ".ssh", "id"): "a secret",
		filepath.Join(l.dir, "record", "plait.db"): "a secret"} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	l.model = agenttest.ServeScenario(t, scenario, func(r scripted.Request) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if len(r.Prompts) > 0 {
			l.seen = append(l.seen, r)
		}
	})
	l.cfg.Endpoint = strings.TrimSuffix(l.model.URL(), "/v1")
	l.cfg.Env = map[string]string{"HOME": home} // its shell reads what a login does
	return l
}

// A try is one attempt and what was seen of it.
type try struct {
	req    agent.Request
	raw    bytes.Buffer
	stderr bytes.Buffer
	events []agent.Event
	res    agent.Result
	err    error
}

// request is an attempt in a tree of its own, below the lab.
func (l *lab) request(name string) *try {
	l.t.Helper()
	y := &try{}
	tree, desk := filepath.Join(l.dir, "tree"), filepath.Join(l.dir, "desk")
	for _, dir := range []string{filepath.Join(tree, ".git", "hooks"), filepath.Join(desk, "artifacts"), filepath.Join(l.dir, "record", "homes")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			l.t.Fatal(err)
		}
	}
	tag := fmt.Sprintf("claude-%d-%s", os.Getpid(), name)
	y.req = agent.Request{
		Place: agent.Place{Task: "T", Thread: "T", Role: "tester", Instance: "tester", Attempt: tag, Try: 1}, Prompt: "Do " + name + ".",
		Dir: tree, Access: agent.Write, Home: filepath.Join(l.dir, "record", "homes"), Scratch: filepath.Join(l.dir, "scratch"),
		Desk: agent.Desk{Artifacts: filepath.Join(desk, "artifacts"), Raw: &y.raw, Stderr: &y.stderr},
		Tag:  tag, Env: []string{"PLAIT_ARTIFACTS=" + filepath.Join(desk, "artifacts")}, Limits: agent.Limits{Timeout: time.Minute},
	}
	return y
}

func (l *lab) run(ctx context.Context, y *try) *try {
	l.t.Helper()
	a, err := l.host.Agent(l.cfg)
	if err != nil {
		l.t.Fatal(err)
	}
	y.res, y.err = a.Run(ctx, y.req, func(e agent.Event) error { y.events = append(y.events, e); return nil })
	if left := agenttest.Tagged(y.req.Tag); len(left) > 0 {
		l.t.Errorf("processes %v are left", left)
	}
	return y
}

// fails is the failure that an attempt must have ended with.
func (y *try) fails(t *testing.T, kind string) *agent.Failure {
	t.Helper()
	var f *agent.Failure
	if !errors.As(y.err, &f) || f.Kind != kind {
		t.Fatalf("it ends with %v (%+v), want a failure of kind %s\n%s\n%s", y.err, y.res, kind, y.raw.String(), y.stderr.String())
	}
	return f
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
	y := l.run(t.Context(), l.request("one"))
	if y.err != nil {
		t.Fatalf("%v\n%s\n%s", y.err, y.raw.String(), y.stderr.String())
	}
	if !strings.HasPrefix(string(y.res.Output), "The command gave: Exit code 1") || y.res.Session == "" || y.res.Turn == "" {
		t.Errorf("result: %s %+v", y.res.Output, y.res)
	}
	if y.res.Usage.InputTokens != 200 || y.res.Usage.CachedInputTokens != 20 || y.res.Usage.OutputTokens != 40 {
		t.Errorf("used: %+v", y.res.Usage)
	}
	if y.res.Sandbox != "bubblewrap: workspace-write" {
		t.Errorf("sandbox: %s", y.res.Sandbox)
	}
	var kinds []string
	for _, e := range y.events {
		kinds = append(kinds, e.Kind+" "+e.Phase)
		if e.Kind == agent.EventCommand && e.Phase == "completed" && (e.Exit == nil || *e.Exit != 1 || !strings.Contains(e.Text, "echo one")) {
			t.Errorf("the command: %+v", e)
		}
	}
	want := []string{"reasoning completed", "message completed", "command started", "command completed", "usage ", "message completed", "usage "}
	if !slices.Equal(kinds, want) {
		t.Errorf("events %q, want %q", kinds, want)
	}
	if data, err := os.ReadFile(filepath.Join(y.req.Dir, "f.txt")); string(data) != "one\n" {
		t.Errorf("the file: %q, %v", data, err)
	}
	// The session goes on, and knows what was said.
	z := l.request("again")
	z.req.Session = y.res.Session
	if l.run(t.Context(), z); z.err != nil || string(z.res.Output) != "Once more." || z.res.Session != y.res.Session {
		t.Fatalf("%v %s\n%s", z.err, z.res.Output, z.raw.String())
	}
	last := l.seen[len(l.seen)-1]
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

// TestWall tries, as a command of the model, what the wall keeps from it.
func TestWall(t *testing.T) {
	if _, err := exec.LookPath("bwrap"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("bubblewrap is not installed")
		}
		t.Skip("NOT TESTED: bubblewrap is not installed")
	}
	for access, want := range map[agent.Access]string{agent.Write: "tree artifact", agent.Read: "artifact"} {
		l := newLab(t, probes)
		y := l.request("probe")
		y.req.Prompt += " port " + l.cfg.Endpoint[strings.LastIndexByte(l.cfg.Endpoint, ':')+1:]
		y.req.Access = access
		l.run(t.Context(), y)
		var got []string
		for _, word := range []string{"a secret", "plait.db\n", "tree", "hooks\n", "outside\n", "artifact", "network\n"} {
			for line := range strings.Lines(string(y.res.Output)) {
				if strings.TrimSpace(line) == strings.TrimSpace(word) {
					got = append(got, strings.TrimSpace(word))
				}
			}
		}
		if strings.Join(got, " ") != want || !strings.Contains(string(y.res.Output), "end") {
			t.Errorf("access %s: %q, want %q: %v\n%s\n%s", access, got, want, y.err, y.res.Output, y.stderr.String())
		}
	}
}

// TestKeyStays holds that a person's key is in no place where an agent could read it.
func TestKeyStays(t *testing.T) {
	l := newLab(t, "turns:\n- steps:\n  - items: [{run: 'env; cat /proc/*/environ | tr \"\\0\" \"\\n\"'}]\n  - items: [{answer: '{{output 1}}'}]\n")
	const key = "a-real-key-4711"
	get := l.host.cfg.Getenv
	l.host.cfg.Getenv = func(name string) string {
		switch name {
		case "ANTHROPIC_API_KEY":
			return key
		case "ANTHROPIC_BASE_URL":
			return strings.TrimSuffix(l.model.URL(), "/v1")
		}
		return get(name)
	}
	t.Setenv("ANTHROPIC_API_KEY", key)
	l.cfg.Endpoint = ""
	y := l.run(t.Context(), l.request("env"))
	if y.err != nil || !strings.Contains(string(y.res.Output), "ANTHROPIC_API_KEY=plait-") {
		t.Fatalf("%v\n%s", y.err, y.res.Output)
	}
	if strings.Contains(y.raw.String()+y.stderr.String(), key) {
		t.Error("the key is in the logs, or in what a command saw")
	}
	if got := l.seen[0].Header.Get("X-Api-Key"); got != key {
		t.Errorf("the model's server is shown %q", got)
	}
}

// TestAsksWithoutWall holds that where nothing bounds a command, a person is asked for exactly it.
func TestAsksWithoutWall(t *testing.T) {
	l := newLab(t, answers)
	l.host.box.Bwrap = ""
	for _, yes := range []bool{false, true} {
		y := l.request(fmt.Sprint("one ", yes))
		var asked []agent.Question
		y.req.Ask = func(_ context.Context, q agent.Question) (agent.Answer, error) {
			asked = append(asked, q)
			return agent.Answer{Approved: yes, Text: "not today"}, nil
		}
		l.run(t.Context(), y)
		if len(asked) != 1 || asked[0].Action.Type != "command" || asked[0].Action.Command != "echo one > f.txt; false" || asked[0].Inside {
			t.Fatalf("asked: %+v, %v\n%s", asked, y.err, y.raw.String())
		}
		_, err := os.Stat(filepath.Join(y.req.Dir, "f.txt"))
		if yes != (err == nil) {
			t.Errorf("answered %t: %v %v\n%s\n%s", yes, err, y.err, y.raw.String(), y.stderr.String())
		}
		if !yes && (!strings.Contains(string(y.res.Output), "not today") || !slices.ContainsFunc(y.events,
			func(e agent.Event) bool { return e.Phase == "declined" && e.Exit == nil })) {
			t.Errorf("declined: %s %+v", y.res.Output, y.events)
		}
		if !strings.HasPrefix(y.res.Sandbox, "none") {
			t.Errorf("sandbox: %s", y.res.Sandbox)
		}
	}
}

// TestPayment holds that a refused payment, as a gateway answers when a budget is used up, is not tried again.
func TestPayment(t *testing.T) {
	l := newLab(t, `turns: [{steps: [{fail: {status: 402, body: '{"type":"error","error":{"type":"billing_error","message":"no money"}}'}}]}]`)
	f := l.run(t.Context(), l.request("pay")).fails(t, agent.Limit)
	if !f.Final || !strings.Contains(f.Message, "no money") || len(l.seen) != 1 {
		t.Errorf("%+v after %d requests", f, len(l.seen))
	}
}

// TestCancelled ends an attempt in the middle of a command.
func TestCancelled(t *testing.T) {
	l := newLab(t, "turns:\n- steps:\n  - items: [{run: 'echo > begun; tail -f /dev/null'}]\n  - items: [{answer: x}]\n")
	y := l.request("cancel")
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for ctx.Err() == nil {
			if _, err := os.Stat(filepath.Join(y.req.Dir, "begun")); err == nil {
				cancel()
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	f := l.run(ctx, y).fails(t, agent.Cancelled)
	cancel()
	if f.Session == "" {
		t.Error("the session is not known: it could be continued")
	}
}

func TestNotThere(t *testing.T) {
	h := NewHost(HostConfig{Config: sandbox.Config{Getenv: func(string) string { return "" }}})
	if _, err := h.Find(t.Context(), filepath.Join(t.TempDir(), "claude")); err == nil || !strings.Contains(err.Error(), "correct the agent's path") {
		t.Error(err)
	}
	if l := h.Login(Config{}); l.OK || !strings.Contains(l.Do, "ANTHROPIC_API_KEY") {
		t.Errorf("%+v", l)
	}
	for version, want := range map[string]string{Version: "", "99.0.0": "newer", "2.1.329": "too old"} {
		text, err := Program{Version: version}.Advice()
		if got := fmt.Sprint(text, err); want == "" && got != "<nil>" || !strings.Contains(got, want) {
			t.Errorf("%s: %s", version, got)
		}
	}
}

// TestDirect holds that a login of Claude Code's own is lent to it, also behind a wall that hides where it lies, and
// that the record says so.
func TestDirect(t *testing.T) {
	l := newLab(t, answers)
	home := l.host.cfg.Getenv("HOME")
	login := fmt.Sprintf(`{"claudeAiOauth":{"accessToken":"a-login-4711","refreshToken":"r","expiresAt":%d,`+
		`"scopes":["user:inference","user:profile"],"subscriptionType":"max"}}`, time.Now().Add(time.Hour).UnixMilli())
	file := filepath.Join(home, ".claude", ".credentials.json")
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(login), 0o600)); err != nil {
		t.Fatal(err)
	}
	l.cfg.Endpoint, l.cfg.Env["ANTHROPIC_BASE_URL"] = "", strings.TrimSuffix(l.model.URL(), "/v1")
	if in := l.host.Login(l.cfg); !in.OK || !in.direct {
		t.Fatalf("%+v", in)
	}
	y := l.run(t.Context(), l.request("direct"))
	if y.err != nil {
		t.Fatalf("%v\n%s\n%s", y.err, y.raw.String(), y.stderr.String())
	}
	if got := l.seen[0].Header.Get("Authorization"); got != "Bearer a-login-4711" {
		t.Errorf("the model's server is shown %q", got)
	}
	if !strings.HasSuffix(y.res.Sandbox, ", network, via: direct") || y.res.Usage.InputTokens != 200 || y.res.Usage.OutputTokens != 40 {
		t.Errorf("sandbox %s, used %+v", y.res.Sandbox, y.res.Usage)
	}
}
