package web

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/testing/housetest"
	"github.com/plait-run/plait/internal/view/taskdir"
)

// does emits a spray as every visible kind of agent activity.
func (s spray) does(emit func(agent.Event) error) error {
	zero := 0
	say := func(field string, ev func(string) agent.Event) error {
		for i, p := range s.each(field) {
			one := ev(p)
			one.ID = fmt.Sprint(field, i)
			if err := emit(one); err != nil {
				return err
			}
		}
		return nil
	}
	other := func(p, field string) string { return strings.ReplaceAll(p, " ;", " ;"+field) }
	for field, ev := range map[string]func(string) agent.Event{
		"msg": func(p string) agent.Event { return agent.Event{Kind: agent.EventMessage, Text: p} },
		"tht": func(p string) agent.Event { return agent.Event{Kind: agent.EventThought, Text: p} },
		"cmd": func(p string) agent.Event {
			return agent.Event{Kind: agent.EventCommand, Phase: "completed", Text: p, Output: other(p, "out"), Exit: &zero}
		},
		"tool": func(p string) agent.Event {
			return agent.Event{Kind: agent.EventTool, Phase: "completed", Text: p, Output: other(p, "out"),
				Detail: mustJSON(map[string]any{p: p})}
		},
		"file": func(p string) agent.Event {
			return agent.Event{Kind: agent.EventFile, Phase: "completed",
				Files: []agent.File{{Path: p, Change: other(p, "chg"),
					Diff: "+" + other(p, "add") + "\n-" + other(p, "del") + "\n@@ " + p}}}
		},
		"err": func(p string) agent.Event { return agent.Event{Kind: agent.EventError, Text: p} },
		"plan": func(p string) agent.Event {
			return agent.Event{Kind: agent.EventPlan, Text: p, Detail: mustJSON([]string{p})}
		},
		"prog": func(p string) agent.Event { return agent.Event{Kind: agent.EventProgress, Text: p} },
	} {
		if err := say(field, ev); err != nil {
			return err
		}
	}
	return nil
}

// maxLeft is how many files an agent may leave: few enough for a page to show all its activity.
const maxLeft = 60

// leave writes files named after payloads, each with its name as content.
func (s spray) leave(dir string) error {
	names := s.names("art")
	for _, name := range names[:min(len(names), maxLeft)] {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o644); err != nil {
			return fmt.Errorf("%q: %w", name, err)
		}
	}
	return nil
}

// work plays an agent that uses a spray wherever it can say something.
func (s spray) work(req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
	if err := s.does(emit); err != nil {
		return agent.Result{}, err
	}
	if err := s.leave(req.Desk.Artifacts); err != nil {
		return agent.Result{}, err
	}
	meta := map[string]any{"$status": "done", "what": s.all("asks"), "list": s.each("metav")}
	for _, p := range s.each("metak") {
		meta[p] = []any{map[string]any{p: p}}
	}
	return housetest.Answer(req, emit, "---\n"+string(mustJSON(meta))+"\n---\n"+s.all("body"))
}

const hostileFlow = `
version: 1
name: hostile
roles: {work: {description: works}, fail: {description: fails}}
gates: {ask: {kind: input, question: "{{ what }}"}}
graph:
  $START: {new: {role: work, prompt: "{{ prompt }}"}}
  work: {done: {role: ask}}
  ask: {answered: {role: fail, prompt: "{{ what }} {{ answer }}"}}
  fail: {done: {role: $END, prompt: over}}
`

// TestHostile shows in a real browser what agents and people said, wherever they can say
// something: every payload in every field. Nothing of it runs, opens a dialog or loads anything.
func TestHostile(t *testing.T) {
	t.Parallel()
	var now atomic.Pointer[spray]
	h := newHouse(t, map[string]scripted{
		"work": func(_ context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
			return now.Load().work(req, emit)
		},
		"fail": func(context.Context, agent.Request, func(agent.Event) error) (agent.Result, error) {
			return agent.Result{}, &agent.Failure{Kind: "script", Message: now.Load().all("fails"), Final: true}
		},
	})
	b := h.open("").browse()
	seen, c := shown{}, h.controller()
	for _, s := range sprays(t, maxLeft, 1<<20) {
		now.Store(&s)
		row := h.run(hostileFlow, s.said("asked"))
		dir := taskdir.At(h.dir, row.ID).Path()
		text := func(s string) string { return strings.ReplaceAll(s, "\x00", "") } // otherwise it is not text
		h.write(filepath.Join(dir, "shared/reports/r.md"), text(s.all("rep")))
		h.write(filepath.Join(dir, "shared/contracts/c.md"),
			text("---\n"+s.all("front")+"\n---\n> "+strings.Join(s.each("con"), "\n\n> ")))
		h.write(filepath.Join(dir, "shared/decisions/d.md"),
			text("|a|b|\n|---|---|\n|"+strings.Join(s.each("dec"), "|x|\n|")+"|x|\n\n- "+strings.Join(s.each("dec"), "\n- ")))
		at, asks := "/tasks/"+row.ID, h.gate(row.ID)
		b.harmless(seen, at, at+"?tab=reports", at+"?tab=evidence", at+"?tab=events", "/threads/"+row.ID,
			"/steps/"+row.Head.String()+"?thread="+row.ID,
			at+"/read/shared/reports/r.md", at+"/read/shared/contracts/c.md", at+"/read/shared/decisions/d.md",
			at+"/read/shared/state-board.md")
		if _, err := c.Gates().Answer(t.Context(), asks.ID, words(s.all("answer"))); err != nil {
			t.Fatal(err)
		}
		row, err := c.Drive(t.Context(), row.ID, resume)
		if err != nil || row.Status != store.Blocked || row.Reason.Kind != "attempts" {
			t.Fatalf("%s, %+v: %v", row.Status, row.Reason, err)
		}
		for i, p := range s.each("gate") {
			g, err := c.Gates().Open(t.Context(),
				store.Gate{Kind: store.GateApproval, Source: store.SourceAgent, Task: row.ID, Thread: row.ID, Node: p,
					From: row.Head, Question: p,
					Action: mustJSON(map[string]any{"type": s.each("gtype")[i], "command": s.each("gcmd")[i], "cwd": s.each("gcwd")[i],
						"diff": "+" + s.each("gdiff")[i], "tool": s.each("gtool")[i],
						"params":            map[string]any{s.each("gkey")[i]: s.each("gval")[i]},
						s.each("gother")[i]: s.each("gmore")[i]})})
			if err != nil {
				t.Fatal(err)
			}
			b.harmless(seen, "/?at="+g.ID)
		}
		b.harmless(seen, at, "/threads/"+row.ID, "/compare?a="+row.ID+"&b="+asks.From.String())
	}
	b.harmless(seen, "/", "/tasks", "/flows")
	b.silent()
	if lacks := seen.lacks(t, "asked", "msg", "tht", "cmd", "outcmd", "tool", "outtool", "file", "chgfile", "addfile",
		"delfile", "err", "plan", "art", "asks", "metav", "metak", "body",
		"rep", "front", "con", "dec", "gate", "gtype", "gcmd", "gcwd", "gdiff", "gtool", "gkey", "gval", "gother", "gmore",
		"answer", "fails"); len(lacks) > 0 {
		t.Errorf("not shown: %q", lacks)
	}
}

// TestHostileChat has a conversation in which everything said is a payload, also while it is
// still being said.
func TestHostileChat(t *testing.T) {
	t.Parallel()
	var now atomic.Pointer[spray]
	said := make(chan struct{})
	h := newHouse(t, map[string]scripted{"assistant": func(ctx context.Context, req agent.Request,
		emit func(agent.Event) error) (agent.Result, error) {
		s := now.Load()
		if !strings.Contains(req.Prompt, ";tellme_") {
			return housetest.Answer(req, emit, s.all("told"))
		}
		for i, p := range s.each("msg") { // each is separate Markdown
			if err := emit(agent.Event{Kind: agent.EventMessage, ID: fmt.Sprint("m", i), Text: p}); err != nil {
				return agent.Result{}, err
			}
		}
		for i, p := range s.each("cmd") {
			one := agent.Event{Kind: agent.EventCommand, Phase: "started", ID: fmt.Sprint("c", i), Text: p,
				Output: s.each("out")[i]}
			if i%2 == 1 {
				one.Kind = agent.EventTool
			}
			file := agent.File{Path: s.each("path")[i], Change: s.each("chg")[i], Diff: "+" + s.each("diff")[i]}
			for _, ev := range []agent.Event{one, {Kind: agent.EventFile, ID: fmt.Sprint("f", i), Files: []agent.File{file}}} {
				if err := emit(ev); err != nil {
					return agent.Result{}, err
				}
			}
		}
		said <- struct{}{}
		<-ctx.Done()
		return agent.Result{}, ctx.Err()
	}})
	b := h.open("").browse()
	seen := shown{}
	for _, s := range sprays(t, maxRunningItems/3, 1<<20) {
		now.Store(&s)
		row := h.chat(s.said("opened"))
		b.asks("/api/v1/tasks/"+row.ID+"/resume", string(mustJSON(map[string]string{"text": s.said("tellme")})))
		<-said
		eventually(t, "what is being said", func() error {
			if !strings.Contains(b.get("/chats/"+row.ID).body, fmt.Sprintf(";diff_%d_", s.at+len(s.part)-1)) {
				return fmt.Errorf("is not on the page")
			}
			return nil
		})
		b.harmless(seen, "/chats/"+row.ID)
		b.asks("/api/v1/tasks/"+row.ID+"/stop", `{}`)
	}
	b.harmless(seen, "/chats", "/hosts", "/cost?by=model", "/cost?by=flow", "/")
	b.silent()
	if lacks := seen.lacks(t, "opened", "told", "tellme", "msg", "path", "chg", "diff", "cmd", "out"); len(lacks) > 0 {
		t.Errorf("not shown: %q", lacks)
	}
}

// TestHostileTitles lists tasks whose titles and questions are one payload each.
func TestHostileTitles(t *testing.T) {
	t.Parallel()
	h := newHouse(t, gatedAgents())
	b, seen := h.open("").browse(), shown{}
	paths := []string{"/", "/tasks"}
	var last store.Thread
	for i, p := range (spray{part: payloads(t)}).each("title") {
		p = strings.Map(func(c rune) rune { return map[bool]rune{true: ' ', false: c}[c < ' '] }, p)
		last = h.run(replaceOnce(asking, "Which port?", "{{ prompt }}"), p)
		if i%shownTasks == 0 && i > 0 {
			paths = append(paths, "/tasks?after="+last.ID)
		}
	}
	b.harmless(seen, append(paths, "/tasks/"+last.ID)...)
	b.silent()
	if lacks := seen.lacks(t, "title"); len(lacks) > 0 {
		t.Errorf("not shown: %q", lacks)
	}
}
