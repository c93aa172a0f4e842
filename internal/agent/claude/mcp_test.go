package claude

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/plait-run/plait/internal/agent"
)

// serveLab is an MCP server with a tool that returns its arguments and the server's token.
func serveLab() error {
	type args struct {
		Text string `json:"text"`
	}
	s := sdk.NewServer(&sdk.Implementation{Name: "lab", Version: "1"}, nil)
	sdk.AddTool(s, &sdk.Tool{Name: "echo", Description: "says it again"},
		func(_ context.Context, _ *sdk.CallToolRequest, a args) (*sdk.CallToolResult, any, error) {
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: a.Text + " " + os.Getenv("TOKEN")}}}, nil,
				nil
		})
	sdk.AddTool(s, &sdk.Tool{Name: "ask", Description: "asks the user"},
		func(_ context.Context, req *sdk.CallToolRequest, _ args) (*sdk.CallToolResult, any, error) {
			got, _ := req.Params.InputResponses["form"].(*sdk.ElicitResult)
			if got == nil {
				return &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{"form": &sdk.ElicitParams{Message: "Which port?",
					RequestedSchema: map[string]any{"type": "object", "required": []string{"port"}, "properties": map[string]any{
						"port": map[string]any{"type": "integer", "title": "Port"},
						"host": map[string]any{"type": "string", "default": "localhost"},
						"mode": map[string]any{"type": "string", "enum": []string{"fast", "safe"}},
					}}}}}, nil, nil
			}
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: fmt.Sprint(got.Action, " ", got.Content)}}},
				nil, nil
		})
	return s.Run(context.Background(), &sdk.StdioTransport{})
}

// serve adds the server of the lab to the user's own settings under a name, and to the agent's definition.
func (l *lab) serve(name string) {
	l.T.Helper()
	bin, err := os.Executable()
	if err != nil {
		l.T.Fatal(err)
	}
	file := filepath.Join(l.host.Getenv("HOME"), ".claude.json")
	if err := os.WriteFile(file, encode(map[string]any{"mcpServers": map[string]any{
		name: map[string]any{"command": bin, "args": []string{"serve-lab"},
			"env": map[string]string{"TOKEN": "${MINE:-a-token}"}},
		"other": map[string]any{"command": "false"},
	}}), 0o600); err != nil {
		l.T.Fatal(err)
	}
	l.cfg.MCP = []string{name}
}

// TestForms checks that a person is asked to fill in the form of an MCP server, that the values reach the server once
// they fit, and that nothing is answered for a person who declines.
func TestForms(t *testing.T) {
	l := newLab(t, `turns:
- steps:
  - items: [{call: {namespace: mcp__lab, name: ask, arguments: {text: x}}}]
  - items: [{answer: "It said: {{output 1}}"}]
`)
	l.serve("lab")
	for name, c := range map[string]struct {
		answers []string // what is approved, "" for a no; the last one repeats
		want    string
		asked   int
	}{
		"filled in": {[]string{`{"host":"localhost","mode":"safe","port":8080}`},
			"accept map[host:localhost mode:safe port:8080]", 1},
		"as it is": {[]string{`{"host":"localhost","mode":null,"port":null}`, `{"host":null,"port":1}`},
			"accept map[port:1]", 2},
		"no":    {[]string{""}, "decline map[]", 1},
		"never": {[]string{`{"port":"8080"}`}, "decline map[]", maxFilled},
		"not on it": {[]string{`{"port":1,"mode":"fast","user":"x"}`, `{"port":1,"mode":"none"}`, `{"port":1.5}`},
			"decline map[]", maxFilled},
		"in the end": {[]string{`{}`, `{"mode":"fast"}`, `{"mode":"fast","port":2}`}, "accept map[mode:fast port:2]", 3},
	} {
		y := l.Request(name)
		var asked []agent.Question
		y.Req.Ask = func(_ context.Context, q agent.Question) (agent.Answer, error) {
			if q.Action.Type != "form" {
				return agent.Answer{Approved: true}, nil // the call of the tool
			}
			asked = append(asked, q)
			text := c.answers[min(len(asked), len(c.answers))-1]
			if text == "" {
				return agent.Answer{}, nil
			}
			act := q.Action
			act.Params = json.RawMessage(text)
			return agent.Answer{Approved: true, Edited: &act}, nil
		}
		l.run(t.Context(), y)
		if got := string(y.Res.Output); !strings.Contains(got, c.want) || len(asked) != c.asked {
			t.Errorf("%s: asked %d times: %s %v", name, len(asked), got, y.Err)
		}
		if len(asked) == 0 {
			t.Fatalf("nothing was asked: %s", y.Raw.String())
		}
		q := asked[0]
		if !q.Editable || q.Action.Tool != "mcp__lab" || string(
			q.Action.Params) != `{"host":"localhost","mode":null,"port":null}` ||
			!strings.Contains(q.Text, "Which port?") || !strings.Contains(q.Text, "port (integer, required): Port") {
			t.Errorf("%s: asked %+v", name, q)
		}
	}
	y := l.Request("nobody")
	if l.run(t.Context(), y); !strings.Contains(string(y.Res.Output), "Nobody can be asked") {
		t.Errorf("without a person: %s %v", y.Res.Output, y.Err)
	}
}

// TestServers checks that a named server of the user is available, that each of its calls needs approval even behind a
// sandbox, and that possible secrets are on no command line.
func TestServers(t *testing.T) {
	l := newLab(t, `turns:
- steps:
  - items: [{call: {namespace: mcp__my_lab, name: echo, arguments: {text: ping}}}]
  - items: [{answer: "It said: {{output 1}}"}]
`)
	l.serve("my lab")
	for _, yes := range []bool{true, false} {
		y := l.Request(map[bool]string{true: "yes", false: "no"}[yes])
		var asked []agent.Action
		y.Req.Ask = func(_ context.Context, q agent.Question) (agent.Answer, error) {
			asked = append(asked, q.Action)
			return agent.Answer{Approved: yes, Text: "not now"}, nil
		}
		l.run(t.Context(), y)
		if len(asked) != 1 || asked[0].Type != "tool_call" || asked[0].Tool != "mcp__my_lab__echo" ||
			string(asked[0].Params) != `{"text":"ping"}` {
			t.Fatalf("asked: %+v, %v\n%s", asked, y.Err, y.Raw.String())
		}
		if got := string(y.Res.Output); strings.Contains(got, "ping a-token") != yes ||
			strings.Contains(got, "not now") == yes {
			t.Errorf("answered %t: %s %v", yes, got, y.Err)
		}
	}
	args, _ := mcp(l.host, map[string]any{"x": map[string]any{"headers": map[string]any{"A": "secret"},
		"url": "https://x/${K}"}})
	if line := strings.Join(args, " "); strings.Contains(line, "secret") || strings.Contains(line, "${K}") {
		t.Errorf("%q", args)
	}
	l.cfg.MCP = []string{"third"}
	if _, err := New(l.host, l.cfg); err == nil || !strings.Contains(err.Error(), `mcp names "third"`) {
		t.Error(errors.Join(err, errors.New("a server that is not there was found")))
	}
}
