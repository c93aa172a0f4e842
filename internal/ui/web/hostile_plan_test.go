package web

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"unicode"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/testing/housetest"
)

// plan writes a plan whose actions have payloads in every field.
func (s spray) plan(n int) string {
	var list []any
	for i, p := range s.each("prompt")[:n] {
		list = append(list, map[string]any{"id": fmt.Sprint("a", i), "title": s.each("title")[i], "prompt": p})
	}
	return string(mustJSON(map[string]any{"sessionGoal": s.all("goal"), "actions": list, "onFailed": "plan"}))
}

// paths returns file names that evidence can refer to: those without control characters.
func (s spray) paths() (out []string) {
	for _, name := range s.names("epath") {
		out = append(out, strings.Map(func(c rune) rune {
			if unicode.IsControl(c) {
				return '_'
			}
			return c
		}, name))
	}
	return out
}

// works plays the agent of action i.
func (s spray) works(i int, blocked bool, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
	zero := 0
	if err := emit(agent.Event{Kind: agent.EventCommand, ID: "c", Phase: "completed", Text: s.each("cmd")[i],
		Output: s.each("out")[i], Exit: &zero}); err != nil {
		return agent.Result{}, err
	}
	name := s.names("left")[i]
	if err := os.WriteFile(filepath.Join(req.Desk.Artifacts, name), []byte(name), 0o644); err != nil {
		return agent.Result{}, err
	}
	out := map[string]any{"status": []string{"success", "failed"}[i%2], "summary": s.each("summary")[i],
		"artifacts": []string{name},
		"evidence": []any{map[string]any{"id": "e", "kind": "file-anchor",
			"title": strings.ReplaceAll(s.each("etitle")[i], "\n", " "), "path": s.paths()[i], "startLine": 1, "endLine": 1}}}
	if i == 0 {
		out["errors"], out["nextActions"] = s.each("errors"), s.each("next")
	}
	if blocked {
		out["status"], out["summary"], out["questions"] = "blocked", s.all("wants"), s.each("question")
	}
	return housetest.Answer(req, emit, string(mustJSON(out)))
}

// TestHostilePlans has a model plan, work, ask and finish with payloads, and shows the result in a
// real browser.
func TestHostilePlans(t *testing.T) {
	t.Parallel()
	var now atomic.Pointer[spray]
	agents, asks := map[string]scripted{}, new(atomic.Value)
	agents["planner"] = func(_ context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
		switch s := now.Load(); {
		case asks.Load() == "ask":
			return housetest.Answer(req, emit, string(mustJSON(map[string]any{"ask": map[string]any{"question": s.all("ask")}})))
		case asks.Load() == "blocked":
			return housetest.Answer(req, emit, s.plan(1))
		case req.Visit == 0:
			return housetest.Answer(req, emit, s.plan(len(s.part)))
		default:
			return housetest.Answer(req, emit,
				string(mustJSON(map[string]any{"finish": map[string]any{"summary": s.all("end"),
					"report": s.all("report") + "\n\nevidence:a0.e evidence:a0.cmd-1"}})))
		}
	}
	for i := range 32 {
		agents[fmt.Sprint("a", i)] = func(_ context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result,
			error) {
			return now.Load().works(i, asks.Load() == "blocked", req, emit)
		}
	}
	h := newHouse(t, agents)
	b, c, seen := h.open("").browse(), h.controller(), shown{}
	found, err := c.Find(t.Context(), h.dir, "orchestrate")
	if err != nil {
		t.Fatal(err)
	}
	run := func(how string) store.Thread {
		t.Helper()
		asks.Store(how)
		row, err := c.Begin(t.Context(), control.Spec{Bundle: found.Bundle, Prompt: "the " + how, Workspace: h.dir})
		if err == nil {
			row, err = c.Drive(t.Context(), row.ID, control.Resume{})
		}
		if err != nil {
			t.Fatal(err)
		}
		return row
	}
	for _, s := range sprays(t, 32, 3800) {
		now.Store(&s)
		for _, name := range s.paths() {
			h.write(filepath.Join(h.dir, name), "x\n")
		}
		for _, how := range []string{"ask", "blocked"} {
			row := run(how)
			if row.Status != store.Blocked {
				t.Fatalf("%+v", row)
			}
			open, err := h.store.Gates(t.Context(), store.GateFilter{Task: row.ID, State: store.GateOpen})
			if err != nil {
				t.Fatal(err)
			}
			for _, g := range open {
				b.harmless(seen, "/?at="+g.ID)
			}
		}
		row := run("plan")
		if row.Status != store.Completed {
			t.Fatalf("%s: %+v", row.Status, row.Reason)
		}
		var plan dag.Hash
		for st, err := range c.Reader().Walk(t.Context(), row.Head) {
			if err != nil {
				t.Fatal(err)
			}
			if st.State.Role == "planner" {
				plan = st.Hash
			}
		}
		all, err := h.store.Threads(t.Context(), store.ThreadFilter{Task: row.ID})
		if err != nil {
			t.Fatal(err)
		}
		one := all[slices.IndexFunc(all, func(th store.Thread) bool { return th.Path != nil && th.Path.ID == "a0" })]
		first := one.Head
		for st, err := range c.Reader().Walk(t.Context(), one.Head) {
			if err != nil {
				t.Fatal(err)
			}
			if st.State.Role == "a0" {
				first = st.Hash
			}
		}
		at := "/tasks/" + row.ID
		b.harmless(seen, at, at+"?tab=evidence", at+"?tab=reports", "/threads/"+row.ID, "/steps/"+plan.String(),
			"/threads/"+one.ID, "/steps/"+first.String(), at+"/read/shared/state-board.md")
	}
	b.harmless(seen, "/", "/tasks")
	b.silent()
	if lacks := seen.lacks(t, "prompt", "title", "goal", "cmd", "out", "left", "summary", "errors", "next", "etitle", "epath",
		"wants", "question", "ask", "end", "report"); len(lacks) > 0 {
		t.Errorf("not shown: %.3000q", lacks)
	}
}
