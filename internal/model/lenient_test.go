package model

import (
	"encoding/json"
	"testing"
)

// TestTypes checks what each type of a field accepts.
func TestTypes(t *testing.T) {
	const no = "cannot be read"
	for data, want := range map[string]struct{ content, word, input string }{
		`null`:                               {"", "", ""},
		`""`:                                 {"", "", ""},
		`"a"`:                                {"a", "a", "a"},
		`[]`:                                 {"", no, no},
		`["a",{"type":"text","text":"b"}]`:   {"ab", no, no},
		`[{"type":"text"},{"text":"b"}]`:     {"b", no, no},
		`[{"type":"output_text","text":""}]`: {"", no, no},
		`[{"type":"thinking","thinking":[{"type":"text","text":"a"}]},{"type":"thinking","thinking":"b"},"c"]`: {"c (ab)", no, no},
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
