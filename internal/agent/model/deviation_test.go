package model

import (
	"net/http"
	"strings"
	"testing"

	"github.com/plait-run/plait/internal/agent"
)

// A deviation is a difference between a well-formed response and one that a server was seen to send, or might.
type deviation struct {
	name     string // and a public report of it
	from     string // the well-formed response
	old, new string // what is different in it
	want     string // the answer, or "KIND: a part of the message"
}

const (
	brokenOff = agent.Infra + ": broke its answer off"
	noRoom    = agent.Limit + ": no room"
	tooFull   = agent.Limit + ": does not fit"
)

// deviates runs an agent whose server answers with d. A response with a call is followed by the answer.
func deviates(t *testing.T, d deviation) {
	t.Helper()
	if d.old != "" && strings.Count(d.from, d.old) != 1 {
		t.Fatalf("%q is not once in the response", d.old)
	}
	api, after := Chat, chatStream
	if strings.Contains(d.from, `"type":"message`) {
		api, after = Messages, messagesStream
	}
	bodies := []http.HandlerFunc{raw(strings.Replace(d.from, d.old, d.new, 1))}
	calls := strings.Contains(d.from, "c1")
	if calls && d.want == told {
		bodies = append(bodies, raw(after))
	}
	l := newLab(t, bodies...)
	l.cfg.API = api
	res, err := l.run()
	if kind, message, failed := strings.Cut(d.want, ": "); failed {
		if f := fails(t, err, kind); !strings.Contains(f.Message, message) {
			t.Errorf("it fails with %q, want %q", f.Message, message)
		}
		if kind == agent.Infra && len(l.bodies) != maxTries {
			t.Errorf("the server is asked %d times", len(l.bodies))
		}
		return
	}
	if err != nil || string(res.Output) != d.want || len(l.bodies) != len(bodies) {
		t.Fatalf("asked %d times: %q, %v", len(l.bodies), res.Output, err)
	}
	if calls && !strings.Contains(l.bodies[1], `two\nthree`) {
		t.Errorf("the model is told %s", l.bodies[1])
	}
	n := int64(len(bodies))
	want := agent.Usage{InputTokens: 100 * n, CachedInputTokens: 10 * n, OutputTokens: 20 * n}
	if res.Model != "big" || res.Usage != want {
		t.Errorf("model %q, used %+v, want %+v", res.Model, res.Usage, want)
	}
}

// TestDeviations checks that a response in an unusual form is understood if it can only mean one thing, and is
// broken off otherwise, with its well-formed twin.
func TestDeviations(t *testing.T) {
	for _, d := range []deviation{
		{"as it should be", chatStream, "", "", told},
		{"as it should be, whole", chatWhole, "", "", told},
		{"as it should be, Messages", messagesStream, "", "", told},
		{"as it should be, whole, Messages", messagesWhole, "", "", told},
		{"a call", chatCalls, "", "", told},
		{"a call, whole", chatWholeCalls, "", "", told},
		{"a call, Messages", messagesCalls, "", "", told},
		{"a call, whole, Messages", messagesWholeCalls, "", "", told},

		// Texts.
		{"parts: BerriAI/litellm#16272", chatStream, `"NOT "`, `[{"type":"text","text":"NOT "}]`, told},
		{"parts, whole", chatWhole, `"It is NOT safe."`, `[{"type":"text","text":"It is "},{"type":"output_text",` +
			`"text":"NOT safe."}]`, told},
		{"parts, Messages", messagesStream, `"NOT "`, `[{"type":"text","text":"NOT "}]`, told},
		{"parts, whole, Messages", messagesWhole, `"It is NOT safe."`, `[{"type":"text","text":"It is NOT safe."}]`, told},
		{"thoughts among parts: simonw/llm-mistral#39", chatStream, `{"reasoning_content":"Hm."}`,
			`{"content":[{"type":"thinking","thinking":[{"type":"text","text":"H"},{"type":"text","text":"m."}],` +
				`"closed":true}]}`, told},
		{"a reference among parts", chatStream, `"NOT "`, `[{"type":"text","text":"NOT "},{"type":"reference",` +
			`"reference_ids":[1]}]`, told},
		{"no parts", chatStream, `"content":""`, `"content":[]`, told},
		{"an unknown part", chatStream, `"NOT "`, `[{"type":"image_url","image_url":{}}]`,
			brokenOff + `: part of a text has the unknown type "image_url"`},
		{"a part without a type", chatStream, `"NOT "`, `[{"text":"NOT "}]`, brokenOff},
		{"a string instead of blocks", messagesWhole, `[{"type":"thinking","thinking":"Hm.","signature":"s"},` +
			`{"type":"text","text":"It is NOT safe."}]`, `"It is NOT safe."`, told},
		{"a string instead of blocks, at the beginning", messagesStream, `"content":[]`, `"content":""`, told},
		{"a number instead of blocks", messagesStream, `"content":[]`, `"content":7`, brokenOff},
		{"a number", chatStream, `"NOT "`, `7`, brokenOff + ": choices.delta.content is of the JSON type number"},
		{"strings", chatStream, `"NOT "`, `["NOT "]`, brokenOff},
		{"an object", chatStream, `"NOT "`, `{"text":"NOT "}`, brokenOff},
		{"a number, whole", chatWhole, `"It is NOT safe."`, `7`, brokenOff},
		{"a number, Messages", messagesStream, `"NOT "`, `7`, brokenOff + ": text is of the JSON type number"},
		{"a number, whole, Messages", messagesWhole, `"It is NOT safe."`, `7`, brokenOff},
		{"null", chatStream, `"content":""`, `"content":null,"refusal":null,"tool_calls":null,"function_call":null`, told},
		{"null, Messages", messagesStream, `"text":""`, `"text":null`, told},
		{"thoughts called reasoning", chatStream, `reasoning_content`, `reasoning`, told},

		// Events.
		{"an event that is cut", chatStream, `{"content":"NOT "},"finish_reason":null}]}`, `{"cont`,
			brokenOff + ": unexpected end of JSON input"},
		{"an event that is cut, Messages", messagesStream, `"text":"NOT "}}`, `"te`, brokenOff},
		{"a response that is cut", chatWhole, "}}}\n", "", brokenOff},
		{"a response that is cut, Messages", messagesWhole, "}}\n", "", brokenOff},
		{"a list of events", chatStream, `{"choices":[{"index":0,"delta":{"content":"NOT "},"finish_reason":null}]}`,
			`[{"choices":[{"index":0,"delta":{"content":"NOT "},"finish_reason":null}]}]`, brokenOff},
		{"a doubled name", chatStream, `data: {"choices":[{"index":0,"delta":{"content":"NOT "`,
			`data: data: {"choices":[{"index":0,"delta":{"content":"NOT "`, brokenOff},
		{"choices that are no list", chatStream, `[{"index":0,"delta":{"content":"NOT "},"finish_reason":null}]`,
			`{"delta":{"content":"NOT "}}`, brokenOff},
		{"an event in several lines", chatStream, `{"index":0,"delta":{"content":"NOT "}`,
			"\ndata:   {\ndata:\"delta\":\ndata: {\"content\":\"NOT \"}\ndata:", told},
		{"no empty line", chatStream, "}\n\ndata: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"NOT \"",
			"}\ndata: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"NOT \"", told},
		{"no name", chatStream, `data: {"choices":[{"index":0,"delta":{"content":"NOT "`,
			`{"choices":[{"index":0,"delta":{"content":"NOT "`, told},
		{"no name, and no empty line", chatStream, "\n\ndata: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"NOT \"",
			"\n{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"NOT \"", told},
		{"an indented line", chatStream, `data: {"choices":[{"index":0,"delta":{"content":"NOT "`,
			`  data: {"choices":[{"index":0,"delta":{"content":"NOT "`, told},
		{"a byte order mark", chatStream, `data: {"model"`, "\uFEFFdata: {\"model\"", told},
		{"a byte order mark, whole", chatWhole, `{"model"`, "\uFEFF \n{\"model\"", told},
		{"keep-alives", chatStream, `data: {"model"`, ": wait\n\ndata: \n\ndata: ping\n\nretry: 5\n\ndata: {\"model\"", told},
		{"an unknown event", messagesStream, `{"type":"ping"}`, `{"type":"news","delta":"x"}`, told},
		{"an event without a type", messagesStream, `"type":"content_block_delta","index":1,"delta":{"type":"text_delta",` +
			`"text":"NOT "}`,
			`"index":1,"delta":{"type":"text_delta","text":"NOT "}`, brokenOff + ": an event has no type"},
		{"an unknown block", messagesStream, `{"type":"text","text":""}`, `{"type":"compaction","content":""}`,
			brokenOff + `: a block has the unknown type "compaction"`},
		{"an unknown part of a block", messagesStream, `{"type":"text_delta","text":"NOT "}`,
			`{"type":"markdown_delta","markdown":"NOT "}`,
			brokenOff + `: a part of a block has the unknown type "markdown_delta"`},
		{"citations", messagesStream, `{"type":"ping"}`, `{"type":"content_block_delta","index":1,` +
			`"delta":{"type":"citations_delta","citation":{}}}`, told},
		{"the server's own tools", messagesStream, `{"type":"ping"}`,
			`{"type":"content_block_start","index":7,"content_block":{"type":"server_tool_use","id":"s","name":"web_search",` +
				`"input":{}}}` +
				"\n\ndata: " + `{"type":"content_block_delta","index":7,"delta":{"type":"input_json_delta","partial_json":"{}"}}` +
				"\n\ndata: " + `{"type":"content_block_start","index":8,"content_block":{"type":"web_search_tool_result",` +
				`"content":[]}}`, told},
		{"a text that did not begin", messagesStream, "event: content_block_start\ndata: " +
			`{"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}`, "", told},
		{"everything at the beginning", messagesStream, `"content":[]`, `"content":[{"type":"text","text":"So."}]`,
			"So.\n\n" + told},
		{"the message repeated: Perplexity", chatStream, `"delta":{"content":"NOT "}`,
			`"delta":{"content":"NOT "},"message":{"content":"It is NOT "}`, told},
		{"an empty delta beside the message", chatWhole, `"index":0,`, `"index":0,"delta":{},`, told},
		{"another answer", chatStream, `data: {"choices":[{"index":0,"delta":{"content":"NOT "`,
			`data: {"choices":[{"index":1,"delta":{"content":"Never."},"finish_reason":"length"}]}` + "\n\n" +
				`data: {"choices":[{"index":0,"delta":{"content":"NOT "`, told},

		// Counts, places and names.
		{"counts with a fraction", chatStream, `"prompt_tokens":100,"completion_tokens":20`,
			`"prompt_tokens":100.0,"completion_tokens":"20"`, told},
		{"counts with a fraction, whole", chatWhole, `"prompt_tokens":100,"completion_tokens":20`,
			`"prompt_tokens":100.0,"completion_tokens":"20"`, told},
		{"counts with a fraction, Messages", messagesStream, `"output_tokens":20`, `"output_tokens":20.0,"input_tokens":null`,
			told},
		{"counts with a fraction at the beginning, Messages", messagesStream, `"input_tokens":90`, `"input_tokens":90.0`,
			told},
		{"counts with a fraction, whole, Messages", messagesWhole, `"output_tokens":20`, `"output_tokens":"20"`, told},
		{"counts at the end: langfuse/langfuse#17699", messagesStream, `"output_tokens":20`,
			`"input_tokens":90,"cache_read_input_tokens":10,"output_tokens":20`, told},
		{"details that are no object", chatStream, `"completion_tokens":20,`,
			`"completion_tokens":20,"completion_tokens_details":[],`, told},
		{"places as strings", chatCalls, `[{"index":0,"function":{"arguments":"\"`,
			`[{"index":"0","function":{"arguments":"\"`, told},
		{"places with a fraction", chatCalls, `[{"index":0,"function":{"arguments":"\"`,
			`[{"index":0.0,"function":{"arguments":"\"`, told},
		{"no places", messagesCalls, `"index":0,"delta":{"type":"input_json_delta","partial_json":"\"`,
			`"delta":{"type":"input_json_delta","partial_json":"\"`, told},
		{"a place that is none", chatCalls, `[{"index":0,"function":{"arguments":"\"`,
			`[{"index":{},"function":{"arguments":"\"`, brokenOff},
		{"an id that is a number", chatCalls, `"c1"`, `11`, told},
		{"an id that is a number, Messages", messagesWholeCalls, `"c1"`, `11`, told},
		{"a name that is a list", chatCalls, `"read"`, `["read"]`, brokenOff},
		{"the model is null", chatWhole, `"usage"`, `"model":null,"usage"`, told},

		// Calls.
		{"arguments as an object", chatWholeCalls, `"{\"path\":\"a.txt\"}"`, `{"path":"a.txt"}`, told},
		{"arguments that begin with an empty object", chatCalls, `"arguments":""`, `"arguments":{}`, told},
		{"arguments that are null", chatCalls, `"arguments":""`, `"arguments":null`, told},
		{"arguments that are a list", chatWholeCalls, `"{\"path\":\"a.txt\"}"`, `["a.txt"]`, brokenOff},
		{"arguments as a string, Messages", messagesWholeCalls, `{"path":"a.txt"}`, `"{\"path\":\"a.txt\"}"`, told},
		{"arguments with the beginning too, Messages", messagesCalls, `"input":{}`, `"input":{"path":"a.txt"}`, told},
		{"arguments of no call, Messages", messagesCalls, `"index":0,"delta":{"type":"input_json_delta","partial_json":"\"`,
			`"index":3,"delta":{"type":"input_json_delta","partial_json":"\"`, brokenOff + ": arguments belong to no call"},
		{"calls that are no list", chatCalls, `[{"index":0,"id":"c1","function":{"name":"read","arguments":""}}]`,
			`{"index":0,"id":"c1"}`, brokenOff},
		{"the older form of calls", chatWholeCalls, `"tool_calls":[{"id":"c1","function":{"name":"read",` +
			`"arguments":"{\"path\":\"a.txt\"}"}}]},"finish_reason":"tool_calls"`,
			`"function_call":{"name":"read","arguments":"{\"path\":\"a.txt\"}"}},"finish_reason":"function_call"`, told},
		{"both forms of calls", chatWholeCalls, `"content":null`,
			`"content":null,"function_call":{"name":"read","arguments":"{\"path\":\"a.txt\"}"}`, told},
		{"a stub of the older form: CangShui/workbuddy-gateway#3", chatStream, `"delta":{},`,
			`"delta":{"function_call":{"name":"","arguments":""}},`, told},

		// Words at the end.
		{"a call that ends with stop: symfony/ai#2542", chatCalls, `"finish_reason":"tool_calls"`, `"finish_reason":"stop"`,
			told},
		{"no call, but its word", chatStream, `"stop"`, `"tool_calls"`,
			brokenOff + `: it ends with "tool_calls", but has no call`},
		{"no call, but its word, Messages", messagesWhole, `"end_turn"`, `"tool_use"`, brokenOff},
		{"in capitals", chatStream, `"stop"`, `"STOP"`, told},
		{"no word: earendil-works/pi#5793", chatCalls, `"tool_calls"}`, `null}`, brokenOff},
		{"no word, whole", chatWhole, `"stop"`, `null`, brokenOff},
		{"no word, Messages", messagesStream, `"end_turn"`, `null`, brokenOff},
		{"no word, whole, Messages", messagesWhole, `"end_turn"`, `null`, brokenOff},
		{"no end, Messages", messagesStream, `"type":"message_stop"`, `"type":"ping"`, brokenOff},
		{"empty words: CangShui/workbuddy-gateway#3", chatStream, `"NOT "},"finish_reason":null`,
			`"NOT "},"finish_reason":""`, told},
		{"null as a word", chatStream, `"NOT "},"finish_reason":null`, `"NOT "},"finish_reason":"null"`, told},
		{"an unknown word: turnstonelabs/turnstone#1162", chatStream, `"stop"`, `"error"`,
			brokenOff + `: it ends with "error"`},
		{"an unknown word, whole", chatWhole, `"stop"`, `"abort"`, brokenOff},
		{"an unknown word, Messages", messagesStream, `"end_turn"`, `"pause_turn"`,
			brokenOff + `: it ends with "pause_turn"`},
		{"an unknown word, whole, Messages", messagesWhole, `"end_turn"`, `"pause_turn"`, brokenOff},
		{"a word that is an object", chatStream, `"stop"`, `{"type":"stop"}`, brokenOff},
		{"two words", chatStream, `"NOT "},"finish_reason":null`, `"NOT "},"finish_reason":"error"`, brokenOff},
		{"two words, the first of a limit", chatStream, `"NOT "},"finish_reason":null`, `"NOT "},"finish_reason":"length"`,
			noRoom},
		{"text after the word: anomalyco/opencode#43040", chatStream, `"NOT "},"finish_reason":null`,
			`"NOT "},"finish_reason":"stop"`, told},
		{"a limit", chatStream, `"stop"`, `"max_tokens"`, noRoom},
		{"a limit, whole", chatWhole, `"stop"`, `"MAX_TOKENS"`, noRoom},
		{"a limit, Messages", messagesStream, `"end_turn"`, `"max_tokens"`, noRoom},
		{"a limit, whole, Messages", messagesWhole, `"end_turn"`, `"max_tokens"`, noRoom},
		{"a limit in a call", chatCalls, `"finish_reason":"tool_calls"`, `"finish_reason":"length"`, noRoom},
		{"a limit, and an event without a word", messagesStream, `"end_turn"},"usage":{"output_tokens":20}}`,
			`"max_tokens"}}` + "\n\ndata: " + `{"type":"message_delta","delta":{},"usage":{"output_tokens":20}}`, noRoom},
		{"the context is full", chatStream, `"stop"`, `"model_length"`, tooFull},
		{"the context is full, Messages", messagesStream, `"end_turn"`, `"model_context_window_exceeded"`, tooFull},
		{"a filter", chatStream, `"stop"`, `"SAFETY"`, agent.Refused + ": declined"},
		{"a refusal, whole, Messages", messagesWhole, `"end_turn"`, `"refusal"`, agent.Refused + ": declined"},

		// Errors in a response.
		{"an error in the choice", chatStream, `"delta":{},`, `"delta":{},"error":{"code":502,"message":"no one is there"},`,
			agent.Infra + ": says: no one is there"},
		{"an error with status 200", chatWhole, `"choices"`, `"error":{"message":"no one is there"},"choices"`,
			agent.Infra + ": says: no one is there"},
		{"an error with status 200, Messages", messagesWhole, `"content"`, `"error":"no one is there","content"`,
			agent.Infra + ": says: no one is there"},
		{"an error event, Messages", messagesStream, `{"type":"ping"}`,
			`{"type":"error","error":{"type":"overloaded_error","message":"no one is there"}}`,
			agent.Infra + ": says: no one is there"},
		{"an event that is named error", chatStream, "data: [DONE]", "event: error\ndata: no one is there",
			agent.Infra + ": says: no one is there"},
		{"an error without a name", chatStream, "data: [DONE]", `{"error":{"message":"no one is there"}}`,
			agent.Infra + ": says: no one is there"},
		{"no error", chatStream, `"delta":{},`, `"delta":{},"error":{},`, told},

		// Thoughts in the text.
		{"tags: agent0ai/agent-zero#679", chatStream, `"It is "`, `"<think>\nLet me see.\n</think>\n\nIt is "`, told},
		{"tags, whole", chatWhole, `"It is `, `"<think>Let me see.</think>It is `, told},
		{"tags, Messages", messagesStream, `"It is "`, `"\n<think>\n\n</think>\nIt is "`, told},
		{"only the closing tag", chatStream, `"It is "`, `"Let me see.\n</think>\n\nIt is "`, told},
		{"only the closing tag, in a line", chatStream, `"It is "`, `"Not </think> again. It is "`,
			"Not </think> again. It is NOT safe."},
		{"tags elsewhere", chatStream, `"It is "`, `"So:\n<think>\n</think>\nIt is "`,
			"So:\n<think>\n</think>\nIt is NOT safe."},
		{"only the opening tag", chatStream, `"It is "`, `"<think>It is "`, agent.InvalidOutput + ": without an answer"},
	} {
		t.Run(d.name, func(t *testing.T) { deviates(t, d) })
	}
}
