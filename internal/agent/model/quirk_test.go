package model

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plait-run/plait/internal/agent"
)

// A quirk is something in a request that a server was seen to refuse although others accept it.
type quirk struct {
	name   string // and a public report of it
	api    string // "" both
	config map[string]any
	before []entry // an earlier conversation, which goes on
	when   func(request) bool
	status int
	says   string // the refusal
	more   int    // further requests that it costs
	fails  string // a part of the message, if it cannot be helped
}

// TestQuirks checks that an agent works with a server that has a quirk, streamed and whole, with each API, and that it
// sends the usual request to one without it.
func TestQuirks(t *testing.T) {
	for _, q := range quirks {
		for _, api := range []string{Chat, Messages} {
			if q.api != "" && q.api != api {
				continue
			}
			for _, whole := range []bool{false, true} {
				t.Run(strings.Join([]string{q.name, api, map[bool]string{true: "whole", false: "streamed"}[whole]}, ", "),
					func(t *testing.T) {
						q.meets(t, api, whole)
					})
			}
		}
	}
}

func (q quirk) meets(t *testing.T, api string, whole bool) {
	usual := 2 // requests: a call, and the answer
	if q.before != nil {
		usual = 1
	}
	for _, odd := range []bool{false, true} {
		var l *lab
		refused := 0
		l = newLab(t, func(w http.ResponseWriter, r *http.Request) {
			got, err := requestOf(api, l.bodies[len(l.bodies)-1])
			if err == nil {
				err = got.wellFormed()
			}
			if err != nil {
				t.Errorf("asked %s: %v", got.raw, err)
			}
			if odd && q.when(got) {
				refused++
				status(q.status, q.says)(w, r)
				return
			}
			raw(answerOf(got, whole))(w, r)
		})
		l.cfg.API, l.cfg.Extra = api, q.config
		res, err := l.run(func(r *agent.Request) {
			if q.before != nil {
				r.Session = l.begun(q.before)
			}
		})
		if odd && q.fails != "" {
			if f := fails(t, err, agent.Infra); !strings.Contains(f.Message, q.fails) || !f.Final {
				t.Errorf("it fails with %+v, want %q", f, q.fails)
			}
			continue
		}
		more := 0
		if odd {
			more = q.more
		}
		if err != nil || string(res.Output) != told || refused != more || len(l.bodies) != usual+more {
			t.Fatalf("asked %d times, %d refused: %q, %v\n%s", len(l.bodies), refused, res.Output, err,
				l.bodies[len(l.bodies)-1])
		}
		told := 0
		for _, e := range l.events {
			if e.Kind == agent.EventError && e.WillRetry && strings.Contains(e.Text, "; it is asked with") {
				told++
			}
		}
		if told != more {
			t.Errorf("%d changes of the request are told, want %d: %+v", told, more, l.events)
		}
	}
}

// answerOf calls read, and answers when it has the result.
func answerOf(r request, whole bool) string {
	whole = whole || string(r.fields["stream"]) != "true"
	done := strings.Contains(r.raw, `two\nthree`)
	return map[string]map[bool]map[bool]string{
		Chat: {false: {false: chatCalls, true: chatStream}, true: {false: chatWholeCalls, true: chatWhole}},
		Messages: {false: {false: messagesCalls, true: messagesStream},
			true: {false: messagesWholeCalls, true: messagesWhole}},
	}[r.api][whole][done]
}

// begun writes the session of an earlier conversation.
func (l *lab) begun(entries []entry) string {
	const id = "00000000-0000-0000-0000-000000000000"
	var lines bytes.Buffer
	for _, e := range entries {
		e.Turn = "1"
		lines.Write(encode(e))
	}
	dir := filepath.Join(l.home, "model")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		l.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, id+".jsonl"), lines.Bytes(), 0o600); err != nil {
		l.t.Fatal(err)
	}
	return id
}

// Conditions.

func field(name string) func(request) bool { return func(r request) bool { return r.has(name) } }

func sends(part string) func(request) bool {
	return func(r request) bool { return strings.Contains(r.raw, part) }
}

func role(name string) func(request) bool {
	return func(r request) bool { return len(r.messages) > 0 && r.messages[0].Role == name }
}

// later reports whether a conversation has calls with or without a thought.
func later(thought bool) func(request) bool {
	return func(r request) bool {
		for _, m := range r.messages {
			if len(m.Calls) > 0 && (m.Thought != nil) == thought {
				return true
			}
		}
		return false
	}
}

// openAI is a refusal as OpenAI words it.
func openAI(message, param string) string {
	return string(encode(object{"error": object{"message": message, "type": "invalid_request_error", "param": param,
		"code": "unsupported_value"}}))
}

// ended is a conversation with a call that has been answered, and the message of an assistant.
func ended(change func([]entry) []entry) []entry {
	return change([]entry{
		{Role: byUser, Text: "Do it."},
		{Role: byAssistant, Calls: []call{{ID: "c1", Name: "read", Args: `{"path":"a.txt"}`}}},
		{Role: byTool, Call: "c1", Text: "one\ntwo\nthree\n"},
		{Role: byAssistant, Text: "Done."},
	})
}

// never is the condition of a quirk that strict servers have anyway: see wellFormed.
func never(request) bool { return false }

var quirks = []quirk{
	// Fields that are left out.
	{name: "stream_options, named: FlowiseAI/Flowise#2866", api: Chat, when: field("stream_options"), status: 400, more: 1,
		says: `{"error":{"object":"error","type":"invalid_request_error","message":"Extra inputs are not permitted, field: ` +
			`'stream_options'"}}`},
	{name: "stream_options, in a list: modelscope/ms-agent#489", api: Chat, when: field("stream_options"), status: 400,
		more: 1,
		says: `{"object":"error","message":"[{'type': 'extra_forbidden', 'loc': ('body', 'stream_options'), 'msg': 'Extra ` +
			`inputs are not permitted', 'input': {}}]","code":400}`},
	{name: "stream_options, as a path: microsoft/semantic-kernel#10510", api: Chat, when: field("stream_options"),
		status: 422, more: 1,
		says: `{"error":{"code":400,"message":"Validation error at #/stream_options: Extra inputs are not permitted"}}`},
	{name: "stream_options, as an argument: openai/openai-agents-python#442", api: Chat, when: field("stream_options"),
		status: 400, more: 1,
		says: "unknown argument: stream_options"},
	{name: "stream_options, among those known", api: Chat, when: field("stream_options"), status: 422, more: 1,
		says: "Failed to deserialize the JSON body: unknown field `stream_options`, expected one of `model`, `messages`, " +
			"`stream`, `tools`"},
	{name: "stream_options, left out by the definition: anomalyco/opencode#4698", api: Chat, when: field("stream_options"),
		status: 400,
		config: map[string]any{"stream_options": nil}},
	{name: "stream: langgenius/dify#8615", when: func(r request) bool { return string(r.fields["stream"]) == "true" },
		status: 400, more: 1,
		says: openAI("Unsupported value: 'stream' does not support true with this model. Only the default (false) value is "+
			"supported.", "stream")},
	{name: "stream, for some: charmbracelet/crush#422", when: func(r request) bool {
		return string(r.fields["stream"]) == "true"
	}, status: 400, more: 1,
		says: openAI("Your organization must be verified to stream this model.", "stream")},
	{name: "stream, set by the definition: charmbracelet/crush#1216",
		when: func(r request) bool { return string(r.fields["stream"]) == "true" }, status: 400,
		config: map[string]any{"stream": false}},
	{name: "temperature: tmc/langchaingo#1355", config: map[string]any{"temperature": 0, "top_p": 1},
		when: field("temperature"), status: 400, more: 1,
		says: openAI("Unsupported value: 'temperature' does not support 0 with this model. Only the default (1) value is "+
			"supported.", "temperature")},
	{name: "temperature, deprecated: ltmoerdani/opencode-copilot-chat#20", config: map[string]any{"temperature": 0},
		when:   field("temperature"),
		status: 400, more: 1, says: `{"message":"temperature is deprecated for this model."}`},
	{name: "temperature, with status 500: Usagi-org/ai-goofish-monitor#198", config: map[string]any{"temperature": 0.5},
		when:   field("temperature"),
		status: 500, more: 1, says: openAI("Unsupported value: 'temperature' does not support 0.5 with this model.",
			"temperature")},
	{name: "two fields", config: map[string]any{"temperature": 0.5, "top_p": 0.5}, status: 400, more: 2,
		when: func(r request) bool { return r.has("temperature") || r.has("top_p") },
		says: "`temperature` and `top_p` are not supported"},
	{name: "max_tokens: teilomillet/gollm#33", api: Chat, config: map[string]any{"max_tokens": 100}, status: 400, more: 1,
		when: func(r request) bool { return r.has("max_tokens") || string(r.fields["max_completion_tokens"]) != "100" },
		says: openAI("Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' "+
			"instead.", "max_tokens")},
	{name: "max_completion_tokens", api: Chat, config: map[string]any{"max_completion_tokens": 100}, status: 422, more: 1,
		when: func(r request) bool { return string(r.fields["max_tokens"]) != "100" },
		says: `{"detail":[{"type":"extra_forbidden","loc":["body","max_completion_tokens"],"msg":"Extra inputs are not ` +
			`permitted; use max_tokens"}]}`},
	{name: "a long answer", api: Messages, status: 400, more: 1,
		when: func(r request) bool { return string(r.fields["max_tokens"]) != "8192" },
		says: `{"type":"error","error":{"type":"invalid_request_error","message":"max_tokens: 16384 > 8192, which is the ` +
			`maximum allowed number of output tokens"}}`},
	{name: "a long answer, by the definition", api: Chat, config: map[string]any{"max_tokens": 100000}, status: 400,
		more: 1,
		when: func(r request) bool { return string(r.fields["max_tokens"]) != "16384" },
		says: openAI("max_tokens is too large: 100000. This model supports at most 16384 completion tokens.", "max_tokens")},
	{name: "reasoning_effort: router-for-me/CLIProxyAPI#1059", config: map[string]any{"reasoning_effort": "xhigh"},
		when:   field("reasoning_effort"),
		status: 400, more: 1, says: `{'type': 'literal_error', 'loc': ('body', 'reasoning_effort'), 'msg': "Input should ` +
			`be 'low', 'medium' or 'high'"}`},
	{name: "parallel_tool_calls", config: map[string]any{"parallel_tool_calls": false}, when: field("parallel_tool_calls"),
		status: 400, more: 1,
		says: `[{"error":{"code":400,"message":"Invalid JSON payload received. Unknown name \"parallel_tool_calls\": ` +
			`Cannot find field.","status":"INVALID_ARGUMENT"}}]`},
	{name: "seed, by a gateway", config: map[string]any{"seed": 7}, when: field("seed"), status: 400, more: 1,
		says: `{"error":{"message":"litellm.UnsupportedParamsError: anthropic does not support parameters: ['seed'], for ` +
			`model=x","code":"400"}}`},
	{name: "a field, quoted by a gateway: BeehiveInnovations/pal-mcp-server#134", config: map[string]any{"top_k": 7},
		when: field("top_k"), status: 400, more: 1,
		says: `{"error":{"message":"Provider returned error","code":400,` +
			`"metadata":{"raw":"{\"error\":{\"message\":\"top_k: Extra inputs are not permitted\"}}"}}}`},
	{name: "cache_control: earendil-works/pi#7938", api: Messages, when: sends(`"cache_control"`), status: 400, more: 1,
		says: `{"type":"error","error":{"type":"invalid_request_error","message":"messages.0.content.0.text.cache_control: ` +
			`Extra inputs are not permitted"}}`},

	// Messages by the system.
	{name: "system, by a template: huggingface/chat-ui#1386", api: Chat, when: role("system"), status: 400, more: 1,
		says: `{"object":"error","message":"System role not supported","type":"BadRequestError","param":null,"code":400}`},
	{name: "system, with status 500: sgl-project/sglang#892", api: Chat, when: role("system"), status: 500, more: 1,
		says: "jinja2.exceptions.TemplateError: System role not supported"},
	{name: "system, by a model: tailcallhq/forgecode#1177", api: Chat, when: role("system"), status: 400, more: 1,
		says: openAI("Unsupported value: 'messages[0].role' does not support 'system' with this model.", "messages[0].role")},
	{name: "system, not named: withcatai/node-llama-cpp#263", api: Chat, when: role("system"), status: 400, more: 1,
		says: "Only user and assistant roles are supported!"},
	{name: "system, as a field", api: Messages, when: field("system"), status: 400, more: 1,
		says: `{"error":{"message":"system messages are not supported"}}`},

	// Tools.
	{name: "tools: ollama/ollama#11131", when: field("tools"), status: 400, fails: "config: {tools: null}",
		says: `{"error":{"message":"registry.ollama.ai/library/deepseek-r1:14b does not support tools","type":"api_error"}}`},
	{name: "tools, by a flag", when: field("tools"), status: 400, fails: "config: {tools: null}",
		says: `{"message":"\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set",` +
			`"code":400}`},
	{name: "tools, nowhere", when: field("tools"), status: 404, fails: "config: {tools: null}",
		says: `{"error":{"message":"No endpoints found that support tool use. Try disabling \"read\".","code":404}}`},
	{name: "tools, left out by the definition", when: field("tools"), status: 400, config: map[string]any{"tools": nil}},

	// Thoughts.
	{name: "thoughts wanted: cloudwego/eino-ext#700", api: Chat, when: later(false), status: 400, more: 1,
		says: `{"error":{"message":"thinking is enabled but reasoning_content is missing in assistant tool call message at ` +
			`index 2"}}`},
	{name: "thoughts wanted, in other words: QwenLM/qwen-code#3724", api: Chat, when: later(false), status: 400, more: 1,
		says: "The `reasoning_content` in the thinking mode must be passed back to the API."},
	{name: "thoughts refused", api: Chat, when: later(true), status: 400, says: "reasoning_content is not allowed"},
	{name: "a signature: tombii/better-ccflare#52", api: Messages, when: sends(`"signature"`), status: 400, more: 1,
		says: "{\"error\":{\"message\":\"messages.1.content.0: Invalid `signature` in `thinking` block\"}}",
		before: ended(func(e []entry) []entry {
			e[1].Kept = append(e[1].Kept, []byte(`{"type":"thinking","thinking":"Hm.","signature":"of another server"}`))
			return e
		})},

	// What an earlier conversation has. Each is sent so that a strict server accepts it at once.
	{name: "no arguments: duolahypercho/codex-router#161", when: never,
		before: ended(func(e []entry) []entry { e[1].Calls[0].Args = ""; return e })},
	{name: "arguments that are cut: sigoden/aichat#1217", when: never,
		before: ended(func(e []entry) []entry { e[1].Calls[0].Args = `{"pa`; return e })},
	{name: "arguments with half a character: anthropics/claude-code#3277", when: never,
		before: ended(func(e []entry) []entry { e[1].Calls[0].Args = `{"path":"\ud83d"}`; return e })},
	{name: "no id", when: never, before: ended(func(e []entry) []entry {
		e[1].Calls[0].ID, e[2].Call = "",
			""
		return e
	})},
	{name: "an id of its own only: openclaw/openclaw#47136", when: never,
		before: ended(func(e []entry) []entry { return append(e, e...) })},
	{name: "an id twice in a message: anthropics/claude-code#28515", when: never, before: ended(func(e []entry) []entry {
		e[1].Calls = append(e[1].Calls, e[1].Calls...)
		return e
	})},
	{name: "a result that is missing: charmbracelet/crush#279", when: never, before: ended(func(e []entry) []entry {
		e[1].Calls = append([]call{{ID: "c0", Name: "read"}}, e[1].Calls...)
		return e
	})},
	{name: "a result without its call", when: never, before: ended(
		func(e []entry) []entry { return append(e, entry{Role: byTool, Call: "c9", Text: "x"}) })},
	{name: "a result that comes late", when: never, before: ended(func(e []entry) []entry {
		return []entry{e[0], e[1], {Role: byUser, Text: "And?"}, e[2], e[3]}
	})},
	{name: "an empty result", when: never, before: ended(func(e []entry) []entry {
		return append([]entry{e[0], {Role: byAssistant, Calls: []call{{ID: "c0", Name: "read"}}}, {Role: byTool, Call: "c0"}},
			e...)
	})},
	{name: "an empty answer: OpenHands/OpenHands#8685", when: never,
		before: ended(func(e []entry) []entry { e[3].Text = ""; return e })},
	{name: "a blank answer: anthropics/claude-code#23390", when: never,
		before: ended(func(e []entry) []entry { e[3].Text = " \n"; return e })},
	{name: "a blank text with a call: vercel/ai#13505", when: never,
		before: ended(func(e []entry) []entry { e[1].Text = "\n"; return e })},
	{name: "two prompts: vllm-project/vllm#6862", when: never,
		before: ended(func(e []entry) []entry { return append([]entry{e[0]}, e...) })},
	{name: "a name that is none", when: never, before: ended(
		func(e []entry) []entry { e[1].Calls[0].Name = "functions.read file"; return e })},
	{name: "a zero byte", when: never, before: ended(func(e []entry) []entry { e[2].Text += "\x00"; return e })},
}
