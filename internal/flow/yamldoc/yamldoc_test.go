package yamldoc

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
	"pgregory.net/rapid"

	"github.com/plait-run/plait/internal/record/dag"
)

func TestValue(t *testing.T) {
	for _, tt := range []struct{ doc, want string }{
		{"a: 1\nb: [x, 1.5, true, null, 2024-01-02]\nc: 1e30",
			`{"a":1,"b":["x",1.5,true,null,"2024-01-02"],"c":1e+30}`},
		{`{"a": {"b": "\u00e9"}}`, `{"a":{"b":"é"}}`},
		{`"<<": 1`, `{"<<":1}`},
		{"a: 1\na: 2", "2:1 duplicate key a, first on line 1"},
		{"a: &x 1\nb: *x", `1:4 "a": anchors are not allowed`},
		{"- *x", "1:3 "},
		{"a: !!binary aGk=", `1:4 "a": tag !!binary is not allowed`},
		{"a: {<<: {b: 1}}", "1:5 keys must be plain text, without references"},
		{"[a]: 1", "1:1 keys must be plain text"},
		{"a: .inf", `1:4 "a": number .inf cannot be kept exactly; put it in quotes if it is a text`},
		{"- a: [-.inf]", `1:7 number -.inf cannot be kept exactly`},
		{"a: 9007199254740993", `1:4 "a": number 9007199254740993 cannot be kept exactly`},
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
		{"a: 1\nb: é\x1b", "2:5 control characters are not allowed"},
		{"a: @b", "1:4 a value cannot begin with '@': put it in quotes"},
	} {
		got := read(Parse, tt.doc)
		if got != tt.want && !(strings.HasPrefix(got, tt.want) && isDigit(tt.want[0])) {
			t.Errorf("%q: got %s, want %s", tt.doc, got, tt.want)
		}
	}
	for _, empty := range []string{"", "# nothing\n"} {
		if root, err := Parse([]byte(empty)); root != nil || err != nil {
			t.Errorf("%q: got %v, %v", empty, root, err)
		}
	}
}

// JSON is read as JSON, and what YAML shares with it as JSON has it.
func TestJSON(t *testing.T) {
	tests := []struct{ doc, want string }{
		{`a: "\ud83d\ude00 \\ud83d\\ude00 \uD83D\uDE01"` + "\n" + `b: \ud83d\ude00` + "\n" + `c: '\ud83d\ude00'`,
			`{"a":"😀 \\ud83d\\ude00 😁","b":"\\ud83d\\ude00","c":"\\ud83d\\ude00"}`},
		{`"\ud83d\ude00": "` + "\U000F0000" + `"`, `{"😀":"` + "\U000F0000" + `"}`},
		{`a: ["\ud83d\ude00", "\ud83d"]`, `1:24 \ud83d and the like are half of a character`},
		{`{"a": "\ud83d"}`, `1:10 \ud83d and the like are half of a character`},
		{"{\"a\":\t\"\\ud83d\\ude00\\/\",\n\t\"b\": 1E2, \"c\": \"\x7f\", \"<<\": {}}",
			"{\"<<\":{},\"a\":\"😀/\",\"b\":100,\"c\":\"\x7f\"}"},
		{"{\"a\": 1,\n \"a\": 2}", "2:2 duplicate key a, first on line 1"},
		{"{\"a\": 1, \"é\": [\n1e400]}", "2:1 number 1e400 cannot be kept exactly"},
		{"\uFEFF[1]", "[1]"},
		{"{a: 1}", `{"a":1}`},
		{"%YAML 1.2\n%PLAIT x\n  # y\n---\na: 1", `{"a":1}`},
		{"%PLAIT x\na: 1", "1:"},
		{"%YAML 2.0\n---\na: 1", "1:1 only version 1 of YAML can be read"},
		{`a: "C:\dir"`, `1:7 unknown escape \d: use single quotes, or write \\d`},
		{`a: "\x1"`, "1:7 an escape has too few digits"},
	}
	for _, tt := range tests {
		if got := read(Parse, tt.doc); got != tt.want && !(strings.HasPrefix(got, tt.want) && isDigit(tt.want[0])) {
			t.Errorf("%q: got %s, want %s", tt.doc, got, tt.want)
		}
	}
	for _, tt := range []struct{ doc, want string }{
		{` {"a": [true, null, -0.5, "\ud83d\ude00"]} `, `{"a":[true,null,-0.5,"😀"]}`},
		{"\n[1,\n é]", "3:2 not JSON: invalid character 'é' at start of value"},
		{`{"a": "\ud83d"}`, `1:8 not JSON: invalid surrogate pair`},
		{"[1]\n[2]", "2:1 not JSON: more text follows the value"},
		{"[1,]", "1:3 not JSON: invalid character ','"}, {"# x", "1:1 not JSON"}, {"[1", "1:3 not JSON: unexpected EOF"},
		{"01", "1:2 not JSON"}, {strings.Repeat("[", 20000), "1:10001 not JSON: exceeded max depth"},
	} {
		if got := read(ParseJSON, tt.doc); !strings.HasPrefix(got, tt.want) {
			t.Errorf("%.40q: got %s, want %s", tt.doc, got, tt.want)
		}
	}
}

// Numbers are those of YAML 1.2, or are refused with what to write.
func TestNumbers(t *testing.T) {
	const want = `[0,-0.5,0.5,5,1,15,31,"1:30",0.001,0,"0644","12","13","08","0755x","0o8","_1"]`
	got := read(Parse, "[0, -0.5, .5, 5., +1, 0o17, 0x1F, 1:30, 1e-3, 0e12, !!str 0644, !!str 12, ! 13, '08', 0755x, 0o8, _1]")
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for _, n := range []string{
		"0644", "02142", "08", "-007.5", "00", "1_0", "9_0.0", "0b1", "-0x1F", "0X1F", "+0o7", "!!int 010", "0_1", "0x1_F",
	} {
		if got := read(Parse, "- "+n); !strings.Contains(got, "write it without leading zeros") {
			t.Errorf("%s: got %s", n, got)
		}
	}
	for _, n := range []string{".inf", "-.INF", ".nan", "1E400", "1e-400", "0xFFFFFFFFFFFFFFFFFFFF", "0o7777777777777777777777777"} {
		if got := read(Parse, "- "+n); !strings.Contains(got, "cannot be kept exactly; put it in quotes") {
			t.Errorf("%s: got %s", n, got)
		}
	}
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// read returns a document as JSON, or its error as line:column message.
func read(parse func([]byte) (*yaml.Node, error), doc string) string {
	root, err := parse([]byte(doc))
	var v any
	if err == nil {
		v, err = Value(root, 4)
	}
	var bad *Error
	if errors.As(err, &bad) {
		return fmt.Sprintf("%d:%d %s", bad.Line, bad.Column, bad.Message)
	}
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v)
	return strings.TrimSuffix(b.String(), "\n")
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
