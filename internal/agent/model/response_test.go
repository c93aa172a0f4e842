package model

import (
	"net/http"
	"strings"
	"testing"
)

// Well-formed responses of both APIs, streamed and whole. The answer is told, in parts, after a thought; or a call
// of read is made.
const (
	told = "It is NOT safe."

	chatStream = `data: {"model":"big","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}

data: {"choices":[{"index":0,"delta":{"reasoning_content":"Hm."},"finish_reason":null}]}

data: {"choices":[{"index":0,"delta":{"content":"It is "},"finish_reason":null}]}

data: {"choices":[{"index":0,"delta":{"content":"NOT "},"finish_reason":null}]}

data: {"choices":[{"index":0,"delta":{"content":"safe."},"finish_reason":null}]}

data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}

data: {"choices":[],"usage":{"prompt_tokens":100,"completion_tokens":20,"prompt_tokens_details":{"cached_tokens":10}}}

data: [DONE]

`
	chatWhole = `{"model":"big","choices":[{"index":0,"message":{"role":"assistant","content":"It is NOT safe.","reasoning_content":"Hm."},"finish_reason":"stop"}],"usage":{"prompt_tokens":100,"completion_tokens":20,"prompt_tokens_details":{"cached_tokens":10}}}
`
	messagesStream = `event: message_start
data: {"type":"message_start","message":{"model":"big","content":[],"stop_reason":null,"usage":{"input_tokens":90,"cache_read_input_tokens":10,"output_tokens":1}}}

event: ping
data: {"type":"ping"}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Hm."}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: content_block_start
data: {"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"It is "}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"NOT "}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"safe."}}

event: content_block_stop
data: {"type":"content_block_stop","index":1}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":20}}

event: message_stop
data: {"type":"message_stop"}

`
	messagesWhole = `{"type":"message","model":"big","content":[{"type":"thinking","thinking":"Hm.","signature":"s"},{"type":"text","text":"It is NOT safe."}],"stop_reason":"end_turn","usage":{"input_tokens":90,"cache_read_input_tokens":10,"output_tokens":20}}
`

	chatCalls = `data: {"model":"big","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c1","function":{"name":"read","arguments":""}}]}}]}

data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"path\":"}}]}}]}

data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"\"a.txt\"}"}}]}}]}

data: {"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":100,"completion_tokens":20,"prompt_tokens_details":{"cached_tokens":10}}}

data: [DONE]

`
	chatWholeCalls = `{"model":"big","choices":[{"index":0,"message":{"content":null,"tool_calls":[{"id":"c1","function":{"name":"read","arguments":"{\"path\":\"a.txt\"}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":100,"completion_tokens":20,"prompt_tokens_details":{"cached_tokens":10}}}
`
	messagesCalls = `event: message_start
data: {"type":"message_start","message":{"model":"big","content":[],"stop_reason":null,"usage":{"input_tokens":90,"cache_read_input_tokens":10,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"c1","name":"read","input":{}}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"path\":"}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"\"a.txt\"}"}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":20}}

event: message_stop
data: {"type":"message_stop"}

`
	messagesWholeCalls = `{"type":"message","model":"big","content":[{"type":"tool_use","id":"c1","name":"read","input":{"path":"a.txt"}}],"stop_reason":"tool_use","usage":{"input_tokens":90,"cache_read_input_tokens":10,"output_tokens":20}}
`
)

// wholes has these responses, each with its last word.
var wholes = []struct{ api, body, end string }{
	{Chat, chatStream, `"stop"`},
	{Chat, chatWhole, "}"},
	{Messages, messagesStream, `"message_stop"}`},
	{Messages, messagesWhole, "}"},
	{Chat, chatCalls, `"tool_calls"}`},
	{Chat, chatWholeCalls, "}"},
	{Messages, messagesCalls, `"message_stop"}`},
	{Messages, messagesWholeCalls, "}"},
}

// understood reads a response.
func understood(api, body string) (reply, error) {
	var s reply
	var d dialect = &chat{}
	if api == Messages {
		d = &messages{}
	}
	err := s.judge(events(strings.NewReader(body), func(data []byte) error { return d.read(data, &s) }))
	return s, err
}

// raw serves a response as it is.
func raw(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		kind := "text/event-stream"
		if strings.HasPrefix(body, "{") {
			kind = "application/json"
		}
		w.Header().Set("Content-Type", kind)
		w.Write([]byte(body))
	}
}

// TestCut checks that a response that is cut anywhere before the end of its last word is not taken for whole.
func TestCut(t *testing.T) {
	for _, c := range wholes {
		end := strings.LastIndex(c.body, c.end)
		for at := range len(c.body) + 1 {
			if _, err := understood(c.api, c.body[:at]); at <= end && err == nil || at == len(c.body) && err != nil {
				t.Errorf("%s: %q: %v", c.api, c.body[:at], err)
			}
		}
	}
}
