package claude

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/plait-run/plait/internal/agent"
)

// serveLab is an MCP server with a tool that says what it was given and which token it has.
func serveLab() error {
	type args struct {
		Text string `json:"text"`
	}
	s := sdk.NewServer(&sdk.Implementation{Name: "lab", Version: "1"}, nil)
	sdk.AddTool(s, &sdk.Tool{Name: "echo", Description: "says it again"},
		func(_ context.Context, _ *sdk.CallToolRequest, a args) (*sdk.CallToolResult, any, error) {
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: a.Text + " " + os.Getenv("TOKEN")}}}, nil, nil
		})
	return s.Run(context.Background(), &sdk.StdioTransport{})
}

// TestServers holds that a server of the user's is there by name, that each of its calls is asked for, also behind a
// wall, and that what may be a secret is on no command line.
func TestServers(t *testing.T) {
	l := newLab(t, `turns:
- steps:
  - items: [{call: {namespace: mcp__my_lab, name: echo, arguments: {text: ping}}}]
  - items: [{answer: "It said: {{output 1}}"}]
`)
	bin, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(l.host.cfg.Getenv("HOME"), ".claude.json")
	if err := os.WriteFile(file, encode(map[string]any{"mcpServers": map[string]any{
		"my lab": map[string]any{"command": bin, "args": []string{"serve-lab"},
			"env": map[string]string{"TOKEN": "${MINE:-a-token}"}},
		"other": map[string]any{"command": "false"},
	}}), 0o600); err != nil {
		t.Fatal(err)
	}
	l.cfg.MCP = []string{"my lab"}
	for _, yes := range []bool{true, false} {
		y := l.request(map[bool]string{true: "yes", false: "no"}[yes])
		var asked []agent.Action
		y.req.Ask = func(_ context.Context, q agent.Question) (agent.Answer, error) {
			asked = append(asked, q.Action)
			return agent.Answer{Approved: yes, Text: "not now"}, nil
		}
		l.run(t.Context(), y)
		if len(asked) != 1 || asked[0].Type != "tool_call" || asked[0].Tool != "mcp__my_lab__echo" ||
			string(asked[0].Params) != `{"text":"ping"}` {
			t.Fatalf("asked: %+v, %v\n%s", asked, y.err, y.raw.String())
		}
		if got := string(y.res.Output); strings.Contains(got, "ping a-token") != yes || strings.Contains(got, "not now") == yes {
			t.Errorf("answered %t: %s %v", yes, got, y.err)
		}
	}
	args, _ := l.host.mcp(map[string]any{"x": map[string]any{"headers": map[string]any{"A": "secret"}, "url": "https://x/${K}"}})
	if line := strings.Join(args, " "); strings.Contains(line, "secret") || strings.Contains(line, "${K}") {
		t.Errorf("%q", args)
	}
	l.cfg.MCP = []string{"third"}
	if _, err := l.host.Agent(l.cfg); err == nil || !strings.Contains(err.Error(), `mcp names "third"`) {
		t.Error(errors.Join(err, errors.New("a server that is not there was found")))
	}
}
