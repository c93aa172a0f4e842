package model

import (
	"bytes"
	"encoding/json"
	"testing"
)

// FuzzRead checks that any output of a server is read without a panic, and that what was understood can be stored and
// sent to it again.
func FuzzRead(f *testing.F) {
	f.Add([]byte(`data: {"choices":[{"delta":{"content":"x","tool_calls":[{"index":3,"id":"a","function":{"name":"run","arguments":"{"}}]},` +
		`"finish_reason":"stop"}],"usage":{"prompt_tokens":1}}` + "\n\ndata: [DONE]\n"))
	f.Add([]byte(`data: {"choices":[{"delta":{"tool_calls":[{"function":{"name":"a"}},{"function":{"arguments":"{}"}},{"index":-1}]}}]}`))
	f.Add([]byte(`data: {"type":"content_block_start","content_block":{"type":"thinking","thinking":"","signature":4}}` + "\n" +
		`data: {"type":"content_block_delta","delta":{"thinking":"x","signature":"s","partial_json":"{"}}` + "\n" +
		`data: {"type":"content_block_stop"}` + "\n" + `data: {"type":"message_stop"}` + "\n"))
	f.Add([]byte(`data: {"type":"error","error":{"type":"overloaded_error"}}`))
	f.Add([]byte(`data: {"error":"no"}`))
	f.Fuzz(func(t *testing.T, stream []byte) {
		for _, make := range []func() dialect{func() dialect { return &chat{} }, func() dialect { return &messages{} }} {
			var s reply
			d := make()
			if events(bytes.NewReader(stream), func(data []byte) error { return d.read(data, &s) }) != nil {
				continue
			}
			e := entry{Role: byAssistant, Text: string(s.text), Calls: s.calls, Kept: s.kept}
			var back entry
			if err := json.Unmarshal(encode(e), &back); err != nil {
				t.Errorf("%+v is not kept: %v", e, err)
			}
			if body := encode(make().body(query{entries: []entry{e}})); string(body) == "null\n" {
				t.Errorf("%+v cannot be said again", e)
			}
		}
	})
}
