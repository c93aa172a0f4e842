package acp

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/sys/proc"
	"github.com/plait-run/plait/internal/testing/agenttest"
)

// needSandbox skips a test if sandboxes are not available.
func needSandbox(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("bwrap"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("bubblewrap is not installed")
		}
		t.Skip("NOT TESTED: bubblewrap is not installed")
	}
}

const answers = `turns:
- when: {contains: [again]}
  steps:
  - items: [{answer: "Once more."}]
- steps:
  - items: [{say: "I will write a file."}, {run: "echo one > f.txt; false"}]
  - items: [{answer: "The command gave: {{output 1}}"}]
`

// testTurn has a real agent run a command in the sandbox, and continues its session.
func testTurn(t *testing.T, kind string) {
	needSandbox(t)
	l := newLab(t, kind, answers)
	y := l.run(t.Context(), l.Request("one"))
	if y.Err != nil || !strings.HasPrefix(string(y.Res.Output), "The command gave:") || y.Res.Session == "" ||
		y.Opened != y.Res.Session {
		t.Fatal(y.Log())
	}
	if y.Res.Sandbox != "bubblewrap: workspace-write" || y.Res.Usage.InputTokens < 200 || y.Res.Usage.OutputTokens < 40 {
		t.Errorf("result: %+v", y.Res)
	}
	if e := last(y, agent.EventCommand); e == nil || e.Phase != "completed" || e.Text != "echo one > f.txt; false" ||
		kind != "gemini" && (e.Exit == nil || *e.Exit != 1) { // Gemini reports it only to its model
		t.Errorf("the command: %+v\n%s", e, y.Log())
	}
	if data, err := os.ReadFile(filepath.Join(y.Req.Dir, "f.txt")); string(data) != "one\n" {
		t.Errorf("the file: %q, %v", data, err)
	}
	goesOn(t, l, y.Res.Session)
}

// goesOn checks that a session can be continued, and has what was said.
func goesOn(t *testing.T, l *lab, session string) {
	t.Helper()
	z := l.Request("it again")
	z.Req.Session = session
	a, err := New(l.host, l.cfg)
	if k, _ := Named(l.cfg.Kind); err == nil && k.LoadsLater {
		for range 70 { // by then it is the next minute
			if a.Continues(z.Req) {
				break
			}
			time.Sleep(time.Second)
		}
	}
	if err != nil || !a.Continues(z.Req) {
		t.Fatalf("it does not continue %s: %v", session, err)
	}
	if l.run(t.Context(), z); z.Err != nil || string(z.Res.Output) != "Once more." || z.Res.Session != session {
		t.Fatal(z.Log())
	}
	last := l.Seen()[len(l.Seen())-1]
	if !strings.Contains(strings.Join(last.Prompts, " "), "Do one.") {
		t.Errorf("the model was told %q", last.Prompts)
	}
	for _, e := range z.Events {
		if strings.Contains(e.Text, "I will write") {
			t.Errorf("what was said before is told again: %+v", e)
		}
	}
}

// testAsks checks that without a sandbox, a person is asked about the exact command.
func testAsks(t *testing.T, kind string) {
	l := newLab(t, kind, answers)
	l.host.Sandbox.Bwrap = ""
	if k, _ := Named(kind); k.Silent {
		if f := l.run(t.Context(), l.Request("one")).Fails(t, agent.Infra); !strings.Contains(f.Message,
			"install bubblewrap") {
			t.Errorf("%+v", f)
		}
		return
	}
	for _, yes := range []bool{false, true} {
		y := l.Request("one")
		var asked []agent.Question
		y.Req.Ask = func(_ context.Context, q agent.Question) (agent.Answer, error) {
			asked = append(asked, q)
			return agent.Answer{Approved: yes}, nil
		}
		l.run(t.Context(), y)
		if len(asked) != 1 || asked[0].Action.Type != "command" || asked[0].Action.Command != "echo one > f.txt; false" ||
			asked[0].Inside {
			t.Fatalf("asked: %+v\n%s", asked, y.Log())
		}
		_, err := os.Stat(filepath.Join(y.Req.Dir, "f.txt"))
		if yes != (err == nil) {
			t.Errorf("answered %t: %v\n%s", yes, err, y.Log())
		}
		if yes && (y.Err != nil || !strings.HasPrefix(y.Res.Sandbox, "none")) {
			t.Error(y.Log())
		}
		if e := last(y, agent.EventCommand); !yes && (e == nil || e.Phase != "declined" || e.Exit != nil) {
			t.Errorf("declined: %+v\n%s", e, y.Log())
		}
		if !yes && (y.Err != nil || kind == "copilot") { // otherwise the model was told, and continued
			y.Fails(t, agent.Refused)
		}
	}
}

// testCancelled ends an attempt in the middle of a command.
func testCancelled(t *testing.T, kind string) {
	l := newLab(t, kind, "turns:\n- steps:\n  - items: [{run: 'echo > begun; tail -f /dev/null'}]\n  - items: [{answer: "+
		"x}]\n")
	y := l.Request("cancel")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go until(ctx, func() bool { _, err := os.Stat(filepath.Join(y.Req.Dir, "begun")); return err == nil }, cancel)
	if f := l.run(ctx, y).Fails(t, agent.Cancelled); f.Session == "" {
		t.Error("the session is not known: it could not be continued")
	}
}

const delivers = `turns:
- when: {contains: ["not submitted"]}
  steps:
  - items: [{call: {namespace: mcp__plait, name: deliver, arguments: {status: done, count: 2, text: "Late."}}}]
  - items: [{answer: "Said."}]
- when: {contains: [forgetful]}
  steps: [{items: [{answer: "I forgot."}]}]
- steps:
  - items: [{call: {namespace: mcp__plait, name: deliver, arguments: {status: done, count: many}}}]
  - items: [{call: {namespace: mcp__plait, name: deliver, arguments: {status: done, count: 3, text: "All done."}}}]
  - items: [{answer: "Said: {{output 1}}"}]
`

const schema = `{"type":"object","properties":{"$status":{"enum":["done"]},"count":{"type":"integer"}},` +
	`"required":["$status","count"],"additionalProperties":false}`

// testDelivers has an answer submitted: an invalid one is not accepted, and a missing one is asked for.
func testDelivers(t *testing.T, kind string) {
	l := newLab(t, kind, delivers)
	for name, want := range map[string]string{"it": "---\n{\"$status\":\"done\",\"count\":3}\n---\n\nAll done.",
		"a forgetful thing": "---\n{\"$status\":\"done\",\"count\":2}\n---\n\nLate."} {
		y := l.Request(name)
		y.Req.Schema, y.Req.Shaped = json.RawMessage(schema), true
		if l.run(t.Context(), y); y.Err != nil || string(y.Res.Output) != want {
			t.Errorf("%s: want %q\n%s", name, want, y.Log())
		}
		if e := last(y, agent.EventTool); e == nil || e.Line == 0 || !strings.Contains(e.Text, "deliver") {
			t.Errorf("the tool: %+v\n%s", e, y.Log())
		}
	}
}

func TestCopilotTurn(t *testing.T)      { need(t, "copilot"); testTurn(t, "copilot") }
func TestCopilotAsks(t *testing.T)      { need(t, "copilot"); testAsks(t, "copilot") }
func TestCopilotCancelled(t *testing.T) { need(t, "copilot"); testCancelled(t, "copilot") }
func TestCopilotDelivers(t *testing.T)  { need(t, "copilot"); testDelivers(t, "copilot") }

// TestCopilotKilled kills the agent in the middle of a command, without warning, and continues its session.
func TestCopilotKilled(t *testing.T) {
	need(t, "copilot")
	l := newLab(t, "copilot", `turns:
- when: {contains: [again]}
  steps:
  - items: [{answer: "Once more."}]
- steps:
  - items: [{run: "echo > begun; tail -f /dev/null"}]
  - items: [{answer: x}]
`)
	y := l.Request("one")
	var process agent.Process
	a, err := New(l.host, l.cfg)
	if err != nil {
		t.Fatal(err)
	}
	begun := filepath.Join(y.Req.Dir, "begun")
	y.Req.Started = func(p agent.Process) { process = p }
	ctx, stop := context.WithCancel(t.Context())
	kept := filepath.Join(a.SessionHome(y.Req.Home), "session-state", "*", "events.jsonl")
	go until(ctx, func() bool { // it saves the prompt slightly later
		_, err := os.Stat(begun)
		files, _ := filepath.Glob(kept)
		if err != nil || len(files) == 0 {
			return false
		}
		data, err := os.ReadFile(files[0])
		return err == nil && strings.Contains(string(data), "Do one.")
	}, func() {
		stop()
		for _, pid := range agenttest.Tagged(y.Req.Tag) {
			if start, ok := proc.Identify(pid); ok {
				proc.Kill(pid, start)
			}
		}
		proc.Kill(process.PID, process.Start)
	})
	f := l.run(t.Context(), y).Fails(t, agent.Infra)
	stop()
	if !strings.Contains(f.Message, "before it had answered") || f.Session == "" {
		t.Errorf("%+v", f)
	}
	goesOn(t, l, f.Session)
}

const probes = `turns:
- steps:
  - items:
    - run: "cat $HOME/.ssh/id ../record/plait.db; ls ../record; touch new && echo tree; touch .git/hooks/x && echo hooks;
        touch ../outside && echo outside; touch $PLAIT_ARTIFACTS/a && echo artifact; (exec 3<>/dev/tcp/127.0.0.1/{{prompt port ([0-9]+)}}) && echo network; echo end"
  - items: [{answer: "{{output 1}}"}]
`

// TestCopilotSandbox tries what the sandbox forbids, in a command of the model.
func TestCopilotSandbox(t *testing.T) {
	need(t, "copilot")
	needSandbox(t)
	for access, want := range map[agent.Access]string{agent.Write: "tree artifact", agent.Read: "artifact"} {
		l := newLab(t, "copilot", probes)
		y := l.Request("probe")
		y.Req.Prompt += " port " + l.cfg.Endpoint[strings.LastIndexByte(l.cfg.Endpoint, ':')+1:len(l.cfg.Endpoint)-len("/v1")]
		y.Req.Access = access
		l.run(t.Context(), y)
		var got []string
		for _, word := range []string{"a secret", "plait.db", "tree", "hooks", "outside", "artifact", "network"} {
			for line := range strings.Lines(string(y.Res.Output)) {
				if strings.TrimSpace(line) == word {
					got = append(got, word)
				}
			}
		}
		if strings.Join(got, " ") != want || !strings.Contains(string(y.Res.Output), "end") {
			t.Errorf("access %s: %q, want %q\n%s", access, got, want, y.Log())
		}
	}
}
