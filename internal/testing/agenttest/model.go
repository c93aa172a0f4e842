package agenttest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/agent/scripted"
	"github.com/plait-run/plait/internal/testing/soak"
)

// A Model is a scripted model for an agent under test.
type Model struct {
	URL  string // base URL of its APIs, "http://127.0.0.1:PORT/v1"
	Asks bool   // a person must approve each command that it asks for
}

type modelCase struct {
	name string
	run  func(*lab, *testing.T)
}

// modelCases are the cases with a scripted model, by the names that Config.Lacks uses.
var modelCases = []modelCase{
	{"Items", (*lab).items},
	{"Usage", (*lab).usage},
	{"Odd", (*lab).odd},
	{"Approved", func(l *lab, t *testing.T) { l.asked(t, true) }},
	{"Denied", func(l *lab, t *testing.T) { l.asked(t, false) }},
	{"DeniedReason", (*lab).deniedReason},
	{"Edited", (*lab).edited},
	{"AskFails", (*lab).askFails},
	{"AskCancelled", (*lab).askCancelled},
	{"AskWaits", (*lab).askWaits},
	{"ToolWaits", (*lab).toolWaits},
	{"Steered", (*lab).steered},
	{"SteeredLate", (*lab).steeredLate},
	{"SteeredInVain", (*lab).steeredInVain},
	{"Continued", (*lab).continued},
	{"Forked", func(l *lab, t *testing.T) { l.forked(t, false) }},
	{"ForkedAtTurn", func(l *lab, t *testing.T) { l.forked(t, true) }},
	{"Shaped", (*lab).shaped},
	{"KilledAtStart", (*lab).killedAtStart},
	{"KilledInCommand", (*lab).killedInCommand},
	{"KilledInAnswer", (*lab).killedInAnswer},
	{"CancelledInCommand", (*lab).cancelledInCommand},
	{"Silent", (*lab).silent},
	{"Cut", func(l *lab, t *testing.T) { l.breaks(t, "cut", agent.Infra, nil) }},
	{"CutOnce", (*lab).cutOnce},
	{"Status400", func(l *lab, t *testing.T) { l.breaks(t, "400", agent.Infra, yes) }},
	{"Status401", func(l *lab, t *testing.T) { l.breaks(t, "401", agent.Infra, yes) }},
	{"Status402", func(l *lab, t *testing.T) { l.breaks(t, "402", agent.Limit, nil) }},
	{"Status429", func(l *lab, t *testing.T) { l.breaks(t, "429", agent.Limit, nil) }},
	{"Status500", func(l *lab, t *testing.T) { l.breaks(t, "500", agent.Infra, no) }},
}

var yes, no = new(true), new(false)

// runModel runs the cases with a model: all of them, or a random sample on a machine of less than a third of the speed
// at which all take a reasonable time.
func (s suite) runModel(t *testing.T) {
	for name := range s.cfg.Lacks {
		if !slices.ContainsFunc(modelCases, func(c modelCase) bool { return c.name == name }) {
			t.Errorf("Lacks names %q, which is no case", name)
		}
	}
	var names []string
	for _, c := range modelCases {
		names = append(names, c.name)
	}
	chosen := soak.Portion(t, names, 3*len(names))
	l := s.newLab(t)
	for _, c := range modelCases {
		if !slices.Contains(chosen, c.name) {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			if why, ok := s.cfg.Lacks[c.name]; ok {
				t.Skipf("this kind cannot: %s", why)
			}
			c.run(l, t)
		})
	}
}

// A lab is a scripted model with an agent of the kind that works with it.
type lab struct {
	suite
	model Model
	agent agent.Agent

	mu   sync.Mutex
	seen []string // the bodies of the requests to the model
	came func(body string)
}

func (s suite) newLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{suite: s}
	l.model.URL = ServeScenario(t, scenario, func(r scripted.Request) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.seen = append(l.seen, string(r.Body))
		if l.came != nil {
			l.came(string(r.Body))
		}
	}).URL()
	l.agent = s.cfg.Model(t, l.model)
	return l
}

// asking returns the lab with an agent whose commands a person must approve.
func (l *lab) asking(t *testing.T) *lab {
	t.Helper()
	m := Model{URL: l.model.URL, Asks: true}
	return &lab{suite: l.suite, model: m, agent: l.cfg.Model(t, m)}
}

// ServeScenario serves the model of a scenario until the test ends. seen, if not nil, is called for each request.
func ServeScenario(t *testing.T, scenario string, seen func(scripted.Request)) *scripted.Server {
	t.Helper()
	file := filepath.Join(t.TempDir(), "scenario.yaml")
	if err := os.WriteFile(file, []byte(scenario), 0o600); err != nil {
		t.Fatal(err)
	}
	sc, err := scripted.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	m, err := scripted.Open(scripted.Config{Scenario: sc, Requests: seen})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// when calls f, once, as soon as a request to the model contains mark.
func (l *lab) when(t *testing.T, mark string, f func()) {
	var once sync.Once
	l.mu.Lock()
	defer l.mu.Unlock()
	l.came = func(body string) {
		if strings.Contains(body, mark) {
			once.Do(f)
		}
	}
	t.Cleanup(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.came = nil
	})
}

// last returns the last request to the model that contains mark.
func (l *lab) last(t *testing.T, mark string) string {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, body := range slices.Backward(l.seen) {
		if strings.Contains(body, mark) {
			return body
		}
	}
	t.Fatalf("no request to the model has %q", mark)
	return ""
}

// holds checks which texts a request to the model contains.
func holds(t *testing.T, body string, want map[string]bool) {
	t.Helper()
	for text, there := range want {
		if strings.Contains(body, text) != there {
			t.Errorf("%q in the request to the model: %t, want %t", text, !there, there)
		}
	}
}

// try returns a request with its own home and tree.
func (l *lab) try(t *testing.T, prompt string) *try {
	t.Helper()
	y := newTry(t)
	y.req.Prompt, y.req.Access, y.req.Home, y.req.Scratch = prompt, agent.Write, t.TempDir(), t.TempDir()
	y.req.Timeout = 2 * time.Minute
	y.req.Opened = func(session string) { y.session.Store(&session) }
	return y
}

// after returns another request for the same task: it shares the home and the tree of y.
func (l *lab) after(t *testing.T, y *try, prompt, session string) *try {
	t.Helper()
	z := l.try(t, prompt)
	z.req.Home, z.req.Scratch, z.req.Dir, z.req.Session = y.req.Home, y.req.Scratch, y.req.Dir, session
	return z
}

// runs runs the agent of the lab.
func (l *lab) runs(ctx context.Context, t *testing.T, y *try, on func(agent.Event) error) {
	t.Helper()
	if l.cfg.Dress != nil {
		l.cfg.Dress(l.model, &y.req)
	}
	l.run(ctx, t, l.agent, y, on)
}

// works runs the agent, which must succeed.
func (l *lab) works(t *testing.T, y *try, on func(agent.Event) error) agent.Result {
	t.Helper()
	l.runs(t.Context(), t, y, on)
	if y.err != nil {
		t.Fatalf("Run returned %v\nraw: %s\nstderr: %s", y.err, y.raw.Bytes(), y.stderr.Bytes())
	}
	return y.result
}

// breaks runs the agent with a model that fails.
func (l *lab) breaks(t *testing.T, what, kind string, final *bool) {
	t.Parallel() // agents wait before they retry
	y := l.try(t, "case "+what)
	l.runs(t.Context(), t, y, nil)
	failure(t, y, kind)
	var f *agent.Failure
	if errors.As(y.err, &f) && final != nil && f.Final != *final {
		t.Errorf("got %+v, want final: %t", f, *final)
	}
}

// of returns the events of a kind and, unless phase is empty, of that phase.
func (y *try) of(kind, phase string) []agent.Event {
	var found []agent.Event
	for _, e := range y.events {
		if e.Kind == kind && (phase == "" || e.Phase == phase) {
			found = append(found, e)
		}
	}
	return found
}

// exists reports whether a file is in the tree.
func (y *try) exists(name string) bool {
	_, err := os.Stat(filepath.Join(y.req.Dir, name))
	return err == nil
}

// put creates an empty file in the tree.
func (y *try) put(name string) { os.WriteFile(filepath.Join(y.req.Dir, name), nil, 0o600) }

// begun calls f, once, when the command of a case "wait" runs.
func (y *try) begun(t *testing.T, f func()) {
	t.Helper()
	over := make(chan struct{})
	var looking sync.WaitGroup
	looking.Go(func() {
		for !y.exists("begun") {
			select {
			case <-over:
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
		f()
	})
	t.Cleanup(func() { close(over); looking.Wait() })
}

// A homed agent gives each request its own home.
type homed struct {
	l    *lab
	full bool
	t    *testing.T
}

func (h homed) Run(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
	req.Home, req.Scratch = h.t.TempDir(), h.t.TempDir()
	if h.full { // a sandbox would end its commands by itself
		req.Access = agent.Full
	}
	if h.l.cfg.Dress != nil {
		h.l.cfg.Dress(h.l.model, &req)
	}
	return h.l.agent.Run(ctx, req, emit)
}

// follow makes an agent with a model that makes it follow the script.
func (s suite) follow(t *testing.T, script Script) agent.Agent {
	t.Helper()
	m := Model{URL: ServeScenario(t, Scenario(script), nil).URL()}
	return homed{&lab{suite: s, model: m, agent: s.cfg.Model(t, m)}, script.End == Leaves || script.End == Stubborn, t}
}

// Scenario returns a model's scenario that makes an agent with commands follow a script. What the agent does
// besides talking, it does with commands.
func Scenario(s Script) string {
	said := fmt.Sprintf("    - say: %q\n", s.Text)
	then := func(cmd, step string) string {
		return fmt.Sprintf("turns:\n- steps:\n  - items:\n%s    - run: {cmd: %q, yield_ms: 500}\n%s", said, cmd, step)
	}
	switch s.End {
	case Fails:
		return then("true", "  - fail: {status: 400, body: broken}\n")
	case Hangs:
		return then("true", "  - silent: true\n")
	case Stubborn:
		return then("trap '' INT TERM HUP; while :; do sleep 60; done", "  - silent: true\n")
	case Leaves:
		return then("setsid sh -c 'trap \"\" INT TERM HUP; exec env -i sleep 60' >/dev/null 2>&1 &",
			fmt.Sprintf("  - items:\n    - answer: %q\n", s.Text))
	}
	return fmt.Sprintf("turns:\n- steps:\n  - items:\n    - answer: %q\n", bytes.TrimSpace(s.Text))
}
