package parse_test

import (
	"io/fs"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/flow/parse"
)

// kept are files by name.
type kept map[string]string

func (k kept) ReadFile(name string) ([]byte, error) {
	if text, ok := k[name]; ok {
		return []byte(text), nil
	}
	return nil, fs.ErrNotExist
}

// withRole returns a flow of one role, which has keys.
func withRole(keys string) string {
	return "version: 1\nname: f\nroles:\n  one: {" + keys + "}\ngraph:\n" +
		"  $START: {new: {role: one, prompt: \"{{ prompt }}\"}}\n  one: {done: {role: $END}}\n"
}

// TestFrom: a role has what a file says, but for its own keys.
func TestFrom(t *testing.T) {
	const agent = "---\ndescription: d\nmodel: opus\ntools: Edit\n---\nYou write."
	files := kept{"/p/.claude/agents/a.md": agent, ".claude/agents/a.md": agent, "/p/.claude/agents/bad.md": "---\n"}
	claude := &flow.AgentRef{Inline: &flow.Agent{Kind: "claude", Model: "opus"}}
	for _, tt := range []struct {
		file, keys string
		want       flow.Role
		says       string // of an error
	}{
		{"/p/.plait/flows/f.yaml", "from: .claude/agents/a.md",
			flow.Role{Description: "d", Procedure: "You write.", Access: flow.Write, Agent: claude}, ""},
		{"/p/.workflows/f/index.yaml", "from: ./.claude/agents/a.md, access: read, agent: c, description: e",
			flow.Role{Description: "e", Procedure: "You write.", Access: flow.Read, Agent: &flow.AgentRef{Name: "c"}}, ""},
		{"f.yaml", "model: m, effort: high, mcp: [s], from: .claude/agents/a.md",
			flow.Role{Description: "d", Procedure: "You write.", Access: flow.Write, Agent: claude, Model: "m", Effort: "high",
				MCP: []string{"s"}}, ""},
		{"f.yaml", "until: [make, 3]", flow.Role{Access: flow.Read, Until: []string{"make", "3"}}, ""},
		{"f.yaml", "from: , until: , mcp: [], model: ", flow.Role{Access: flow.Read}, ""},

		{"/p/.plait/flows/f.yaml", "from: ../.claude/agents/a.md", flow.Role{}, "/p/.plait/flows/f.yaml:4:15: BAD_FROM: "},
		{"f.yaml", "from: /p/.claude/agents/a.md", flow.Role{}, "f.yaml:4:15: BAD_FROM: "},
		{"f.yaml", "from: a/../../.claude/agents/a.md", flow.Role{}, "f.yaml:4:15: BAD_FROM: "},
		{"f.yaml", `from: .claude\agents\a.md`, flow.Role{}, "f.yaml:4:15: BAD_FROM: "},
		{"f.yaml", "from: .claude/agents/none.md", flow.Role{}, `f.yaml:4:15: BAD_FROM: read ".claude/agents/none.md"`},
		{"f.yaml", "from: [a]", flow.Role{}, "f.yaml:4:15: WRONG_TYPE: from must be text"},
		{"/p/.plait/flows/f.yaml", "from: .claude/agents/bad.md", flow.Role{}, "/p/.claude/agents/bad.md:1:1: BAD_FROM: "},
		{"f.yaml", "until: make test", flow.Role{}, "f.yaml:4:16: BAD_AGENT: until is a list of arguments"},
		{"f.yaml", "until: []", flow.Role{}, "f.yaml:4:16: BAD_AGENT: until does not name a program"},
		{"f.yaml", "until: [make], chat: true", flow.Role{}, "f.yaml:4:9: BAD_UNTIL: role one has chat: true"},
		{"f.yaml", "until: [make], plan: true", flow.Role{}, "f.yaml:4:9: BAD_UNTIL: role one has plan: true"},
		{"f.yaml", "until: [make], flow: g", flow.Role{}, "f.yaml:4:9: BAD_UNTIL: role one has a flow"},
		{"f.yaml", "model: m, flow: g", flow.Role{}, "f.yaml:4:9: BAD_CALL: role one runs a sub-flow, whose roles"},
		{"f.yaml", "flow: g, mcp: []", flow.Role{}, "BAD_CALL: role one runs a sub-flow, whose roles have their own mcp"},
		{"f.yaml", `mcp: [""]`, flow.Role{}, "BAD_AGENT: an entry of mcp does not name a server"},
	} {
		t.Run(tt.file+" "+tt.keys, func(t *testing.T) {
			d, problems := parse.Parse(files, tt.file, []byte(withRole(tt.keys)))
			if tt.says != "" {
				for _, p := range problems {
					if strings.Contains(p.String(), tt.says) {
						schemaAgrees(t, withRole(tt.keys), problems)
						return
					}
				}
				t.Fatalf("problems: %v", problems)
			}
			if d == nil {
				t.Fatalf("problems: %v", problems)
			}
			schemaAgrees(t, withRole(tt.keys), problems)
			tt.want.Retry.Max = flow.DefaultRetries
			if diff := cmp.Diff(tt.want, d.Roles["one"]); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}
