package yamldoc

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/plait-run/plait/internal/dag"
)

func TestValue(t *testing.T) {
	for _, tt := range []struct{ doc, want string }{
		{"a: 1\nb: [x, 1.5, true, null, 2024-01-02]\nc: 1e30",
			`{"a":1,"b":["x",1.5,true,null,"2024-01-02"],"c":1e+30}`},
		{`{"a": {"b": "\u00e9"}}`, `{"a":{"b":"é"}}`},
		{`"<<": 1`, `{"\u003c\u003c":1}`},
		{"a: 1\na: 2", "2:1 duplicate key a, first on line 1"},
		{"a: &x 1\nb: *x", `1:4 "a": anchors are not allowed`},
		{"- *x", "1:3 "},
		{"a: !!binary aGk=", `1:4 "a": tag !!binary is not allowed`},
		{"a: {<<: {b: 1}}", "1:5 keys must be plain text, without references"},
		{"[a]: 1", "1:1 keys must be plain text"},
		{"a: .inf", `1:4 "a": number .inf cannot be kept exactly; put it in quotes if it is a text`},
		{"- a: [-.inf]", `1:7 number -.inf cannot be kept exactly`},
		{"a: 9007199254740993", `1:4 "a": number 9007199254740993 cannot be kept exactly`},
		{"a: 9_007_199_254_740_993.0", `1:4 "a": number 9_007_199_254_740_993.0 cannot be kept exactly`},
		{"a: 99999999999999999999999", `1:4 "a": number 99999999999999999999999 cannot be kept exactly`},
		{"a: 0x20000000000001", `1:4 "a": number 0x20000000000001 cannot be kept exactly`},
		{"a: 1.2345678901234567e+18", `1:4 "a": number 1.2345678901234567e+18 cannot be kept exactly`},
		{"a: 1E400", `1:4 "a": number 1E400 cannot be kept exactly`},
		{"a: 1e-400", `1:4 "a": number 1e-400 cannot be kept exactly`},
		{`a: ["1E400", '9007199254740993', -0.0, 3.14159265358979323846, +1e16, 9007199254740992]`,
			`{"a":["1E400","9007199254740993",-0,3.141592653589793,10000000000000000,9007199254740992]}`},
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

// A number in front matter is the number in JSON, or is refused like it.
func TestNumbersAreThoseOfJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`-?(0|[1-9][0-9]{0,22})(\.[0-9]{1,4})?(e[+-]?[0-9]{1,3})?`).Draw(t, "number")
		want, refused := dag.Canonical([]byte(text))
		root, err := Parse([]byte("[" + text + "]"))
		if err != nil {
			t.Fatal(err)
		}
		v, err := Value(root, 4)
		if (err == nil) != (refused == nil) {
			t.Fatalf("%s: %v; as JSON %v", text, err, refused)
		}
		if got, err := dag.Marshal(v); refused == nil && (err != nil || string(got) != "["+string(want)+"]") {
			t.Fatalf("%s is %s, %v; as JSON %s", text, got, err, want)
		}
	})
}
