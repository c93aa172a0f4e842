package web

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/control"
	"github.com/plait-run/plait/internal/store"
)

// team is the agents of the pictures: a planner, and those that do what it plans. One asks
// a person, one asks whether it may, and one is still at work until the context ends.
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
			if err := emit(agent.Event{Kind: agent.EventCommand, ID: "c1", Phase: phase, Text: command, Output: output, Exit: &zero}); err != nil {
				return agent.Result{}, err
			}
		}
		return spoken(req, emit, answer)
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
		"find-uses":  does("grep -rn 'oldflag\\.' --include=*.go .", "cmd/main.go:31\ncmd/serve.go:12\ninternal/env.go:77\n", `{"status":"success","summary":"It is used in three places (evidence:cmd-1)."}`),
		"read-tests": does("go test ./cmd/... -list .", "214 tests\n", `{"status":"success","summary":"214 cases hold it to what it does (evidence:cmd-1)."}`),
		"replace":    say(`{"status":"blocked","summary":"One flag has two meanings.","questions":["Is -v to mean verbose or version?"]}`, `{"status":"success","summary":"Replaced."}`),
		"measure": func(_ context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
			if err := emit(agent.Event{Kind: agent.EventCommand, ID: "c1", Phase: "started", Text: "go test -bench Parse -count 10 ./internal/flag"}); err != nil {
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

// TestPictures draws the pictures of the documentation, by day, at night and on a phone;
// with PLAIT_PICTURES=1 into docs/pictures.
func TestPictures(t *testing.T) {
	to := t.TempDir()
	if os.Getenv("PLAIT_PICTURES") == "1" {
		to = "../../docs/pictures"
	}
	ctx, end := context.WithCancel(t.Context())
	h := newHouse(t, team(ctx))
	s := h.open("")
	t.Cleanup(end)
	chat := h.chat("Where is the old parser used?")
	s.asks("/api/v1/tasks/"+chat.ID+"/resume", `{"text":"What is wrong with the last one?"}`)
	h.run(gated, "Release 2.1")
	id := s.begun(`{"flow":"orchestrate","prompt":"Move the command line to the new parser"}`)
	eventually(t, "the question", func() error {
		open, err := h.store.Gates(t.Context(), store.GateFilter{Task: id, State: store.GateOpen})
		if err == nil && (len(open) != 1 || len(h.roles(chat.ID)) != 3) {
			err = fmt.Errorf("%d are open", len(open))
		}
		return err
	})
	paths := forkTask(h)
	b := s.browse()
	for _, p := range []struct {
		name, path, look string
		width, height    int64
	}{
		{"inbox-light", "/", "light", 1100, 760}, {"inbox-phone", "/", "light", 390, 760}, {"task-dark", "/tasks/" + id, "dark", 1100, 860},
		{"chat-light", "/chats/" + chat.ID, "light", 1100, 860},
		{"thread-light", "/threads/" + paths.ID, "light", 1100, 760}, {"thread-phone", "/threads/" + paths.ID, "dark", 390, 760},
	} {
		b.do(chromedp.EmulateViewport(p.width, p.height))
		b.visit(p.path)
		js[string](b, `scrollTo(0, 0), document.documentElement.className = "`+p.look+`"`)
		data, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
		if err == nil {
			err = os.WriteFile(filepath.Join(to, p.name+".png"), data, 0o644)
		}
		if err != nil || len(data) < 10_000 || len(data) > 150_000 {
			t.Errorf("%s: %d bytes: %v", p.name, len(data), err)
		}
	}
}

// forkTask is a task that forked, joined, and was forked by hand.
func forkTask(h *house) store.Thread {
	h.t.Helper()
	done := "---\n$status: done\n---\n"
	for role, text := range map[string]string{
		"first": "Three things can be looked at side by side.", "left": "The parser is 310 lines, in one file.", "right": "Its tests are 214 cases in a table.", "last": "Replace the file, keep the table.",
	} {
		h.agents[role] = say(done + text)
	}
	h.agents["first"] = say(strings.Replace(done, "done", "again", 1)+"Too many things at once.", done+"Two things can be looked at side by side.")
	row := h.run(twoWays, "See what it takes to replace the parser")
	if _, err := h.controller().Fork(h.t.Context(), control.Fork{Thread: row.ID, At: "2", Prompt: "another way"}); err != nil {
		h.t.Fatal(err)
	}
	return row
}
