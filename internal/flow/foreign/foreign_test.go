package foreign

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/flow"
)

func inline(a flow.Agent) *flow.AgentRef { return &flow.AgentRef{Inline: &a} }

func TestRole(t *testing.T) {
	const claude, prompt, copilot = ".claude/agents/a.md", ".codex/prompts/a.md", ".github/agents/a.agent.md"
	const toml = "model = \"m0\"\n\n[profiles.deep]\nmodel = \"m1\"\nmodel_reasoning_effort = \"high\"\n" +
		"sandbox_mode = \"workspace-write\"\n[profiles.free]\nsandbox_mode = \"danger-full-access\"\n" +
		"approval_policy = \"never\"\n"
	const tools = ": tools: they only say whether the role may write; none is withheld from the agent"
	for _, tt := range []struct {
		name, file, text string
		want             flow.Role // but for defaults
		says             []string
	}{
		{"a reviewer", claude,
			"---\nname: a\ndescription: Use it: often. \"So\"\ntools: Read, Grep, Bash(git:*), mcp__github__get_issue\n" +
				"model: opus\neffort: high\ncolor: red\n---\n\nYou review.\n",
			flow.Role{Description: `Use it: often. "So"`, Procedure: "You review.",
				Agent: inline(flow.Agent{Kind: "claude", Model: "opus", Effort: "high", MCP: []string{"github"}})},
			[]string{"4 NOT_MAPPED" + tools}},
		{"a writer that takes what there is", claude,
			"---\ndescription: |\n  Two\n  lines\ntools: [Edit]\nmodel: inherit\nhooks: {}\n---\nYou write.",
			flow.Role{Description: "Two\nlines", Procedure: "You write.", Access: flow.Write},
			[]string{"5 NOT_MAPPED" + tools, `7 NOT_MAPPED: "hooks" has no meaning here`}},
		{"only text", claude, "You do.", flow.Role{Procedure: "You do."}, nil},
		{"Windows", claude, "\ufeff---\r\ndescription: x\r\n---\r\nYou do.\r\n", flow.Role{Description: "x",
			Procedure: "You do."}, nil},
		{"a prompt", prompt, "---\ndescription: x\nargument-hint: WHAT\n---\nMend $ARGUMENTS at $1.",
			flow.Role{Description: "x", Procedure: "Mend (what you are asked to do now) at $1."},
			[]string{"1 NOT_MAPPED: $1: a role has one text to work on"}},
		{"Copilot", copilot, "---\nname: A\ntools: ['read', 'edit', 'github/get']\nmodel: [m1, m2]\n---\nYou do.",
			flow.Role{Procedure: "You do.", Access: flow.Write,
				Agent: inline(flow.Agent{Kind: "acp", Agent: "copilot", Model: "m1"})},
			[]string{"3 NOT_MAPPED" + tools,
				"3 NOT_MAPPED: tools: github/get: Copilot's own settings say which MCP servers it has",
				"4 NOT_MAPPED: model: only the first of 2"}},
		{"a profile", ".codex/config.toml#deep", toml,
			flow.Role{Description: "Codex with the profile deep", Access: flow.Write,
				Agent: inline(flow.Agent{Kind: "codex", Model: "m1", Effort: "high"})}, nil},
		{"a free profile", ".codex/config.toml#free", toml, flow.Role{Description: "Codex with the profile free"},
			[]string{`7 NOT_MAPPED: "approval_policy" has no meaning here`,
				`7 NOT_MAPPED: sandbox_mode "danger-full-access": only a flow itself gives access: full`}},

		{"no such profile", ".codex/config.toml#x", toml, flow.Role{},
			[]string{`1 BAD_FROM: there is no profile "x", only deep, free`}},
		{"no TOML", ".codex/config.toml#x", "a = \n[", flow.Role{},
			[]string{"1 BAD_FROM: the configuration cannot be read: "}},
		{"another place", "docs/a.md", "x", flow.Role{},
			[]string{"1 BAD_FROM: docs/a.md is not where"}},
		{"no end", claude, "---\nname: a\n", flow.Role{},
			[]string{"1 BAD_FROM: the front matter has no end"}},
		{"no text", claude, "---\nname: a\n---", flow.Role{},
			[]string{"1 BAD_FROM: there is no text"}},
		{"no YAML", claude, "---\nname: a\nmodel: [\n---\nx", flow.Role{},
			[]string{"BAD_FROM: the front matter cannot be read"}},
		{"a list", claude, "---\n- a\n---\nx", flow.Role{},
			[]string{"2 BAD_FROM: the front matter is not a list of keys"}},
		{"an alias", claude, "---\nname: &a x\nmodel: *a\n---\nx", flow.Role{},
			[]string{"2 BAD_FROM: the front matter cannot"}},
		{"a model that is none", claude, "---\nmodel: {a: b}\n---\nx", flow.Role{},
			[]string{"2 BAD_FROM: model must be a text"}},
		{"tools that are none", claude, "---\ntools: 3\n---\nx", flow.Role{},
			[]string{"2 BAD_FROM: tools is a list of names"}},
		{"a key twice", claude, "---\nmodel: a\nmodel: b\n---\nx", flow.Role{},
			[]string{"3 BAD_FROM: "}},
		{"not UTF-8", claude, "\xff", flow.Role{},
			[]string{"1 BAD_FROM: the file is not UTF-8"}},
		{"too long", claude, strings.Repeat("x", maxFile+1), flow.Role{},
			[]string{"1 BAD_FROM: the file has"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, problems := Role(tt.file, "f", []byte(tt.text))
			if !flow.Failed(problems) {
				tt.want.Retry.Max = flow.DefaultRetries
				if tt.want.Access == "" {
					tt.want.Access = flow.Read
				}
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("-want +got\n%s", diff)
				}
			}
			if len(problems) < len(tt.says) || !flow.Failed(problems) && len(problems) > len(tt.says) {
				t.Fatalf("problems: %v", problems)
			}
			for i, says := range tt.says {
				if line, ok := strings.CutPrefix(problems[i].String(), "f:"); !ok ||
					!strings.Contains(strings.Replace(line, ":1: ", " ", 1), says) {
					t.Errorf("problem %d: %s; want %s", i, problems[i], says)
				}
			}
		})
	}
}

func TestName(t *testing.T) {
	for file, want := range map[string]string{".claude/agents/go/code-reviewer.md": "code-reviewer",
		".github/agents/My Agent.agent.md": "My-Agent", ".codex/config.toml#deep": "deep", ".claude/agents/-.md": ""} {
		if got := Name(file); got != want {
			t.Errorf("%s: %q", file, got)
		}
	}
}

// FuzzRole checks that no file makes reading it panic, and that one that is read gives a role with a text or an agent.
func FuzzRole(f *testing.F) {
	for _, text := range []string{"---\nname: a\ntools: A, B\n---\nx", "---\n---\n", "x", "---\n<<: {}\n---\nx",
		"[profiles.a]\nmodel = 1\n"} {
		f.Add(uint8(0), text)
		f.Add(uint8(3), text)
	}
	files := []string{".claude/agents/a.md", ".codex/prompts/a.md", ".github/agents/a.agent.md", ".codex/config.toml#a"}
	f.Fuzz(func(t *testing.T, which uint8, text string) {
		file := files[int(which)%len(files)]
		role, problems := Role(file, "f", []byte(text))
		for _, p := range problems {
			if p.Line < 1 || p.Message == "" {
				t.Errorf("problem without a place: %+v", p)
			}
		}
		if !flow.Failed(problems) && role.Procedure == "" && role.Description == "" {
			t.Errorf("a role that says nothing: %+v", role)
		}
		if role.Access == flow.Full {
			t.Error("full access")
		}
	})
}
