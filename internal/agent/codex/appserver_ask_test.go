package codex

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/agent"
)

// escalate is a scenario that asks for a command outside the sandbox.
const escalate = `
turns:
- steps:
  - items:
    - run: {cmd: echo ran >> outside.txt, escalate: true, justification: May I?}
  - items:
    - answer: "{{output 1}}"
`

func TestAppApproveCommand(t *testing.T) {
	l := newLab(t, escalate)
	for name, approved := range map[string]bool{"yes": true, "no": false} {
		t.Run(name, func(t *testing.T) {
			y := l.try(t, "go")
			y.req.Access = agent.Read
			var asked []agent.Question
			y.req.Ask = func(_ context.Context, q agent.Question) (agent.Answer, error) {
				asked = append(asked, q)
				return agent.Answer{Approved: approved}, nil
			}
			y.works(t, l.agent)
			want := agent.Question{Text: "May I?",
				Action: agent.Action{Type: "command", Command: "-c 'echo ran >> outside.txt'",
					Cwd: y.req.Dir}}
			if len(asked) != 1 {
				t.Fatalf("got questions %+v", asked)
			}
			asked[0].Action.Params = nil
			_, asked[0].Action.Command, _ = strings.Cut(asked[0].Action.Command, " ") // the shell is the user's
			if diff := cmp.Diff(want, asked[0]); diff != "" {
				t.Errorf("question (-want +got):\n%s", diff)
			}
			_, err := os.Stat(filepath.Join(y.req.Dir, "outside.txt"))
			if ran := err == nil; ran != approved {
				t.Errorf("the command ran: %v", ran)
			}
			phase := map[bool]string{true: "completed", false: "declined"}[approved]
			if ends := y.of(agent.EventCommand, phase); len(ends) != 1 {
				t.Errorf("got commands %+v", y.of(agent.EventCommand, ""))
			}
			for _, part := range []string{
				`"dir":"in","message":{"method":"item/commandExecution/requestApproval","id":0,`,
				`"dir":"out","message":{"id":0,"result":{"decision":`} {
				contains(t, "requests.jsonl", y.requests.String(), part)
			}
		})
	}
}

func TestAppNobodyToAsk(t *testing.T) {
	l := newLab(t, escalate)
	y := l.try(t, "go")
	y.req.Access = agent.Read
	res := y.works(t, l.agent)
	contains(t, "the answer", string(res.Output), "Rejected")
	if _, err := os.Stat(filepath.Join(y.req.Dir, "outside.txt")); err == nil {
		t.Error("the command ran")
	}
	declined := y.of(agent.EventCommand, "declined")
	if len(declined) != 1 || !strings.Contains(declined[0].Text, "outside.txt") {
		t.Errorf("the command leaves %+v", y.of(agent.EventCommand, ""))
	}
}

func TestAppAskErrors(t *testing.T) {
	l := newLab(t, escalate)
	y := l.try(t, "go")
	broken := errors.New("the gates are broken")
	y.req.Access = agent.Read
	y.req.Ask = func(context.Context, agent.Question) (agent.Answer, error) { return agent.Answer{}, broken }
	if _, err := y.run(t.Context(), t, l.agent); !errors.Is(err, broken) {
		t.Errorf("Run returned %v, want the error of Ask", err)
	}
	if _, err := os.Stat(filepath.Join(y.req.Dir, "outside.txt")); err == nil {
		t.Error("the command ran")
	}
}

// TestAppAsksTwice checks that a question does not wait for the answer to another.
func TestAppAsksTwice(t *testing.T) {
	l := newLab(t, `
turns:
- steps:
  - items:
    - run: {cmd: echo one, escalate: true}
    - run: {cmd: echo two, escalate: true}
  - items:
    - answer: all done
`)
	y := l.try(t, "go")
	both := make(chan struct{})
	var mu sync.Mutex
	asked := map[string]bool{}
	y.req.Ask = func(ctx context.Context, q agent.Question) (agent.Answer, error) {
		mu.Lock()
		asked[q.Action.Command] = true
		if len(asked) == 2 {
			close(both)
		}
		mu.Unlock()
		select {
		case <-both:
		case <-ctx.Done():
			return agent.Answer{}, ctx.Err()
		}
		return agent.Answer{Approved: true}, nil
	}
	y.works(t, l.agent)
	if len(asked) != 2 {
		t.Errorf("asked were %v, want both at once", asked)
	}
	if ran := y.of(agent.EventCommand, "completed"); len(ran) != 2 {
		t.Errorf("got commands %+v", ran)
	}
}

func TestAppAnsweredLate(t *testing.T) {
	l := newLab(t, escalate)
	y := l.try(t, "go")
	y.req.Access = agent.Read
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	y.req.Ask = func(ctx context.Context, _ agent.Question) (agent.Answer, error) {
		cancel()
		<-ctx.Done()
		return agent.Answer{Approved: true}, nil // approved nevertheless
	}
	y.fails(ctx, t, l.agent, agent.Cancelled)
	// The session is intact: it can be continued, and nothing was done.
	again := l.try(t, "again")
	again.req.Session, again.req.Access = y.session, agent.Read
	again.works(t, l.agent)
	if _, err := os.Stat(filepath.Join(y.req.Dir, "outside.txt")); err == nil {
		t.Error("the command ran although the attempt was cancelled")
	}
}

func TestAppApprovePatch(t *testing.T) {
	l := newLab(t, `
turns:
- steps:
  - items:
    - patch: |
        *** Begin Patch
        *** Add File: ../beside.txt
        +planted
        *** End Patch
  - items:
    - answer: all done
`)
	for name, approved := range map[string]bool{"yes": true, "no": false} {
		t.Run(name, func(t *testing.T) {
			y := l.try(t, "go")
			var q agent.Question
			y.req.Ask = func(_ context.Context, asked agent.Question) (agent.Answer, error) {
				q = asked
				return agent.Answer{Approved: approved}, nil
			}
			y.works(t, l.agent)
			beside := filepath.Join(filepath.Dir(y.req.Dir), "beside.txt")
			if q.Inside || q.Action.Type != "file_change" || q.Action.Diff != "add "+beside+"\nplanted\n" {
				t.Errorf("got question %+v", q)
			}
			_, err := os.Stat(beside)
			if there := err == nil; there != approved {
				t.Errorf("the file is there: %v", there)
			}
			os.Remove(beside)
		})
	}
}

// mcpArg makes the test binary an MCP server.
const mcpArg = "fake-mcp"

func init() {
	if len(os.Args) == 3 && os.Args[1] == mcpArg {
		serveMCP(os.Args[2])
		syscall.Exit(0)
	}
}

// serveMCP is an MCP server on stdin and stdout with a tool that writes its
// arguments to a file.
func serveMCP(file string) {
	type object = map[string]any
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		var m struct {
			ID     json.RawMessage
			Method string
			Params struct {
				ProtocolVersion string
				Name            string
				Arguments       json.RawMessage
			}
		}
		if json.Unmarshal(in.Bytes(), &m) != nil || len(m.ID) == 0 {
			continue
		}
		var result any = object{}
		switch m.Method {
		case "initialize":
			result = object{
				"protocolVersion": m.Params.ProtocolVersion, "capabilities": object{"tools": object{}},
				"serverInfo": object{"name": "lab", "version": "1"},
			}
		case "tools/list":
			result = object{"tools": []object{{
				"name": "note", "description": "notes something",
				"inputSchema": object{"type": "object", "properties": object{"text": object{"type": "string"}}},
			}}}
		case "tools/call":
			os.WriteFile(file, m.Params.Arguments, 0o600)
			result = object{"content": []object{{"type": "text", "text": "noted " + os.Getenv("LAB_WORD")}}}
		}
		data, _ := json.Marshal(object{"jsonrpc": "2.0", "id": m.ID, "result": result})
		fmt.Printf("%s\n", data)
	}
}

func TestAppApproveTool(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "noted")
	const scenario = `
turns:
- steps:
  - items:
    - call: {namespace: mcp__lab, name: note, arguments: {text: ping}}
  - items:
    - answer: "{{output 1}}"
`
	l := newLab(t, scenario, func(c *Config) {
		c.Config = map[string]any{"mcp_servers": map[string]any{"lab": map[string]any{
			"command": self, "args": []string{mcpArg, file}, "env": map[string]string{"LAB_WORD": "canary-lab-secret"},
		}}}
	})
	for _, approved := range []bool{false, true} {
		var y *appTry
		var q agent.Question
		var res agent.Result
		for range 5 { // Codex does not wait for a server that starts slowly, as on a busy machine
			y = l.try(t, "go")
			y.req.Ask = func(_ context.Context, asked agent.Question) (agent.Answer, error) {
				q = asked
				return agent.Answer{Approved: approved}, nil
			}
			if res = y.works(t, l.agent); !strings.Contains(string(res.Output), "unsupported call") {
				break
			}
		}
		want := agent.Action{Type: "tool_call", Tool: "lab/note", Params: json.RawMessage(`{"text":"ping"}`)}
		if diff := cmp.Diff(want, q.Action); diff != "" || q.Inside || q.Text == "" {
			t.Errorf("question %+v, action (-want +got):\n%s", q, diff)
		}
		_, err := os.Stat(file)
		if called := err == nil; called != approved {
			t.Errorf("the tool was called: %v, want %v", called, approved)
		}
		ends := y.of(agent.EventTool, "completed")
		if !approved {
			ends = y.of(agent.EventTool, "failed")
		}
		if len(ends) != 1 || ends[0].Text != "lab/note" || string(ends[0].Detail) != `{"text":"ping"}` {
			t.Errorf("got tool calls %+v", y.of(agent.EventTool, ""))
		}
		if approved {
			contains(t, "the answer", string(res.Output), "noted canary-lab-secret")
		}
		if strings.Contains(y.requests.String(), "canary-lab-secret") {
			t.Error("requests.jsonl holds the environment of the MCP server")
		}
	}
}

func TestAppToolServerFails(t *testing.T) {
	l := newLab(t, answer, func(c *Config) {
		c.Config = map[string]any{"mcp_servers": map[string]any{"lab": map[string]any{"command": "/no/such/program"}}}
	})
	y := l.try(t, "go")
	y.works(t, l.agent)
	said := y.of(agent.EventError, "")
	if len(said) == 0 || !strings.Contains(said[0].Text, "MCP server lab did not start") {
		t.Errorf("got errors %+v", said)
	}
}
