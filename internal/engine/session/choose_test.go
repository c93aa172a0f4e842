package session

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/testing/housetest"
	"github.com/plait-run/plait/internal/testing/mem"
)

// A vendor's agent continues and forks sessions, as it is told to.
type vendor struct {
	housetest.Role
	continues, forks bool
}

func (v vendor) Continues(r agent.Request) bool { return v.continues && r.Session != "" }
func (v vendor) Forks(r agent.Request) bool {
	return v.forks && r.From.Session != "" && r.Session == ""
}
func (v vendor) SessionHome(home string) string { return filepath.Join(home, "vendor") }
func (v vendor) SessionFiles(home, session string) (string, []string) {
	dir := filepath.Join(home, "sessions")
	if _, err := os.Stat(filepath.Join(dir, session)); err != nil {
		return dir, nil
	}
	return dir, []string{session}
}

// A scene has a task in a store, and a place for the files of its agents.
type scene struct {
	*Keeper
	store *mem.Store
	row   store.Thread
	home  string
}

func newScene(t *testing.T) *scene {
	t.Helper()
	s := mem.New(mem.Config{Proven: true})
	row := housetest.Begin(t.Context(), t, s, store.Thread{ID: "01JD0000000000000000000000", CreatedAt: 1},
		housetest.Bundle(t, housetest.TwoSteps("read")), "go")
	home := t.TempDir()
	return &scene{store: s, row: row, home: home, Keeper: NewKeeper(Config{Store: s, Nodes: thread.NewReader(s),
		Home: func(task string) string { return filepath.Join(home, task) }})}
}

// step makes a step of a role in a session, by an attempt.
func (s *scene) step(t *testing.T, role, session, text string, more ...store.Object) store.Attempt {
	t.Helper()
	a := store.Attempt{ID: thread.AttemptID(s.row.ID, s.row.Steps+1), Thread: s.row.ID, From: s.row.Head, Role: role,
		N: s.row.Steps + 1, Agent: "codex", Status: store.AttemptRunning, Session: session, Turn: "turn-" + session}
	if err := s.store.Forge(t.Context(), store.Batch{Attempts: []store.AttemptChange{{Row: a}}}); err != nil {
		t.Fatal(err)
	}
	var files dag.Hash
	if len(more) > 0 {
		files = more[0].Hash
	}
	s.row = housetest.Append(t.Context(), t, s.store, s.row, thread.Draft{Role: role, Meta: []byte(`{"$status":"done"}`),
		Text: text, At: 1, Detail: &thread.Detail{Agent: "codex", Instance: role, Session: session, Attempt: a.ID,
			Memory: &thread.Memory{Tokens: 100}, Attempts: []thread.EarlierAttempt{}, Context: []thread.ContextUse{},
			SessionFiles: files, Approvals: thread.Answers{Present: true}}}, more...)
	a.Status = store.AttemptDone
	return a
}

// known returns what is known of the sessions of the thread, whose own attempts are those.
func (s *scene) known(t *testing.T, own ...store.Attempt) Sessions {
	t.Helper()
	steps, err := thread.NewReader(s.store).Steps(t.Context(), s.row.Head)
	if err != nil {
		t.Fatal(err)
	}
	all := New()
	for _, a := range own {
		var step dag.Hash
		if a.Status == store.AttemptDone {
			for _, made := range steps {
				if d, _ := thread.NewReader(s.store).Detail(t.Context(), made.State.Detail); d.Attempt == a.ID {
					step = made.Hash
				}
			}
		}
		all.Add(a, step)
	}
	if err := s.Recall(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	if err := s.Find(t.Context(), all, steps); err != nil {
		t.Fatal(err)
	}
	return all
}

func (s *scene) at(quota int) *record.Position {
	return &record.Position{Row: s.row, Def: &flow.Definition{Context: flow.Context{Tokens: quota}}}
}

// TestChoose checks in which session an attempt works, and what its prompt may leave out.
func TestChoose(t *testing.T) {
	s := newScene(t)
	first := s.step(t, "first", "s1", "said")
	head := s.row.Head
	branch := &agent.Branch{Home: filepath.Join(s.home, s.row.Task), Session: "s1", Turn: "turn-s1"}
	held := &thread.Memory{Tokens: 100}
	cutOff := store.Attempt{ID: "x.2", From: head, Role: "first", N: 2, Status: store.AttemptInterrupted,
		Failure: &store.Failure{Kind: store.FailureInterrupted}}
	wrong := store.Attempt{ID: "x.3", From: head, Role: "first", N: 3, Status: store.AttemptFailed, Session: "s1",
		Failure: &store.Failure{Kind: store.FailureInvalidOutput}}
	both := vendor{continues: true, forks: true}
	for name, tt := range map[string]struct {
		agent   agent.Agent
		name    string
		own     []store.Attempt
		inherit bool
		quota   int
		tries   []store.Attempt
		want    Choice
	}{
		"its own goes on": {agent: both, own: []store.Attempt{first}, quota: 1000,
			want: Choice{Session: "s1", Memory: held, Since: head, By: first.ID, Quota: 900}},
		"little is left of the quota": {agent: both, own: []store.Attempt{first}, quota: 112,
			want: Choice{Session: "s1", Memory: held, Since: head, By: first.ID, Quota: 12}},
		"too much is in it": {agent: both, own: []store.Attempt{first}, quota: 111, want: Choice{Quota: 111, By: first.ID}},
		"it cannot go on": {agent: vendor{}, own: []store.Attempt{first}, quota: 1000,
			want: Choice{Quota: 1000, By: first.ID, Lost: head}},
		"it is lost": {agent: both, own: []store.Attempt{first, cutOff}, quota: 1000,
			want: Choice{Quota: 1000, By: first.ID, Lost: head}},
		"its answer was wrong": {agent: both, own: []store.Attempt{first, wrong}, quota: 1000,
			tries: []store.Attempt{wrong}, want: Choice{Session: "s1", Memory: held, Since: head, By: "x.3", Quota: 900}},
		"another thread's is branched off": {agent: both, inherit: true, quota: 1000,
			want: Choice{From: branch, Memory: held, Since: head, By: first.ID, Quota: 900}},
		"another agent's is not": {agent: both, name: "claude", inherit: true, quota: 1000,
			want: Choice{Quota: 1000, By: first.ID, Lost: head}},
		"nor by one that cannot": {agent: vendor{continues: true}, inherit: true, quota: 1000,
			want: Choice{Quota: 1000, By: first.ID, Lost: head}},
		"there is none": {agent: both, quota: 1000, want: Choice{Quota: 1000}},
	} {
		all := s.known(t, tt.own...)
		at := s.at(tt.quota)
		if tt.inherit {
			all.Inherit(at)
		}
		if tt.name == "" {
			tt.name = "codex"
		}
		got, err := s.Choose(t.Context(), at, all, Request{Role: "first", Agent: tt.agent, AgentName: tt.name,
			Tries: tt.tries, Quota: tt.quota})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: -want +got\n%s", name, diff)
		}
		if lost := len(got.Uses()) > 0; lost == got.Lost.IsZero() {
			t.Errorf("%s: lost is told: %v", name, lost)
		}
		own := len(tt.own) == 1 && name != "it cannot go on" || name == "its answer was wrong"
		if s.Continues(at, all, "first", tt.agent) != own {
			t.Errorf("%s: continues is not %v", name, own)
		}
	}
}

// TestChooseInPlan: an agent of a plan that was cut off starts over, unless it is told about its last try.
func TestChooseInPlan(t *testing.T) {
	s := newScene(t)
	first := s.step(t, "first", "s1", "said")
	cut := store.Attempt{ID: "x.2", From: s.row.Head, Role: "first", N: 2, Status: store.AttemptInterrupted, Session: "s1",
		Failure: &store.Failure{Kind: store.FailureInterrupted}}
	for _, noted := range []bool{true, false} {
		for _, plans := range []bool{true, false} {
			at := s.at(1000)
			at.Def.Roles = map[string]flow.Role{"first": {Plan: plans}}
			got, err := s.Choose(t.Context(), at, s.known(t, first, cut), Request{Role: "first",
				Agent: vendor{continues: true}, AgentName: "codex", Tries: []store.Attempt{cut}, HasNote: noted, Quota: 1000})
			if want := noted || !plans; err != nil || (got.Session == "s1") != want {
				t.Errorf("plan %v, note %v: %+v, %v", plans, noted, got, err)
			}
		}
	}
}

// TestHeld counts what was said since the last turn, without what a person said last.
func TestHeld(t *testing.T) {
	s := newScene(t)
	first := s.step(t, "first", "s1", "said")
	own := vendor{continues: true}
	if n, ok, err := s.Held(t.Context(), s.at(1000), s.known(t, first), "first", own); n != 100 || !ok || err != nil {
		t.Errorf("%d, %v, %v", n, ok, err)
	}
	s.step(t, "second", "", string(make([]byte, 400)))
	s.step(t, thread.RoleInput, "", string(make([]byte, 4000)))
	n, ok, err := s.Held(t.Context(), s.at(1000), s.known(t, first), "first", own)
	if n <= 100 || n > 400 || !ok || err != nil {
		t.Errorf("with a step: %d, %v, %v", n, ok, err)
	}
	all := s.known(t, first)
	if _, ok, _ := s.Held(t.Context(), s.at(1000), all, "second", own); ok {
		t.Error("a role without a session holds one")
	}
	if _, ok, _ := s.Held(t.Context(), s.at(1000), all, "first", housetest.Say("")); ok {
		t.Error("an agent that continues nothing holds a session")
	}
	foreign := s.known(t)
	foreign.Inherit(s.at(1000))
	if _, ok, _ := s.Held(t.Context(), s.at(1000), foreign, "first", own); ok {
		t.Error("another thread's session is held")
	}
}

// TestExportAndRestore takes a session to a home that does not have it.
func TestExportAndRestore(t *testing.T) {
	s := newScene(t)
	dir := filepath.Join(s.home, s.row.Task, "sessions")
	put := func(text string) {
		t.Helper()
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "s1"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	v := vendor{continues: true}
	var last store.Attempt
	for _, text := range []string{"one\n", "one\ntwo\n"} {
		put(text)
		bytes := &store.Staging{Store: s.store, Pin: "x"}
		node, err := s.Export(t.Context(), s.at(1000), Export{Role: "first", Agent: v, AgentName: "codex", Session: "s1",
			Bytes: bytes})
		if err != nil || len(bytes.Objects) != 1 || node != bytes.Objects[0].Hash || len(bytes.Unpin()) != 1 {
			t.Fatalf("%s, %v, %v", node, bytes.Objects, err)
		}
		last = s.step(t, "first", "s1", "said", bytes.Objects...)
	}
	same := &store.Staging{Store: s.store, Pin: "x"}
	node, err := s.Export(t.Context(), s.at(1000), Export{Role: "first", Agent: v, Session: "s1", Bytes: same})
	if err != nil || node.IsZero() || len(same.Objects) > 0 {
		t.Errorf("what did not grow is exported as %s, %v, %v", node, same.Objects, err)
	}
	for name, x := range map[string]Export{"no session": {Role: "first", Agent: v},
		"an agent that exports none": {Role: "first", Agent: housetest.Say(""), Session: "s1"}} {
		x.Bytes = same
		if node, err := s.Export(t.Context(), s.at(1000), x); err != nil || !node.IsZero() {
			t.Errorf("%s: %s, %v", name, node, err)
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Choose(t.Context(), s.at(1000), s.known(t, last), Request{Role: "first", Agent: v,
		AgentName: "claude", Quota: 1000}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("the session of one agent is restored for another")
	}
	got, err := s.Choose(t.Context(), s.at(1000), s.known(t, last), Request{Role: "first", Agent: v, AgentName: "codex",
		Quota: 1000})
	if err != nil || got.Session != "s1" {
		t.Fatalf("%+v, %v", got, err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "s1")); err != nil || string(text) != "one\ntwo\n" {
		t.Errorf("restored as %q, %v", text, err)
	}
	put("by the agent")
	if _, err := s.Choose(t.Context(), s.at(1000), s.known(t, last), Request{Role: "first", Agent: v, AgentName: "codex",
		Quota: 1000}); err != nil {
		t.Fatal(err)
	}
	if text, _ := os.ReadFile(filepath.Join(dir, "s1")); string(text) != "by the agent" {
		t.Errorf("what is there is replaced by %q", text)
	}
}

// TestVendor checks what a desk learns of a session.
func TestVendor(t *testing.T) {
	wrong := store.Attempt{Session: "s1", Failure: &store.Failure{Kind: store.FailureInvalidOutput}}
	infra := store.Attempt{Session: "s1", Failure: &store.Failure{Kind: "infra"}}
	other := store.Attempt{Session: "s2", Failure: wrong.Failure}
	for name, tt := range map[string]struct {
		c     Choice
		tries []store.Attempt
		want  agent.Vendor
	}{
		"new":            {want: agent.Vendor{Home: "h/vendor"}},
		"it corrects":    {Choice{Session: "s1"}, []store.Attempt{infra, wrong}, agent.Vendor{Home: "h/vendor", Session: "s1", Corrects: true}},
		"it broke":       {Choice{Session: "s1"}, []store.Attempt{wrong, infra}, agent.Vendor{Home: "h/vendor", Session: "s1"}},
		"of another one": {Choice{Session: "s1"}, []store.Attempt{other}, agent.Vendor{Home: "h/vendor", Session: "s1"}},
		"a new one":      {Choice{}, []store.Attempt{{Failure: wrong.Failure}}, agent.Vendor{Home: "h/vendor"}},
		"a branch": {Choice{From: &agent.Branch{Session: "s1", Turn: "t"}}, nil,
			agent.Vendor{Home: "h/vendor", From: "s1", Turn: "t"}},
	} {
		if diff := cmp.Diff(tt.want, tt.c.Vendor(vendor{}, "h", tt.tries)); diff != "" {
			t.Errorf("%s: -want +got\n%s", name, diff)
		}
	}
}

// TestDone: the session of a step can be branched off by others, and its own thread knows what it holds.
func TestDone(t *testing.T) {
	s := newScene(t)
	all := New()
	a := store.Attempt{ID: "x.1", Role: "first", Agent: "codex", Status: store.AttemptDone, Session: "s1", Turn: "t1"}
	step, memory := dag.SumText("a step"), &thread.Memory{Tokens: 7}
	all.Add(a, step)
	s.Done(all, "task", a, step, memory)
	if own := all.own["first"]; own.memory != memory || own.foreign || own.last != step || own.turn != "t1" {
		t.Errorf("its own is %+v", own)
	}
	path := all.Branch()
	if theirs := path.own["first"]; !theirs.foreign || theirs.home != filepath.Join(s.home, "task") || theirs.memory != memory {
		t.Errorf("that of a path is %+v", theirs)
	}
	a.Session = ""
	s.Done(all, "task", a, step, nil)
	if _, ok := all.steps["first"]; ok || len(path.steps) != 1 {
		t.Error("a step without a session leaves one")
	}
}
