package control

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/app/config"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/testing/housetest"
	"github.com/plait-run/plait/internal/testing/mem"
	"github.com/plait-run/plait/internal/testing/storetest"
)

// rootID is the id of every thread that a test compares by hash.
const rootID = "01JD0000000000000000000000"

// A scripted agent plays one role.
type scripted = housetest.Role

func say(answers ...string) scripted { return housetest.Say(answers...) }
func status(s string) string         { return housetest.Status(s) }

// A house is a store, a workspace and scripted agents.
type house struct {
	t       *testing.T
	store   store.Store
	dir     string
	home    string
	agents  map[string]scripted // by role
	limits  flow.Limits
	setup   []string // of worktrees
	log     storetest.Witness
	options Options // begin passes them to a task
	kind    string  // of the agents
	// wrap gives the agents more capabilities; nil leaves them unchanged.
	wrap func(agent.Agent) agent.Agent

	clock func() time.Time

	mu   sync.Mutex
	runs map[string]int // attempts by role
}

func newHouse(t *testing.T, agents map[string]scripted) *house {
	t.Helper()
	return &house{t: t, store: mem.New(mem.Config{Proven: true}), dir: t.TempDir(), home: t.TempDir(), agents: agents,
		kind: "replay", runs: map[string]int{},
		clock: func() time.Time { return time.UnixMilli(1_700_000_000_000) }}
}

// stated returns b with an event that accounts for its changes to the rows of a task.
func stated(task string, b store.Batch) store.Batch {
	b.Events = append(b.Events, event.New(store.Thread{ID: task, Task: task}, 1, event.TaskOptions{}))
	return b
}

// controller returns a new driver on the house's store, like one in a new process.
func (h *house) controller() *Controller {
	settings := housetest.Settings("scripted", "other")
	settings.Limits, settings.Setup.V = h.limits, h.setup
	settings.Agents["scripted"] = config.Value[flow.Agent]{V: flow.Agent{Kind: h.kind}}
	return New(Config{
		Store: h.store, Home: h.home, Backoff: time.Microsecond,
		PollNotes: true, // waiting for the system would stop synctest's clock
		Settings:  settings,
		Agent: func(name string, _ flow.Agent, _ AgentOptions) (agent.Agent, error) {
			var a agent.Agent = scripted(func(ctx context.Context, req agent.Request,
				emit func(agent.Event) error) (agent.Result, error) {
				h.mu.Lock()
				h.runs[req.Role]++
				h.runs[req.Role+"@"+name]++
				h.mu.Unlock()
				return h.agents[req.Role](ctx, req, emit)
			})
			if h.wrap != nil {
				a = h.wrap(a)
			}
			return a, nil
		},
		Now: h.clock,
	})
}

func (h *house) begin(c *Controller, yaml string) store.Thread {
	h.t.Helper()
	found := mustPack(h.t, yaml)
	row, err := c.Begin(h.t.Context(), Spec{Bundle: found.Bundle, Prompt: "do it", Workspace: h.dir, ID: rootID,
		Options: h.options})
	if err != nil {
		h.t.Fatal(err)
	}
	return row
}

// run begins a thread and drives it.
func (h *house) run(yaml string) store.Thread {
	h.t.Helper()
	c := h.controller()
	return h.drive(c, h.begin(c, yaml).ID, Resume{})
}

func (h *house) drive(c *Controller, id string, r Resume) store.Thread {
	h.t.Helper()
	row, err := c.Drive(h.t.Context(), id, r)
	if err != nil {
		h.t.Fatal(err)
	}
	return row
}

func (h *house) digest(row store.Thread) dag.Hash {
	h.t.Helper()
	d, err := h.controller().Reader().Digest(h.t.Context(), row.Head)
	if err != nil {
		h.t.Fatal(err)
	}
	return d
}

// roles lists the chain's roles, oldest first.
func (h *house) roles(row store.Thread) []string {
	h.t.Helper()
	steps, err := h.controller().Reader().Steps(h.t.Context(), row.Head)
	if err != nil {
		h.t.Fatal(err)
	}
	var out []string
	for _, s := range steps {
		out = append(out, s.State.Role)
	}
	return out
}

func (h *house) attempts(row store.Thread) []store.Attempt {
	h.t.Helper()
	out, err := h.store.Attempts(h.t.Context(), store.AttemptFilter{Thread: row.ID})
	if err != nil {
		h.t.Fatal(err)
	}
	return out
}

// wantStatus fails the test unless the row has the status; reason is a blocked row's
// kind.
func wantStatus(t *testing.T, row store.Thread, status store.Status, reason store.ReasonKind) {
	t.Helper()
	got := store.ReasonKind("")
	if row.Reason != nil && row.Status == store.Blocked {
		got = row.Reason.Kind
	}
	if row.Status != status || got != reason {
		t.Fatalf("thread is %s{%s} (%+v), want %s{%s}", row.Status, got, row.Reason, status, reason)
	}
}

// loop is a flow with a cycle: a worker whose work is reviewed until it is good.
const loop = `
version: 1
name: test
roles:
  plan: {description: plans}
  work: {description: works}
  review: {description: reviews}
graph:
  $START: {new: {role: plan, prompt: "{{ prompt }}"}}
  plan: {ready: {role: work, prompt: "begin"}}
  work: {done: {role: review, prompt: "look at this:\n{{ _body }}"}}
  review:
    bad: {role: work, prompt: "again"}
    good: {role: $END, prompt: "good"}
`

func loopAgents() map[string]scripted {
	return map[string]scripted{
		"plan":   say("---\n$status: ready\n---\nThe plan."),
		"work":   say("---\n$status: done\n---\nFirst try.", "---\n$status: done\n---\nSecond try."),
		"review": say(status("bad"), status("good")),
	}
}

var errBroken = errors.New("the disk is gone")

func mustPack(t *testing.T, yaml string) Found {
	t.Helper()
	found, err := Pack(housetest.Flow(t, yaml))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func contains(text any, part string) bool {
	s, _ := text.(string)
	return strings.Contains(s, part)
}

// replaceOnce panics if old does not occur in s.
func replaceOnce(s, old, with string) string {
	if strings.Count(s, old) != 1 {
		panic(fmt.Sprintf("%q stands %d times", old, strings.Count(s, old)))
	}
	return strings.Replace(s, old, with, 1)
}
