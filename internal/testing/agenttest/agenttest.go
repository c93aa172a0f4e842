// Package agenttest is the conformance suite of agents, and a fake agent to run
// it with.
//
// It is given a way to make an agent that follows a Script. Run checks from
// outside, through the request's writers, the events and the process table, what
// package agent promises of every agent:
//
//   - events in order, from one goroutine at a time, none after Run returned
//   - the raw log has each byte before the event that was made from it
//   - it ends on cancel, on an error from emit, and on both timeouts, with the
//     right failure, and leaves no process
//   - no secret and no PLAIT_HOME in the environment of any of its processes
//   - concurrent runs do not mix
//
// A kind that works with a model also runs the cases with a scripted one: events
// and usage, questions to people, steering, sessions that are continued and
// forked, answers by a schema, kills in each phase, failures of the model. It
// sets Config.Model, and then needs no Config.New.
//
// A Config declares what a kind of agent genuinely cannot do; a declared
// difference is reported as skipped, with its reason. What is not declared must
// hold.
package agenttest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/agent"
)

// An Ending is how a scripted agent ends.
type Ending string

// The endings.
const (
	Done     Ending = "done"     // answers Text and succeeds
	Fails    Ending = "fails"    // says Text and fails: a crash, a bad exit
	Hangs    Ending = "hangs"    // says Text, emits something, and stays silent
	Stubborn Ending = "stubborn" // the same, ignoring polite signals
	Leaves   Ending = "leaves"   // succeeds but leaves a daemon behind
)

// A Script is what an agent under test should do.
type Script struct {
	Text []byte // plain lines; with Config.Exact, any bytes
	End  Ending
}

// A Config says how to make the agents of one kind.
type Config struct {
	// New makes an agent that follows the script. Nil: an agent of Model follows it, directed by its model.
	New func(t *testing.T, s Script) agent.Agent

	// Model makes an agent that works with a scripted model. Nil: this kind has none. All cases
	// share one agent, some concurrently, and use the homes of several tasks.
	Model func(t *testing.T, m Model) agent.Agent

	// Dress, if set, changes each request to an agent of Model before it is run.
	Dress func(m Model, req *agent.Request)

	// Lacks names cases with a model that this kind cannot show, and why.
	Lacks map[string]string

	// Exact: the transcript is Script.Text and nothing else. Otherwise it
	// contains the text.
	Exact bool

	// Said extracts what the agent said from a raw log that has it in pieces. Nil: the raw log itself.
	Said func(raw []byte) []byte

	// NoProcess: this kind runs no process.
	NoProcess bool

	// Cannot names endings this kind cannot be made to show, and why.
	Cannot map[Ending]string

	// Quiet is how long an agent may say nothing while it starts, on a busy machine. Zero: 10 s.
	Quiet time.Duration

	// Within is how long an agent may take to end when it must, including its
	// grace period. Only a hang takes that long. Zero: 20 s.
	Within time.Duration
}

// canary is in Plait's own environment during the suite.
const canary = "canary-5f2b1c-secret"

// Run runs the suite.
func Run(t *testing.T, cfg Config) {
	if cfg.Within == 0 {
		cfg.Within = 20 * time.Second
	}
	if cfg.Quiet == 0 {
		cfg.Quiet = 10 * time.Second
	}
	t.Setenv("PLAIT_HOME", filepath.Join(t.TempDir(), canary))
	t.Setenv("AGENTTEST_API_TOKEN", canary)
	if cfg.Said == nil {
		cfg.Said = func(raw []byte) []byte { return raw }
	}
	s := suite{cfg}
	if cfg.New == nil {
		s.cfg.New = s.follow
	}
	t.Run("Answers", s.answers)
	t.Run("RawBytes", s.rawBytes)
	t.Run("Fails", s.fails)
	t.Run("CancelledBefore", s.cancelledBefore)
	t.Run("Cancelled", func(t *testing.T) { s.cancelled(t, Hangs) })
	t.Run("CancelledStubborn", func(t *testing.T) { s.cancelled(t, Stubborn) })
	t.Run("EmitError", s.emitError)
	t.Run("Timeout", func(t *testing.T) {
		s.timeout(t, func(r *agent.Request) { r.Timeout = 700 * time.Millisecond })
	})
	t.Run("Idle", func(t *testing.T) { s.timeout(t, func(r *agent.Request) { r.Idle = 700 * time.Millisecond }) })
	t.Run("Daemon", s.daemon)
	t.Run("Environment", s.environment)
	t.Run("Concurrent", s.concurrent)
	if cfg.Model != nil {
		t.Run("Model", s.runModel)
	}
}

type suite struct{ cfg Config }

// make makes an agent, or skips the test if the kind cannot show the ending.
func (s suite) make(t *testing.T, script Script) agent.Agent {
	t.Helper()
	if why, ok := s.cfg.Cannot[script.End]; ok {
		t.Skipf("this kind cannot show %q: %s", script.End, why)
	}
	return s.cfg.New(t, script)
}

// A try is one run of an agent and what was seen of it.
type try struct {
	req     agent.Request
	raw     lockedBuffer
	stderr  lockedBuffer
	started atomic.Pointer[agent.Process]
	session atomic.Pointer[string] // that Opened was called with
	odd     bool                   // what it says is in the raw log in another form
	events  []agent.Event
	result  agent.Result
	err     error

	inside   atomic.Int32 // calls of emit in progress
	returned atomic.Bool
	faults   lockedBuffer // laws broken in other goroutines
}

var tries atomic.Int64

// newTry makes a request with its own desk, tree and tag.
func newTry(t *testing.T) *try {
	t.Helper()
	y := new(try)
	desk := t.TempDir()
	artifacts := filepath.Join(desk, "artifacts")
	if err := os.Mkdir(artifacts, 0o700); err != nil {
		t.Fatal(err)
	}
	tag := fmt.Sprintf("agenttest-%d-%d", os.Getpid(), tries.Add(1))
	y.req = agent.Request{
		Place: agent.Place{Task: "01J0000000000000000000TASK", Thread: "01J0000000000000000000TASK",
			Role: "tester", Attempt: tag, Try: 1},
		Prompt: "Say what the script says.\n", Dir: t.TempDir(), Access: agent.Read,
		Desk: agent.Desk{Artifacts: artifacts, Raw: &y.raw, Stderr: &y.stderr},
		Tag:  tag,
		Env:  []string{"PLAIT_ROLE=tester", "PLAIT_HOME=" + canary},
		Started: func(p agent.Process) {
			if y.started.Swap(&p) != nil {
				y.fault("Started was called twice")
			}
		},
	}
	return y
}

func (y *try) fault(format string, args ...any) { fmt.Fprintf(&y.faults, format+"\n", args...) }

// run runs the agent until it returns and checks what every run must fulfill. on,
// if set, is called within each emit.
func (s suite) run(ctx context.Context, t *testing.T, a agent.Agent, y *try, on func(agent.Event) error) {
	t.Helper()
	over := make(chan struct{})
	go func() {
		defer close(over)
		y.result, y.err = a.Run(ctx, y.req, func(e agent.Event) error { return s.emit(y, e, on) })
		y.returned.Store(true)
	}()
	select {
	case <-over:
	case <-time.After(s.cfg.Within + max(time.Minute, y.req.Timeout)):
		t.Fatal("Run did not return")
	}
	s.check(t, y)
}

func (s suite) emit(y *try, e agent.Event, on func(agent.Event) error) error {
	if y.inside.Add(1) != 1 {
		y.fault("emit was called while it ran")
	}
	defer y.inside.Add(-1)
	if y.returned.Load() {
		y.fault("emit was called after Run returned: %+v", e)
	}
	if e.Kind == "" {
		y.fault("an event has no kind: %+v", e)
	}
	said := e.Kind == agent.EventMessage || e.Kind == agent.EventProgress
	if said && e.Phase != "started" && !y.odd && !told(e) {
		line, _, _ := strings.Cut(strings.TrimSpace(e.Text), "\n")
		if !strings.Contains(line, "\uFFFD") && !bytes.Contains(s.cfg.Said(y.raw.Bytes()), []byte(line)) {
			y.fault("an event came before its bytes were in the raw log: %q", line)
		}
	}
	if e.Exit != nil && *e.Exit < 0 {
		y.fault("an event has the exit code %d: a command that was cut off has none", *e.Exit)
	}
	y.events = append(y.events, e)
	if on != nil {
		return on(e)
	}
	return nil
}

// check checks what must hold after every run.
func (s suite) check(t *testing.T, y *try) {
	t.Helper()
	if faults := y.faults.Bytes(); len(faults) > 0 {
		t.Errorf("%s", faults)
	}
	if left := Tagged(y.req.Tag); len(left) > 0 {
		t.Errorf("Run returned, but processes %v are left", left)
	}
	p := y.started.Load()
	switch {
	case s.cfg.NoProcess && p != nil:
		t.Errorf("Started was called with %+v by an agent without a process", *p)
	case p != nil && (p.PID <= 0 || p.Start <= 0):
		t.Errorf("Started was called with %+v", *p)
	case p != nil:
		if _, err := os.Stat("/proc/" + strconv.Itoa(p.PID)); err == nil {
			t.Errorf("Run returned, but its process %d is there", p.PID)
		}
	}
	if y.err != nil {
		return
	}
	if y.result.Sandbox == "" {
		t.Error("the result does not say which sandbox was enforced")
	}
	if !s.cfg.NoProcess && p == nil {
		t.Error("Started was not called")
	}
}

// failure checks that the attempt ended with a failure of a kind.
func failure(t *testing.T, y *try, kind string) {
	t.Helper()
	var f *agent.Failure
	if !errors.As(y.err, &f) {
		t.Fatalf("Run returned %v, want a Failure of kind %q", y.err, kind)
	}
	if f.Kind != kind || f.Message == "" {
		t.Errorf("got failure %q with message %q, want kind %q with a message", f.Kind, f.Message, kind)
	}
}

// A lockedBuffer is a buffer that may be read and written concurrently.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) Bytes() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Clone(l.b.Bytes())
}
