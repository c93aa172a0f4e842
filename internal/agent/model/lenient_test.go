package model

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestTypes checks what each type of a field accepts.
func TestTypes(t *testing.T) {
	const no = "cannot be read"
	for data, want := range map[string]struct{ content, word, input string }{
		`null`: {"", "", ""},
		`""`:   {"", "", ""},
		`"a"`:  {"a", "a", "a"},
		`[]`:   {"", no, no},
		`[{"type":"text","text":"a"},{"type":"text","text":"b"}]`: {"ab", no, no},
		`[{"text":"b"}]`:                     {no, no, no},
		`["b"]`:                              {no, no, no},
		`[{"type":"output_text","text":""}]`: {"", no, no},
		`[{"type":"thinking","thinking":[{"type":"text","text":"a"}]},{"type":"text","text":"c"}]`: {"c (a)", no, no},
		`[{"type":"reference"}]`:             {"", no, no},
		`[{"type":"audio","text":"a"}]`:      {no, no, no},
		`[{"type":"text","text":1}]`:         {no, no, no},
		`[{"type":"thinking","thinking":1}]`: {no, no, no},
		`[null]`:                             {no, no, no},
		`[1]`:                                {no, no, no},
		`{}`:                                 {no, no, ""},
		`{"a": 1}`:                           {no, no, `{"a": 1}`},
		`7`:                                  {no, "7", no},
		`7.0`:                                {no, "7", no},
		`true`:                               {no, no, no},
	} {
		got := want
		var c content
		got.content = no
		if json.Unmarshal([]byte(data), &c) == nil {
			if got.content = c.text; c.thought != "" {
				got.content += " (" + c.thought + ")"
			}
		}
		var w word
		if got.word = no; json.Unmarshal([]byte(data), &w) == nil {
			got.word = string(w)
		}
		var in input
		if got.input = no; json.Unmarshal([]byte(data), &in) == nil {
			got.input = string(in)
		}
		if got != want {
			t.Errorf("%s: %+v, want %+v", data, got, want)
		}
	}
}

// TestParallelCalls checks that the parts of two calls stay apart, mixed or numbered alike.
func TestParallelCalls(t *testing.T) {
	for name, c := range map[string]struct{ api, body string }{
		"mixed": {Chat, `data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"read"}},{"index":1,"id":"b","function":{"name":"read"}}]}}]}

data: {"choices":[{"delta":{"tool_calls":[{"index":1,"function":{"arguments":"{\"b\":1}"}},{"index":0,"id":"a","function":{"name":"read","arguments":"{\"a\":1}"}}]},"finish_reason":"stop"}]}
`},
		"numbered alike": {Chat, `data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"read","arguments":"{\"a\":1}"}}]}}]}

data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"b","function":{"name":"read","arguments":"{\"b\":1}"}}]},"finish_reason":"stop"}]}
`},
		"mixed, Messages": {Messages, `data: {"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"a","name":"read","input":{}}}

data: {"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"b","name":"read","input":{}}}

data: {"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"a\""}}

data: {"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"b\":1}"}}

data: {"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":":1}"}}

data: {"type":"message_delta","delta":{"stop_reason":"tool_use"}}

data: {"type":"message_stop"}
`},
	} {
		s, err := understood(c.api, c.body)
		want := []call{{ID: "a", Name: "read", Args: `{"a":1}`}, {ID: "b", Name: "read", Args: `{"b":1}`}}
		if diff := cmp.Diff(want, s.calls); diff != "" || err != nil {
			t.Errorf("%s: %v\n%s", name, err, diff)
		}
	}
}
