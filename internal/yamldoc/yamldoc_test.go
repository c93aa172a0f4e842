package yamldoc

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestValue(t *testing.T) {
	for _, tt := range []struct{ doc, want string }{
		{"a: 1\nb: [x, 1.5, true, null, 2024-01-02]\nc: 1e30",
			`{"a":1,"b":["x",1.5,true,null,"2024-01-02"],"c":1e+30}`},
		{`{"a": {"b": "\u00e9"}}`, `{"a":{"b":"é"}}`},
		{`"<<": 1`, `{"\u003c\u003c":1}`},
		{"a: 1\na: 2", "2:1 duplicate key a, first on line 1"},
		{"a: &x 1\nb: *x", "1:4 anchors are not allowed"},
		{"- *x", "1:3 "},
		{"a: !!binary aGk=", "1:4 tag !!binary is not allowed"},
		{"a: {<<: {b: 1}}", "1:5 keys must be plain text, without references"},
		{"[a]: 1", "1:1 keys must be plain text"},
		{"a: .inf", "1:4 .inf is not a number"},
		{"a: 9007199254740993", "1:4 9007199254740993 is not a number"},
		{"[[[[[[1]]]]]]", "1:6 nested too deep"},
		{"a: 1\n---\nb: 2", "2:1 a second document begins here"},
		{"a: [", `2:1 missing "]": the "[" on line 1 is not closed`},
		{"a: 1\nb: [x, {y: 1}\nc: 2", `3:1 missing "]": the "[" on line 2 is not closed`},
		{"a: {b: [1, 2], c: d\ne: f", `2:2 missing "}": the "{" on line 1 is not closed`},
		{"a: \"x\nb: 1", "2:5 the quotation mark opened on line 1 is never closed"},
		{"a: 1\n\tb: 2", "2:1 tabs are not allowed for indentation: use spaces"},
		{"a:\n\tb: 2", "2:1 tabs are not allowed for indentation: use spaces"},
		{"a:\n  - x\n \t- y", "3:"},
		{"a: @b", "1:4 a value cannot begin with '@': put it in quotes"},
	} {
		root, err := Parse([]byte(tt.doc))
		var v any
		if err == nil {
			v, err = Value(root, 4)
		}
		got, _ := json.Marshal(v)
		var bad *Error
		if errors.As(err, &bad) {
			got, _ = json.Marshal([]int{bad.Line, bad.Column})
			got = []byte(strings.ReplaceAll(strings.Trim(string(got), "[]"), ",", ":") + " " + bad.Message)
		}
		if string(got) != tt.want && (err == nil || !strings.HasPrefix(string(got), tt.want)) {
			t.Errorf("%q: got %s, want %s", tt.doc, got, tt.want)
		}
	}
	for _, empty := range []string{"", "# nothing\n"} {
		if root, err := Parse([]byte(empty)); root != nil || err != nil {
			t.Errorf("%q: got %v, %v", empty, root, err)
		}
	}
}
