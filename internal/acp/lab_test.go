package acp

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
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

// TestMain makes the test binary be what stands between an agent behind a wall and its gateway, the server of the tool
// deliver, and a fake agent.
func TestMain(m *testing.M) {
	agenttest.FakeMain()
	if len(os.Args) > 1 {
		switch code, err := 0, error(nil); os.Args[1] {
		case "gateway-forward":
			if code, err = gateway.Forward(context.Background(), os.Args[2], os.Args[3], os.Args[4:]); err != nil {
				fmt.Fprintln(os.Stderr, err)
				code = 99
			}
			os.Exit(code)
		case "deliver":
			if err := Deliver(context.Background(), os.Args[2], os.Args[3], os.Stdin, os.Stdout); err != nil {
				fmt.Fprintln(os.Stderr, err)
				code = 99
			}
			os.Exit(code)
		case fakeArg:
			os.Exit(fakeMain(os.Args[2:]))
		}
	}
	flag.Parse()
	goleak.VerifyTestMain(m)
}

// A lab is a scripted model, and an agent that works with it.
type lab struct {
	t     *testing.T
	host  *Host
	cfg   Config
	model *scripted.Server
	dir   string

	mu   sync.Mutex
	seen []scripted.Request
}

// need skips a test when a real agent is not there; where nothing may be skipped it fails.
func need(t *testing.T, kind string) {
	t.Helper()
	if testing.Short() {
		t.Skipf("NOT TESTED with -short: the real %s", kind)
	}
	k, ok := Named(kind)
	if !ok {
		t.Fatalf("no agent is called %s", kind)
	}
	_, err := NewHost(HostConfig{Config: sandbox.Config{Getenv: os.Getenv}}).Find(t.Context(), k, "")
	if err != nil && os.Getenv("CI") != "" {
		t.Fatal(err)
	}
	if err != nil {
		t.Skipf("NOT TESTED WITH THE REAL %s: %v", strings.ToUpper(kind), err)
	}
}

func newLab(t *testing.T, kind, scenario string) *lab {
	t.Helper()
	l := &lab{t: t, dir: t.TempDir(), cfg: Config{Kind: kind, Model: scripted.Model}}
	bin, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	home := filepath.Join(l.dir, "user")
	env := map[string]string{"PATH": os.Getenv("PATH"), "HOME": home}
	l.host = NewHost(HostConfig{Config: sandbox.Config{Getenv: func(k string) string { return env[k] },
		Forward: []string{bin, "gateway-forward"}, Hide: []string{filepath.Join(l.dir, "record")}}, Deliver: []string{bin, "deliver"}})
	for name, text := range map[string]string{filepath.Join(home, ".ssh", "id"): "a secret",
		filepath.Join(l.dir, "record", "plait.db"): "a secret"} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(http.DefaultTransport.(*http.Transport).CloseIdleConnections) // the model's server has ended then
	l.model = agenttest.ServeScenario(t, scenario, func(r scripted.Request) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if len(r.Prompts) > 0 {
			l.seen = append(l.seen, r)
		}
	})
	l.cfg.Endpoint = l.model.URL()
	l.cfg.Env = map[string]string{"HOME": home} // its shell reads what a login does
	return l
}

// A try is one attempt and what was seen of it.
type try struct {
	req    agent.Request
	raw    bytes.Buffer
	asked  bytes.Buffer
	stderr bytes.Buffer
	events []agent.Event
	res    agent.Result
	err    error
	opened string
}

var tries int

// request is an attempt in a tree of its own, below the lab.
func (l *lab) request(name string) *try {
	l.t.Helper()
	tries++
	y := &try{}
	tree, desk := filepath.Join(l.dir, "tree"), filepath.Join(l.dir, "desk")
	for _, dir := range []string{filepath.Join(tree, ".git", "hooks"), filepath.Join(desk, "artifacts"), filepath.Join(l.dir, "record", "homes")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			l.t.Fatal(err)
		}
	}
	tag := fmt.Sprintf("acp-%d-%d", os.Getpid(), tries)
	y.req = agent.Request{
		Place: agent.Place{Task: "T", Thread: "T", Role: "tester", Instance: "tester", Attempt: tag, Try: 1}, Prompt: "Do " + name + ".",
		Dir: tree, Access: agent.Write, Home: filepath.Join(l.dir, "record", "homes"), Scratch: filepath.Join(l.dir, "scratch"),
		Desk: agent.Desk{Artifacts: filepath.Join(desk, "artifacts"), Raw: &y.raw, Stderr: &y.stderr, Requests: &y.asked},
		Tag:  tag, Env: []string{"PLAIT_ARTIFACTS=" + filepath.Join(desk, "artifacts")}, Limits: agent.Limits{Timeout: time.Minute},
		Opened: func(s string) { y.opened = s },
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

// log is what an attempt left, for a test that failed.
func (y *try) log() string {
	return fmt.Sprintf("%v\n%s\n%+v\n%s\n%s", y.err, y.res.Output, y.events, agent.Clip(y.raw.String(), 20000), agent.Clip(y.stderr.String(), 4000))
}

// fails is the failure that an attempt must have ended with.
func (y *try) fails(t *testing.T, kind string) *agent.Failure {
	t.Helper()
	var f *agent.Failure
	if !errors.As(y.err, &f) || f.Kind != kind {
		t.Fatalf("want a failure of kind %s\n%s", kind, y.log())
	}
	return f
}

// last is the last event of a kind, nil when there is none.
func (y *try) last(kind string) *agent.Event {
	i := len(y.events) - 1
	for ; i >= 0 && y.events[i].Kind != kind; i-- {
	}
	if i < 0 {
		return nil
	}
	return &y.events[i]
}

// until does what is to be done once something holds.
func until(ctx context.Context, holds func() bool, do func()) {
	for ctx.Err() == nil && !holds() {
		time.Sleep(10 * time.Millisecond)
	}
	if ctx.Err() == nil {
		do()
	}
}
