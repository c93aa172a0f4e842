package agenttest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/agent/scripted"
)

// A Lab is a scripted model and a place for an agent that works with it: a tree, and outside it a home and a
// record that contain secrets.
type Lab struct {
	T     *testing.T
	Model *scripted.Server
	Bin   string // the test binary
	Dir   string // tree, record and the user's home are in it

	mu   sync.Mutex
	seen []scripted.Request
}

// NewLab makes a lab whose model follows a scenario.
func NewLab(t *testing.T, scenario string) *Lab {
	t.Helper()
	l := &Lab{T: t, Dir: t.TempDir()}
	var err error
	if l.Bin, err = os.Executable(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{filepath.Join(l.Home(), ".ssh", "id"), filepath.Join(l.Record(), "plait.db")} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755),
			os.WriteFile(name, []byte("a secret"), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(http.DefaultTransport.(*http.Transport).CloseIdleConnections) // runs after the model's server has stopped
	l.Model = ServeScenario(t, scenario, func(r scripted.Request) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if len(r.Prompts) > 0 {
			l.seen = append(l.seen, r)
		}
	})
	return l
}

// Home returns the user's home directory.
func (l *Lab) Home() string { return filepath.Join(l.Dir, "user") }

// Record returns the directory of the record, which no agent may read.
func (l *Lab) Record() string { return filepath.Join(l.Dir, "record") }

// Getenv stands in for Plait's own environment.
func (l *Lab) Getenv(name string) string {
	return map[string]string{"PATH": os.Getenv("PATH"), "HOME": l.Home()}[name]
}

// Seen returns the requests to the model that have a prompt, oldest first.
func (l *Lab) Seen() []scripted.Request {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.seen)
}

// A Try is one attempt and what was seen of it.
type Try struct {
	Req    agent.Request
	Raw    bytes.Buffer
	Asked  bytes.Buffer
	Stderr bytes.Buffer
	Events []agent.Event
	Res    agent.Result
	Err    error
	Opened string // the session
}

// Request returns an attempt in the lab's tree.
func (l *Lab) Request(name string) *Try {
	l.T.Helper()
	y := &Try{}
	tree, artifacts, homes := filepath.Join(l.Dir, "tree"), filepath.Join(l.Dir, "desk", "artifacts"),
		filepath.Join(l.Record(), "homes")
	for _, dir := range []string{filepath.Join(tree, ".git", "hooks"), artifacts, homes} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			l.T.Fatal(err)
		}
	}
	tag := fmt.Sprintf("lab-%d-%d", os.Getpid(), tries.Add(1))
	y.Req = agent.Request{
		Place: agent.Place{Task: "T", Thread: "T", Role: "tester", Attempt: tag, Try: 1}, Prompt: "Do " + name + ".",
		Dir: tree, Access: agent.Write, Home: homes, Scratch: filepath.Join(l.Dir, "scratch"),
		Desk: agent.Desk{Artifacts: artifacts, Raw: &y.Raw, Stderr: &y.Stderr, Requests: &y.Asked},
		Tag:  tag, Env: []string{"PLAIT_ARTIFACTS=" + artifacts}, Limits: agent.Limits{Timeout: time.Minute},
		Opened: func(s string) { y.Opened = s },
	}
	return y
}

// Run lets an agent make the attempt, and checks that it leaves no process.
func (l *Lab) Run(ctx context.Context, a agent.Agent, y *Try) *Try {
	l.T.Helper()
	y.Res, y.Err = a.Run(ctx, y.Req, func(e agent.Event) error { y.Events = append(y.Events, e); return nil })
	if left := Tagged(y.Req.Tag); len(left) > 0 {
		l.T.Errorf("processes %v are left", left)
	}
	return y
}

// Log returns what is known about an attempt, for a test that failed.
func (y *Try) Log() string {
	return fmt.Sprintf("%v\n%s\n%+v\n%.20000s\n%.4000s", y.Err, y.Res.Output, y.Events, y.Raw.String(), y.Stderr.String())
}

// Fails returns the failure that the attempt must have ended with.
func (y *Try) Fails(t *testing.T, kind string) *agent.Failure {
	t.Helper()
	var f *agent.Failure
	if !errors.As(y.Err, &f) || f.Kind != kind {
		t.Fatalf("want a failure of kind %s\n%s", kind, y.Log())
	}
	return f
}
