package control

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/engine"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// again is a role that works until it is done.
const again = `
version: 1
name: test
context: {tokens: 2000}
roles: {work: {description: works}}
graph:
  $START: {new: {role: work, prompt: "{{ prompt }}"}}
  work: {bad: {role: work, prompt: "once more, please"}, done: {role: $END, prompt: over}}
`

// A memorious agent has sessions, and knows what each of them has been told.
type memorious struct {
	holds  map[string]string
	turns  int
	words  int    // words of each answer
	tools  int    // bytes that its tools tell it in each turn
	before func() // before it answers
	begun  []int  // turns with which sessions began
	most   int    // bytes that a session held, with a prompt
}

func (m *memorious) run(_ context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
	if req.Role == thread.RoleCompact {
		return agent.Result{Output: []byte("The work goes on."), Session: "summary"}, nil
	}
	m.turns++
	session := req.Session
	if session == "" {
		session = fmt.Sprint("s", m.turns)
		m.begun = append(m.begun, m.turns)
	}
	req.Opened(session)
	m.most = max(m.most, len(m.holds[session])+len(req.Prompt))
	m.holds[session] += req.Prompt
	if m.before != nil {
		m.before()
	}
	if m.tools > 0 {
		seen := strings.Repeat("x", m.tools)
		m.holds[session] += seen
		if err := emit(agent.Event{Kind: agent.EventCommand, ID: "1", Phase: "completed", Text: "ls", Output: seen}); err != nil {
			return agent.Result{}, err
		}
	}
	said := "---\n$status: bad\n---\n" + strings.Repeat("word ", m.words)
	if m.turns >= 30 {
		said = status("done")
	}
	m.holds[session] += said
	return agent.Result{Output: []byte(said), Sandbox: "none", Session: session}, nil
}

// What a session holds stays within the quota: the conversation is summarized, or told again where little was said,
// and a new session begins. It is the same when a process does each turn, and changes nothing of the outcome.
func TestSessionsStayWithinTheQuota(t *testing.T) {
	const quota, newest = 4 * 2000, 1000
	digests := map[string]dag.Hash{}
	for _, tt := range []struct {
		name         string
		words, tools int
		kind         string
		summaries    bool
		interrupt    bool
	}{
		{name: "talk", words: 80, kind: "codex", summaries: true},
		{name: "talk", words: 80, kind: "codex", summaries: true, interrupt: true},
		{name: "talk", words: 80, kind: "replay"}, // it cannot summarize
		{name: "tools", words: 1, tools: 3000, kind: "codex"},
	} {
		m := &memorious{holds: map[string]string{}, words: tt.words, tools: tt.tools}
		h := newHouse(t, map[string]scripted{"work": m.run, thread.RoleCompact: m.run})
		h.kind = tt.kind
		h.wrap = func(a agent.Agent) agent.Agent { return &sessioned{Agent: a} }
		row := h.begin(h.controller(), again)
		for row.Status != store.Completed {
			ctx, cancel := context.WithCancel(t.Context())
			if m.before = nil; tt.interrupt {
				m.before = cancel
			}
			var err error
			row, err = h.controller().Drive(ctx, row.ID, Resume{})
			cancel()
			if err != nil && !errors.Is(err, engine.ErrInterrupted) {
				t.Fatal(err)
			}
		}
		if tt.interrupt != (m.before != nil) || m.turns != 30 || len(m.begun) < 2 || len(m.begun) > 20 {
			t.Errorf("%s: %d turns, sessions began with %v", tt.name, m.turns, m.begun)
		}
		if m.most > quota+newest+tt.tools {
			t.Errorf("%s with %s: a session held %d bytes", tt.name, tt.kind, m.most)
		}
		if got := strings.Contains(fmt.Sprint(h.roles(row)), thread.RoleCompact); got != tt.summaries {
			t.Errorf("%s with %s: summarised: %v", tt.name, tt.kind, got)
		}
		if had, ok := digests[tt.name]; ok && had != h.digest(row) {
			t.Errorf("%s with %s, interrupted %v: another outcome", tt.name, tt.kind, tt.interrupt)
		}
		digests[tt.name] = h.digest(row)
	}
}

// After a summary by hand a session is not continued, whatever thread of the task wrote the summary, nor branched off.
func TestSummaryBeginsASession(t *testing.T) {
	var saw []worked
	var prompts []string
	work := func(_ context.Context, req agent.Request, _ func(agent.Event) error) (agent.Result, error) {
		w := worked{Session: req.Session, Whole: strings.Contains(req.Prompt, "# Your role")}
		if req.From != nil {
			w.From = req.From.Session
		}
		session := req.Session
		if session == "" {
			session = fmt.Sprint("s", len(saw)+1)
		}
		req.Opened(session)
		saw, prompts = append(saw, w), append(prompts, req.Prompt)
		out := `{"$status":"$SUSPEND","reason":"and now?"}`
		return agent.Result{Output: []byte(out), Sandbox: "none", Session: session, Turn: "turn-" + session}, nil
	}
	h := newHouse(t, map[string]scripted{"work": work, thread.RoleCompact: say("It is half done.")})
	h.wrap = func(a agent.Agent) agent.Agent { return forking{&sessioned{Agent: a}} }
	c := h.controller()
	row := h.run(again)
	turn := func(id string, o Options) { h.drive(h.controller(), id, Resume{Prompt: "more", Options: o}) }
	turn(row.ID, Options{})
	early, err := c.Fork(t.Context(), Fork{Thread: row.ID})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.controller().Compact(t.Context(), Compaction{Thread: row.ID}); err != nil {
		t.Fatal(err)
	}
	late, err := c.Fork(t.Context(), Fork{Thread: row.ID})
	if err != nil {
		t.Fatal(err)
	}
	turn(row.ID, Options{})                     // anew
	turn(row.ID, Options{})                     // goes on
	turn(early.ID, Options{})                   // a branch: nothing was summarized there
	turn(late.ID, Options{})                    // anew
	turn(row.ID, Options{Context: ContextFull}) // anew, with all of it
	turn(row.ID, Options{})                     // goes on
	want := []worked{{Whole: true}, {Session: "s1"}, {Whole: true}, {Session: "s3"}, {From: "s1"}, {Whole: true},
		{Whole: true}, {Session: "s7"}}
	if diff := cmp.Diff(want, saw); diff != "" {
		t.Errorf("sessions: -want +got\n%s", diff)
	}
	for _, i := range []int{2, 5} {
		if !strings.Contains(prompts[i], "It is half done.") || strings.Count(prompts[i], "do it") != 1 {
			t.Errorf("prompt %d:\n%s", i+1, prompts[i])
		}
	}
	if strings.Contains(prompts[6], "It is half done.") || !strings.Contains(prompts[6], "and now?") {
		t.Errorf("the prompt with the whole context:\n%s", prompts[6])
	}
}
