package codex

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/agent/host"
	"github.com/plait-run/plait/internal/agent/scripted"
	"github.com/plait-run/plait/internal/testing/agenttest"
)

// bareHome is a home directory without any settings.
const bareHome = "/nonexistent"

// A lab is the real Codex with a scripted model.
type lab struct {
	host  *Host
	agent *Agent
	model *scripted.Server
	home  string

	mu       sync.Mutex
	requests []scripted.Request
}

// newLab makes a lab whose model follows a scenario: YAML, see
// [scripted.Scenario]. change, if given, changes the definition.
func newLab(t *testing.T, scenario string, change ...func(*Config)) *lab {
	t.Helper()
	needCodex(t)
	l := &lab{home: t.TempDir()}
	l.model = agenttest.ServeScenario(t, scenario, func(r scripted.Request) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.requests = append(l.requests, r)
	})
	l.host, l.agent = l.another(t, change...)
	return l
}

// another returns another host, and an agent of the lab's definition.
func (l *lab) another(t *testing.T, change ...func(*Config)) (*Host, *Agent) {
	t.Helper()
	h := NewHost(host.New(host.Config{Grace: time.Second}))
	h.startup = 2 * time.Minute
	cfg := endpoint(l.model.URL())
	cfg.Env = map[string]string{"HOME": bareHome} // whose login shell starts fast
	for _, f := range change {
		f(&cfg)
	}
	a, err := h.Agent(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return h, a
}

// asked returns the requests that the model received.
func (l *lab) asked() []scripted.Request {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]scripted.Request(nil), l.requests...)
}

// A buffer may be read and written concurrently.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

var tags atomic.Int64

// An appTry is a request and what was seen of it.
type appTry struct {
	req                   agent.Request
	raw, stderr, requests buffer
	events                []agent.Event
	process               agent.Process
	session               string
	on                    func(agent.Event) // called within each emit
}

func (l *lab) try(t *testing.T, prompt string) *appTry {
	t.Helper()
	y := newAppTry(t, prompt)
	y.req.Home = l.home
	return y
}

func newAppTry(t *testing.T, prompt string) *appTry {
	t.Helper()
	y := new(appTry)
	y.req = newRequest(t, "apptest", prompt, agent.Desk{Raw: &y.raw, Stderr: &y.stderr, Requests: &y.requests})
	y.req.Env = append(y.req.Env, "PLAIT_HOME=hidden")
	y.req.Started = func(p agent.Process) { y.process = p }
	y.req.Opened = func(session string) { y.session = session }
	return y
}

// newRequest returns an attempt with its own desk and tree.
func newRequest(t *testing.T, kind, prompt string, desk agent.Desk) agent.Request {
	t.Helper()
	desk.Artifacts = filepath.Join(t.TempDir(), "artifacts")
	if err := os.Mkdir(desk.Artifacts, 0o700); err != nil {
		t.Fatal(err)
	}
	tag := fmt.Sprintf("%s-%d-%d", kind, os.Getpid(), tags.Add(1))
	return agent.Request{
		Place: agent.Place{Role: "tester", Attempt: tag, Try: 1}, Prompt: prompt, Dir: t.TempDir(), Access: agent.Write,
		Home: t.TempDir(), Desk: desk, Tag: tag, Limits: agent.Limits{Timeout: 3 * time.Minute},
		Env: []string{"PLAIT_ROLE=tester"},
	}
}

// run runs an agent to its end and checks what every run must fulfill.
func (y *appTry) run(ctx context.Context, t *testing.T, a agent.Agent) (agent.Result, error) {
	t.Helper()
	res, err := a.Run(ctx, y.req, func(e agent.Event) error {
		y.events = append(y.events, e)
		if y.on != nil {
			y.on(e)
		}
		return nil
	})
	if left := agenttest.Tagged(commandTag(y.req)); len(left) > 0 {
		t.Errorf("commands %v are left", left)
	}
	for line := range strings.Lines(y.requests.String()) {
		var l requestLine
		if json.Unmarshal([]byte(line), &l) != nil || l.TS == 0 || l.Dir != "in" && l.Dir != "out" ||
			!json.Valid(l.Message) {
			t.Errorf("requests.jsonl has the line %q", line)
		}
	}
	return res, err
}

// works runs an agent that must succeed.
func (y *appTry) works(t *testing.T, a agent.Agent) agent.Result {
	t.Helper()
	res, err := y.run(t.Context(), t, a)
	if err != nil {
		t.Fatalf("Run returned %v\nraw: %s\nstderr: %s", err, y.raw.String(), y.stderr.String())
	}
	return res
}

// mayWork is like works for goroutines other than the test's.
func (y *appTry) mayWork(t *testing.T, a agent.Agent) agent.Result {
	res, err := y.run(t.Context(), t, a)
	if err != nil {
		t.Errorf("Run returned %v", err)
	}
	return res
}

// fails runs an agent and returns its failure, which must be of a kind.
func (y *appTry) fails(ctx context.Context, t *testing.T, a agent.Agent, kind string) *agent.Failure {
	t.Helper()
	res, err := y.run(ctx, t, a)
	var f *agent.Failure
	if !errors.As(err, &f) {
		t.Fatalf("got result %+v and error %v, want a failure", res, err)
	}
	if f.Kind != kind || f.Message == "" {
		t.Fatalf("got failure %+v, want kind %s", f, kind)
	}
	return f
}

// of returns the events of a kind and, unless phase is empty, of that phase.
func (y *appTry) of(kind, phase string) []agent.Event {
	var found []agent.Event
	for _, e := range y.events {
		if e.Kind == kind && (phase == "" || e.Phase == phase) {
			found = append(found, e)
		}
	}
	return found
}

// answer is a scenario in which the model answers immediately.
const answer = "turns:\n- steps:\n  - items:\n    - answer: all done\n"

// running reports whether a process has marker among its arguments.
func running(t *testing.T, marker string) bool {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if args, err := os.ReadFile(f); err == nil && bytes.Contains(args, []byte(marker)) {
			return true
		}
	}
	return false
}

// eventually waits until something holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

func contains(t *testing.T, what, text, want string) {
	t.Helper()
	if !strings.Contains(text, want) {
		t.Errorf("%s is %q, want %q in it", what, text, want)
	}
}
