package web

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/testing/housetest"
)

// team returns the agents of the pictures: a planner and those that carry out its plan. One asks
// a question, one asks for approval, and one works until the context ends.
func team(ctx context.Context) map[string]scripted {
	plan := func(goal string, actions ...[2]string) string {
		var list []map[string]any
		for i, a := range actions {
			one := map[string]any{"id": a[0], "title": a[1], "prompt": a[1] + ".", "access": "read"}
			if i == len(actions)-1 && i > 2 {
				one["dependsOn"] = []string{actions[0][0], actions[1][0]}
			}
			list = append(list, one)
		}
		data, _ := json.Marshal(map[string]any{"sessionGoal": goal, "actions": list})
		return string(data)
	}
	ran := func(req agent.Request, emit func(agent.Event) error, command, output, answer string) (agent.Result, error) {
		zero := 0
		for _, phase := range []string{"started", "completed"} {
			if err := emit(agent.Event{Kind: agent.EventCommand, ID: "c1", Phase: phase, Text: command, Output: output,
				Exit: &zero}); err != nil {
				return agent.Result{}, err
			}
		}
		return housetest.Answer(req, emit, answer)
	}
	does := func(command, output, answer string) scripted {
		return func(_ context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
			return ran(req, emit, command, output, answer)
		}
	}
	return map[string]scripted{
		"planner": say(plan("The command line is read by the new parser, and no flag has changed.",
			[2]string{"find-uses", "Find every use of the old parser"}, [2]string{"read-tests", "See what the tests hold it to"},
			[2]string{"measure", "Measure how long both take"}, [2]string{"replace", "Replace it, behind the same interface"}),
			`{"finish":{"summary":"The new parser reads every command line; no flag has changed.","report":"# The new parser\n\n- It is used in all three places (evidence:find-uses.cmd-1).\n- The tests hold it to 214 cases, and all pass (evidence:read-tests.cmd-1)."}}`),
		"find-uses": does("grep -rn 'oldflag\\.' --include=*.go .", "cmd/main.go:31\ncmd/serve.go:12\ninternal/env.go:77\n",
			`{"status":"success","summary":"It is used in three places (evidence:cmd-1)."}`),
		"read-tests": does("go test ./cmd/... -list .", "214 tests\n",
			`{"status":"success","summary":"214 cases hold it to what it does (evidence:cmd-1)."}`),
		"replace": say(`{"status":"blocked","summary":"One flag has two meanings.","questions":["Is -v to mean verbose or version?"]}`, `{"status":"success","summary":"Replaced."}`),
		"measure": func(_ context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
			if err := emit(agent.Event{Kind: agent.EventCommand, ID: "c1", Phase: "started",
				Text: "go test -bench Parse -count 10 ./internal/flag"}); err != nil {
				return agent.Result{}, err
			}
			<-ctx.Done()
			return agent.Result{}, &agent.Failure{Kind: "interrupted", Message: "stopped"}
		},
		"assistant": say("There are three uses of the old parser:\n\n| file | what for |\n|---|---|\n| `cmd/main.go` | the flags of every verb |\n| `cmd/serve.go` | addresses |\n| `internal/env.go` | variables that stand for flags |\n\nThe last one is the odd one: it splits its input itself.",
			"It splits at commas, and a comma in a value ends it. I would let the parser do it; **two tests** would have to say what they mean."),
		"plan": say(`{"$status":"ready","what":"the release of 2.1"}`), "work": say("---\n$status: done\n---\nIt is out."),
	}
}

// A framed page is one that pictures are taken of.
type framed struct{ name, path string }

// A wall is the pages of one server.
type wall struct {
	site  *site
	pages []framed
}

// gallery starts servers on which every page has something to show.
func gallery(t *testing.T) []wall {
	ctx, end := context.WithCancel(t.Context())
	h := newHouse(t, team(ctx))
	s := h.open("")
	t.Cleanup(end)
	chat := h.chat("Where is the old parser used?")
	s.asks("/api/v1/tasks/"+chat.ID+"/resume", `{"text":"What is wrong with the last one?"}`)
	release := h.run(gated, "Release 2.1")
	s.asks("/api/v1/gates/"+h.gate(h.run(gated, "Release 2.0").ID).ID+"/deny", `{"text":"not on a Friday"}`)
	id := s.begun(`{"flow":"orchestrate","prompt":"Move the command line to the new parser"}`)
	eventually(t, "the question", func() error {
		open, err := h.store.Gates(t.Context(), store.GateFilter{Task: id, State: store.GateOpen})
		if err == nil && (len(open) != 1 || len(h.roles(chat.ID)) != 3) {
			err = fmt.Errorf("%d are open", len(open))
		}
		return err
	})
	paths := forkTask(h)
	h.asksMore(release, 1)
	h.write(filepath.Join(h.dir, ".plait/flows/broken.yaml"), "version: 1\nname: broken\ngrpah: {}\n")
	audit, err := os.ReadFile("../../../examples/audit.yaml")
	if err != nil {
		t.Fatal(err)
	}
	h.write(filepath.Join(h.dir, ".plait/flows/audit.yaml"), string(audit))
	fork, err := h.store.Threads(t.Context(), store.ThreadFilter{Kind: store.KindRoot, Newest: true, Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	copied := h.openCopy(h.copied(paths))
	empty := newHouse(t, nil)
	empty.demo = &Demo{Codex: true}
	return []wall{
		{empty.open(""), []framed{{"first", "/"}, {"tasks-empty", "/tasks"}}},
		{copied, []framed{{"copy", "/"}, {"copy-reports", "/reports"}, {"copy-events", "/events"},
			{"copy-sessions", "/sessions"}}},
		{s, []framed{
			{"inbox", "/"}, {"answers", "/answers"}, {"tasks", "/tasks"}, {"tasks-none", "/tasks?state=cancelled"},
			{"new", "/new"},
			{"flows", "/flows"}, {"flow", "/flows/orchestrate"}, {"flow-audit", "/flows/audit"},
			{"flow-broken", "/flows/broken"},
			{"search-empty", "/search"}, {"search", "/search?q=sum"}, {"search-wrong", "/search?q=state:lost"},
			{"compare-empty", "/compare"}, {"compare", "/compare?a=" + paths.ID + "&b=" + fork[0].ID},
			{"verify", "/threads/" + paths.ID + "/verify"}, {"chats", "/chats"}, {"chat", "/chats/" + chat.ID},
			{"problem", "/nothing"},
			{"task", "/tasks/" + id}, {"task-done", "/tasks/" + paths.ID}, {"thread", "/threads/" + paths.ID},
			{"step", "/steps/" + paths.Head.String() + "?thread=" + paths.ID},
		}},
	}
}

// asksMore adds to a task the questions of agents, limits and a merge of so many files.
func (h *house) asksMore(row store.Thread, files int) {
	h.t.Helper()
	patch := "--- a/sum.go\n+++ b/sum.go\n@@ -1,5 +1,5 @@\n func Sum(n []int) (sum int) {\n-\tfor _, v := range n[1:] {\n+\tfor _, v := range n {\n \t\tsum += v\n \t}\n"
	for i := range files - 1 {
		patch += fmt.Sprintf("--- /dev/null\n+++ b/review/f%d.md\n@@ -0,0 +1,2 @@\n+# f%d.go\n+No defect in %d functions.\n", i, i, i+2)
	}
	var b store.Batch
	for i, g := range []struct {
		source store.GateSource
		node   string
		action gate.Action
	}{
		{store.SourceAgent, "mend", gate.Action{Type: gate.Command, Command: "/bin/bash -lc 'git push'", Cwd: row.Workspace}},
		{store.SourceMerge, "plan", gate.Action{Type: gate.Merging, Diff: patch, Params: json.RawMessage(
			`{"sides":[{"path":"mend","branch":"plait/k7f2/mend","protected":[]},{"path":"tidy","branch":"plait/k7f2/tidy","protected":[]}],"conflicts":{"tidy":["sum.go"]},"overlaps":{"sum.go":["mend","tidy"]}}`)}},
		{store.SourceLimit, "release", gate.Action{Type: gate.Raise,
			Params: json.RawMessage(`{"limit":"maxTokens","why":"100 000 of 100 000 tokens used"}`)}},
	} {
		action, err := json.Marshal(g.action)
		if err != nil {
			h.t.Fatal(err)
		}
		one := store.Gate{ID: fmt.Sprintf("g-000000000%d", i), Kind: store.GateApproval, State: store.GateOpen,
			Source: g.source, Task: row.Task,
			Thread: row.ID, Node: g.node, From: row.Head, Action: action, Options: []string{"approve", "deny"},
			OpenedAt: time.Now().UnixMilli(), Grant: store.GrantOnce}
		if one.Digest, err = gate.Digest(row.ID, action); err != nil {
			h.t.Fatal(err)
		}
		b.Gates = append(b.Gates, store.GateChange{Row: one})
	}
	if err := h.store.Commit(h.t.Context(), b); err != nil {
		h.t.Fatal(err)
	}
}

// documented are the pictures in the documentation.
var documented = []struct {
	name, page, look string
	width, height    int64
}{
	{"inbox-light", "inbox", "light", 1100, 760}, {"inbox-phone", "inbox", "light", 390, 760},
	{"chat-light", "chat", "light", 1100, 860},
	{"task-dark", "task", "dark", 1100, 860}, {"thread-light", "thread", "light", 1100, 760},
	{"thread-phone", "thread", "dark", 390, 760},
}

// TestPictures takes the pictures of the documentation, in light and dark mode and on a phone;
// with PLAIT_PICTURES=docs it writes them to docs/pictures.
func TestPictures(t *testing.T) {
	to := t.TempDir()
	if os.Getenv("PLAIT_PICTURES") == "docs" {
		to = "../../../docs/pictures"
	}
	walls := gallery(t)
	all := walls[len(walls)-1]
	b := all.site.browse()
	for _, p := range documented {
		at := slices.IndexFunc(all.pages, func(f framed) bool { return f.name == p.page })
		b.do(chromedp.EmulateViewport(p.width, p.height))
		b.visit(all.pages[at].path)
		js[string](b, `scrollTo(0, 0), document.documentElement.className = "`+p.look+`"`)
		data, err := inTime(b, chromedp.CaptureScreenshot())
		if err == nil {
			err = os.WriteFile(filepath.Join(to, p.name+".png"), data, 0o644)
		}
		if err != nil || len(data) < 10_000 || len(data) > 150_000 {
			t.Errorf("%s: %d bytes: %v", p.name, len(data), err)
		}
	}
}

// forkTask returns a task that forked, joined, and was forked manually.
func forkTask(h *house) store.Thread {
	h.t.Helper()
	done := "---\n$status: done\n---\n"
	for role, text := range map[string]string{
		"first": "Three things can be looked at side by side.", "left": "The parser is 310 lines, in one file.",
		"right": "Its tests are 214 cases in a table.", "last": "Replace the file, keep the table.",
	} {
		h.agents[role] = say(done + text)
	}
	h.agents["first"] = say(strings.Replace(done, "done", "again", 1)+"Too many things at once.",
		done+"Two things can be looked at side by side.")
	row := h.run(twoWays, "See what it takes to replace the parser")
	if _, err := h.controller().Fork(h.t.Context(),
		control.Fork{Thread: row.ID, At: "2", Prompt: "another way"}); err != nil {
		h.t.Fatal(err)
	}
	return row
}
