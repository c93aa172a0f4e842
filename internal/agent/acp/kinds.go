package acp

import (
	"regexp"

	"github.com/plait-run/plait/internal/agent/host"
)

// Kinds are the known agents, as observed.
var Kinds = []Kind{
	{
		Package: host.Package{Name: "copilot", Title: "GitHub Copilot", NPM: "@github/copilot",
			Version: "1.0.102", Program: "node_modules/@github/copilot-*/copilot"},
		// No sub-agents, which would not be recorded. The prompt already includes AGENTS.md.
		Args: []string{"--acp", "--no-custom-instructions", "--disable-builtin-mcps", "--no-auto-update", "--no-remote",
			"--allow-tool=plait", "--excluded-tools=task,read_agent,list_agents,write_agent"},
		Env: map[string]string{"COPILOT_HOME": "{home}", "COPILOT_PKG_CACHE_HOME": "{cache}", "COPILOT_AUTO_UPDATE": "false"},
		Routes: []Route{
			{API: Messages, Env: map[string]string{"COPILOT_OFFLINE": "true", "COPILOT_PROVIDER_TYPE": "anthropic",
				"COPILOT_PROVIDER_BASE_URL": "{url}", "COPILOT_PROVIDER_API_KEY": "{token}", "COPILOT_MODEL": "{model}"}},
			{API: Chat, Env: map[string]string{"COPILOT_OFFLINE": "true", "COPILOT_PROVIDER_TYPE": "openai",
				"COPILOT_PROVIDER_BASE_URL": "{url}/v1", "COPILOT_PROVIDER_API_KEY": "{token}", "COPILOT_MODEL": "{model}"}},
		},
		Tokens: []string{"COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN"},
		// In session/new it accepts only servers over http.
		MCP: []string{`--additional-mcp-config={"mcpServers":{"plait":{"type":"local","command":{command},"args":{args},` +
			`"tools":["*"]}}}`},
		Free:  Setting{Options: map[string]string{"allow_all": "on"}},
		Ask:   Setting{Options: map[string]string{"allow_all": "off"}},
		Kept:  "session-state/{id}/events.jsonl",
		Usage: OfProcess,
		Notice: regexp.MustCompile(`^(Info: Disabled tools: .*|Info: /\S+|Warning: No token count multiplier .*` +
			`|Warning: [0-9]+ tool call\(s\) had no recorded result at resume\. .*` +
			`|Info: Operation cancelled by user)$`),
		Again:  regexp.MustCompile(`^Info: (Response was interrupted|Request failed) .*$`),
		Failed: regexp.MustCompile(`^Error: `),
	},
	{
		Package: host.Package{Name: "opencode", Title: "OpenCode", NPM: "opencode-ai",
			Version: "1.18.33", Program: "node_modules/opencode-*/bin/opencode"},
		Args: []string{"acp"},
		Env: map[string]string{"XDG_CONFIG_HOME": "{home}/config", "XDG_DATA_HOME": "{home}/data",
			"XDG_STATE_HOME":  "{home}/state",
			"OPENCODE_CONFIG": "{home}/opencode.json", "OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"},
		Routes: []Route{
			{API: Chat, Files: map[string]string{"opencode.json": `{"model":"plait/{model}","small_model":"plait/{model}",` +
				`"permission":{"edit":"ask","bash":"ask","webfetch":"ask"},"tools":{"task":false},"provider":{"plait":{` +
				`"npm":"@ai-sdk/openai-compatible","options":{"baseURL":"{url}/v1","apiKey":"{token}"},` +
				`"models":{"{model}":{}}}}}`}},
		},
		Usage: OfLast,
	},
	{
		Package: host.Package{Name: "gemini", Title: "Gemini CLI", NPM: "@google/gemini-cli",
			Version: "0.61.0", Program: "node_modules/@google/gemini-cli/bundle/gemini.js", Node: true},
		Args: []string{"--acp"},
		Env:  map[string]string{"HOME": "{home}", "GEMINI_CLI_NO_RELAUNCH": "true"},
		Files: map[string]string{".gemini/settings.json": `{"privacy":{"usageStatisticsEnabled":false},` +
			`"general":{"enableAutoUpdate":false},` +
			`"security":{"folderTrust":{"enabled":false},"auth":{"selectedType":"gemini-api-key"}}}`},
		Routes: []Route{{API: Gemini, Env: map[string]string{"GOOGLE_GEMINI_BASE_URL": "{url}", "GEMINI_API_KEY": "{token}",
			"GEMINI_MODEL": "{model}"}}},
		Tokens: []string{"GEMINI_API_KEY"},
		Free:   Setting{Mode: "yolo"}, Ask: Setting{Mode: "default"}, LoadsLater: true, Stays: true,
		Exit: regexp.MustCompile(`(?m)^Exit Code: ([0-9]{1,3})$`),
	},
	{
		Package: host.Package{Name: "qwen", Title: "Qwen Code", NPM: "@qwen-code/qwen-code",
			Version: "0.24.4", Program: "node_modules/@qwen-code/qwen-code/cli*.js", Node: true},
		Args: []string{"--acp"},
		Env:  map[string]string{"HOME": "{home}"},
		Files: map[string]string{".qwen/settings.json": `{"privacy":{"usageStatisticsEnabled":false},` +
			`"general":{"enableAutoUpdate":false},` +
			`"security":{"folderTrust":{"enabled":false},"auth":{"selectedType":"openai"}}}`},
		Routes: []Route{{API: Chat, Env: map[string]string{"OPENAI_BASE_URL": "{url}/v1", "OPENAI_API_KEY": "{token}",
			"OPENAI_MODEL": "{model}"}}},
		Free: Setting{Mode: "yolo"}, Ask: Setting{Mode: "default"}, Usage: InChunks,
		Kept: ".qwen/projects/*/chats/{id}.jsonl",
		Exit: regexp.MustCompile(`(?m)^Exit Code: ([0-9]{1,3})$`),
	},
	{
		Package: host.Package{Name: "kimi", Title: "Kimi Code", NPM: "@moonshot-ai/kimi-code",
			Version: "2.1.0", Program: "node_modules/@moonshot-ai/kimi-code/dist/main.*js", Node: true},
		Args: []string{"acp"},
		Env:  map[string]string{"KIMI_CODE_HOME": "{home}"},
		Routes: []Route{{API: Chat, Files: map[string]string{
			"config.toml": "default_model = \"plait\"\n[providers.plait]\ntype = \"openai\"\n" +
				"base_url = \"{url}/v1\"\napi_key = \"{token}\"\n[models.plait]\nprovider = \"plait\"\nmodel = " +
				"\"{model}\"\nmax_context_size = 128000\n"}}},
		Silent: true,
		Kept:   "sessions/*/{id}/agents/main/wire.jsonl",
		Exit:   regexp.MustCompile(`(?m)^(?:Process exited with code |Command failed with exit code: )([0-9]{1,3})\.?$`),
	},
	{
		Package: host.Package{Name: "codex-acp", Title: "Codex by ACP", NPM: "@agentclientprotocol/codex-acp",
			Version: "2.6.0", Program: "node_modules/@agentclientprotocol/codex-acp/dist/index.js", Node: true},
		Env: map[string]string{"CODEX_HOME": "{home}", "INITIAL_AGENT_MODE": "read-only"},
		Routes: []Route{{API: Responses, Env: map[string]string{"PLAIT_CODEX_TOKEN": "{token}"},
			Files: map[string]string{"config.toml": "model = \"{model}\"\nmodel_provider = " +
				"\"plait\"\n[model_providers.plait]\nname = \"plait\"\n" +
				"base_url = \"{url}/v1\"\nenv_key = \"PLAIT_CODEX_TOKEN\"\nwire_api = \"responses\"\n[analytics]\nenabled = " +
				"false\n"}}},
		// Without a sandbox its commands would run in its own sandbox, without asking.
		Free: Setting{Mode: "agent-full-access"}, Ask: Setting{Mode: "read-only"}, Silent: true, Usage: OfTurn,
		Notice: regexp.MustCompile(`^Warning: Model metadata for .* not found\. .*\s*$`),
	},
	{
		Package: host.Package{Name: "claude-acp", Title: "Claude Code by ACP", NPM: "@agentclientprotocol/claude-agent-acp",
			Version: "0.100.0", Program: "node_modules/@agentclientprotocol/claude-agent-acp/dist/index.js",
			Binary: "claude-agent-acp", Node: true},
		Env: map[string]string{"CLAUDE_CONFIG_DIR": "{home}", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
			"DISABLE_AUTOUPDATER": "1",
			"CLAUDE_CODE_TMPDIR":  "{home}/tmp", "IS_SANDBOX": "1"},
		Routes: []Route{{API: Messages, Env: map[string]string{"ANTHROPIC_BASE_URL": "{url}",
			"ANTHROPIC_API_KEY": "{token}"}}},
		Free: Setting{Mode: "bypassPermissions"}, Ask: Setting{Mode: "default"}, Usage: OfTurn,
		Kept: "projects/*/{id}.jsonl",
		Exit: regexp.MustCompile("^(?:```\n)?(?:Error: )?Exit code ([0-9]{1,3})\\b"),
	},
}
