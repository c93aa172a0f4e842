package model

import (
	"encoding/json"
	"strings"
	"testing"
)

// FuzzRead checks that any output of a server is read without a panic, and that what was understood can be stored and
// sent to it again.
func FuzzRead(f *testing.F) {
	f.Add([]byte(`data: {"choices":[{"delta":{"content":"x","tool_calls":[{"index":3,"id":"a","function":{"name":"run",` +
		`"arguments":"{"}}]},` +
		`"finish_reason":"stop"}],"usage":{"prompt_tokens":1}}` + "\n\ndata: [DONE]\n"))
	f.Add([]byte(`data: {"choices":[{"delta":{"tool_calls":[{"function":{"name":"a"}},{"function":{"arguments":{}}},` +
		`{"index":-1}]}}]}`))
	f.Add([]byte(`data: {"choices":[{"delta":{"content":[{"type":"thinking","thinking":[{"text":"x"}]},null,"",{}]}}]}`))
	f.Add([]byte(`data: {"type":"content_block_start","content_block":{"type":"thinking","thinking":"","signature":4}}` +
		"\n" +
		`data: {"type":"content_block_delta","delta":{"thinking":"x","signature":"s","partial_json":"{"}}` + "\n" +
		`data: {"type":"content_block_stop"}` + "\n" + `data: {"type":"message_stop"}` + "\n"))
	f.Add([]byte(`data: {"type":"error","error":{"type":"overloaded_error"}}`))
	f.Add([]byte(`data: {"error":"no"}`))
	for _, c := range wholes {
		f.Add([]byte(c.body))
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		for _, api := range []string{Chat, Messages} {
			s, err := understood(api, string(stream))
			if err != nil {
				continue
			}
			e := entry{Role: byAssistant, Text: string(s.text), Calls: s.calls, Kept: s.kept}
			var back entry
			if err := json.Unmarshal(encode(e), &back); err != nil {
				t.Errorf("%+v is not kept: %v", e, err)
			}
			for _, d := range []dialect{&chat{}, &messages{}} {
				if body := encode(query{entries: []entry{e}}.body(d)); string(body) == "null\n" {
					t.Errorf("%+v cannot be said again", e)
				}
			}
		}
	})
}

// FuzzCut checks that a response is not taken for whole if it is cut anywhere before its last word, whatever its text.
func FuzzCut(f *testing.F) {
	f.Add("It is NOT safe.", 700)
	f.Add(`"finish_reason":"stop"`, 300)
	f.Add("data: [DONE]\n\n{\"type\":\"message_stop\"}", 1200)
	f.Add("<think>\n</think>", 90)
	f.Fuzz(func(t *testing.T, text string, at int) {
		said := strings.TrimSpace(string(encode(text)))
		for _, c := range wholes {
			for _, part := range []string{`"NOT "`, `"It is NOT safe."`, `"a.txt"`} {
				c.body = strings.ReplaceAll(c.body, part, said)
			}
			end := strings.LastIndex(c.body, c.end)
			if at < 0 || at > end {
				continue
			}
			if _, err := understood(c.api, c.body[:at]); err == nil {
				t.Errorf("%q is taken for whole", c.body[:at])
			}
		}
	})
}
