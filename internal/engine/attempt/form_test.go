package attempt

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/flow"
)

// program returns the result of a program that printed out and exited with 0.
func program(out string) agent.Result {
	return agent.Result{Output: []byte(out), Plain: true, Exit: exit(0)}
}

// An output that begins like an answer, or has a $status, and cannot be read is invalid, of a program as of a model,
// and the reason says what to correct.
func TestUnreadableAnswers(t *testing.T) {
	const notOne = "the output has $status, but is not one answer"
	deep := strings.Repeat(`{"a":`, 60) + "1" + strings.Repeat("}", 60)
	for _, tt := range []struct{ name, out, want string }{
		{"nanoseconds", `{"$status":"failed","at":1732635660123456789}`,
			`the answer is one JSON object that cannot be kept: "at": number 1732635660123456789 cannot be kept exactly; ` +
				`write it as a text`},
		{"the same without a status", `{"at":1732635660123456789}`, `"at": number 1732635660123456789`},
		{"a number in a list", `{"ids":[1,9007199254740993]}`, `"ids/1": number 9007199254740993`},
		{"out of range", `{"x":1e400}`, `"x": number 1e400`},
		{"half of a character", `{"$status":"failed","cut":"\ud83d"}`,
			`"cut": line 1, column 28: \ud83d is half of a character`},
		{"a key twice", `{"$status":"failed","a":1,"a":2}`, `line 1, column 27: duplicate key "a"`},
		{"too deep", deep, "nested deeper than 56 levels"},
		{"far too deep", strings.Repeat(`{"a":`, 70) + "1" + strings.Repeat("}", 70), "nested deeper than 64 levels"},
		{"a comma too many", "{\"a\":1,\n \"b\":2,\n}", "line 2, column 7: no value between the comma and '}'"},
		{"NaN", `{"a":NaN}`, `"a": line 1, column 6: invalid character 'N'`},
		{"Python's words", `{"ok": True}`, `invalid character 'T'`},
		{"cut off", `{"$status":"failed","log":"`, "the end is missing"},
		{"cut off in the key", `{"$sta`, "the end is missing"},
		{"not UTF-8", "{\"$status\":\"failed\",\"log\":\"\xff\"}", "not UTF-8"},
		{"UTF-16", "\xff\xfe{\x00\"\x00$\x00s\x00t\x00a\x00t\x00u\x00s\x00\"\x00:\x001\x00}\x00", notOne},
		{"a fence with a number", "```\n{\"n\":9007199254740993}\n```", `"n": number`},
		{"a fence of tildes with a duplicate", "~~~ json\n{\"a\":1,\"a\":2}\n~~~\n", "duplicate key"},
		{"text after the fence", "```json\n{\"$status\":\"failed\"}\n```\nI hope this helps.", "text follows the code fence"},
		{"text before the fence", "Here it is:\n\n```json\n{\"$status\":\"failed\"}\n```\n", notOne},
		{"text before a pretty object", "> scan\n\n{\n  \"a\": {\"b\": 1},\n  \"$status\": \"failed\"\n}\n", notOne},
		{"text after the object", "{\"$status\":\"failed\"}\nDone.\n",
			"the answer must be one JSON object and nothing else: line 2, column 1"},
		{"two objects", `{"$status":"done"}{"$status":"failed"}`, "nothing else: line 1, column 19"},
		{"two objects, one with a status", "{\"a\":1}\n{\"\\u0024status\":\"failed\"}", notOne},
		{"a list of answers", `[{"$status":"failed"}]`, notOne},
		{"Python's repr", `{'$status': 'failed'}`, notOne},
		{"an object of YAML", `{$status: failed}`, notOne},
		{"colors", "\x1b[1;39m{\n  \x1b[0m\x1b[34;1m\"$status\"\x1b[0m\x1b[1;39m: \x1b[0;32m\"failed\"\x1b[0m\n}", notOne},
		{"front matter without an end", "---\n$status: failed\n", "begins on line 1 is never closed by a line of ---"},
		{"the same below blank lines", "\n\r\n\r---\n$status: failed\n", "begins on line 4 is never closed"},
		{"the same in quotes", "---\n\"$status\": failed", "never closed"},
		{"an end of another kind", "---\n$status: failed\n...\nbody\n", "never closed"},
		{"an end with a comment", "---\n$status: failed\n--- # end\n", "never closed"},
		{"prose below three dashes", "---\nNote: this: is no YAML\n", "never closed"},
		{"a kind after the dashes", "---yaml\na: 1\n---\n", "must begin with a line of --- alone, not \"---yaml\""},
		{"a kind after a space", "--- YAML\na: 1\n---\n", "must begin with a line of --- alone"},
		{"fenced front matter", "```yaml\n---\n$status: failed\n---\n```\n", "in a code fence"},
		{"a comment before the dashes", "# answer\n---\n$status: failed\n---\n", notOne},
		{"a directive before the dashes", "%YAML 1.2\n---\n$status: failed\n---\n", notOne},
		{"words before the dashes", "scanning\n---\n$status: failed\n---\n", notOne},
		{"fields on the line of dashes", "--- {$status: failed}\n", notOne},
		{"fields without dashes", "$status: failed\n", notOne},
		{"fields without dashes, in quotes", "\"$status\": failed\n", notOne},
		{"a bar of progress before", "10 %\r100 %\r$status: failed\r", notOne},
		{"front matter with a number", "---\n$status: failed\nat: 1732635660123456789\n---\n",
			`line 3: "at": number 1732635660123456789 cannot be kept exactly; put it in quotes`},
		{"front matter with a key twice", "---\na: 1\na: 2\n---\n", "line 3: duplicate key a, first on line 2"},
		{"front matter with half of a character", "---\na: 1\nb: \"\\ud83d\"\n---\n", `line 3: \ud83d and the like`},
		{"front matter with an open quote", "---\na: \"x\nb: 1\n---\n", "the quotation mark opened on line 2 is never"},
		{"front matter with another escape", "---\na: \"\\d\"\n---\n", `line 2: unknown escape \d: use single quotes`},
		{"front matter with a mode", "---\nmode: 0644\n---\n", `line 2: "mode": 0644 is not the same number in every`},
		{"an escape in front matter", "---\n\x1b[31m$status: failed\n---\n", "front matter: line 2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parse(program(tt.out), 0, flow.Role{}, false)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("of a program: got %s and error %v, want one about %q", got.meta, err, tt.want)
			}
			if err != nil && !strings.Contains(err.Error(), "output: text") {
				t.Errorf("of a program: %v", err)
			}
			if got, err := parse(agent.Result{Output: []byte(tt.out)}, 0, flow.Role{}, false); err == nil {
				t.Errorf("of a model: got %s", got.meta)
			}
			got, err = parse(program(tt.out), 0, flow.Role{}, true)
			if err != nil || string(got.meta) != `{"$status":"done","exitCode":0}` {
				t.Errorf("with output: text: got %s and error %v", got.meta, err)
			}
			mapped := program(tt.out)
			mapped.Status = "failed"
			if got, err := parse(mapped, 0, flow.Role{}, false); err == nil {
				t.Errorf("with a mapped exit code: got %s", got.meta)
			}
		})
	}
}

// The same answers, as they should be.
func TestReadableAnswers(t *testing.T) {
	for _, tt := range []struct{ name, out, meta string }{
		{"a number as a text", `{"$status":"failed","at":"1732635660123456789"}`,
			`{"$status":"failed","at":"1732635660123456789"}`},
		{"nanoseconds of Python", `{"$status":"failed","at":1.7326356605e+18}`,
			`{"$status":"failed","at":1732635660500000000}`},
		{"the same in front matter", "---\n$status: failed\nat: 1.7326356605e+18\n---\n",
			`{"$status":"failed","at":1732635660500000000}`},
		{"a whole character", `{"$status":"failed","cut":"\ud83d\ude00"}`, `{"$status":"failed","cut":"😀"}`},
		{"the same in front matter", `---` + "\n" + `"cut": "\ud83d\ude00"` + "\n---\n", `{"$status":"done","cut":"😀"}`},
		{"55 levels", `{"a":` + strings.Repeat("[", 55) + strings.Repeat("]", 55) + `}`,
			`{"$status":"done","a":` + strings.Repeat("[", 55) + strings.Repeat("]", 55) + `}`},
		{"a bare fence", "```\n{\"$status\":\"failed\"}\n```", `{"$status":"failed"}`},
		{"a fence in capitals", "```JSON\n{\"$status\":\"failed\"}\n```\n\n", `{"$status":"failed"}`},
		{"a fence of tildes", "~~~~json5 x\n{\"$status\":\"failed\"}\n~~~~", `{"$status":"failed"}`},
		{"a fence on one line", "```json {\"$status\":\"failed\"}```", `{"$status":"failed"}`},
		{"a fence without an end", "```json\n{\"$status\":\"failed\"}\n", `{"$status":"failed"}`},
		{"two byte order marks", "\uFEFF\n\uFEFF{\"$status\":\"failed\"}", `{"$status":"failed"}`},
		{"a terminal's sequence before", "\x1b[?25l\x1b[0m---\n$status: failed\n---\n", `{"$status":"failed"}`},
		{"carriage returns alone", "---\r$status: failed\rn: 1\r---\rbody", `{"$status":"failed","n":1}`},
		{"a comment after the dashes", "--- # answer\n$status: failed\n---\n", `{"$status":"failed"}`},
		{"front matter and a field", "---\nn: 1\nm: 2\n---\nResult: 3 files\n", `{"$status":"done","m":2,"n":1}`},
		{"front matter, then fields and prose", "---\nn: 1\n---\nA: 1\nB: 2\n---\nprose\n", `{"$status":"done","n":1}`},
		{"front matter with a status, then fields", "---\n$status: failed\n---\nA: 1\nB: 2\n", `{"$status":"failed"}`},
		{"another status, then fields", "---\nstatus: failed\n---\nA: 1\nB: 2\n",
			`{"$status":"failed","status":"failed"}`},
		{"front matter with nothing", "---\n{}\n---\nbody", `{"$status":"done"}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parse(program(tt.out), 0, flow.Role{}, false)
			if err != nil || string(got.meta) != tt.meta {
				t.Errorf("got %s and error %v, want %s", got.meta, err, tt.meta)
			}
		})
	}
}

// What is something else than an answer stays plain text, unless the role has a schema that says what to answer.
func TestPlainTexts(t *testing.T) {
	for _, tt := range []struct {
		name, out string
		like      bool // begins like an answer
	}{
		{"several objects, as of go list -json", "{\n\t\"Dir\": \"/a\"\n}\n{\n\t\"Dir\": \"/b\"\n}\n", true},
		{"lines of JSON and a word", "{\"level\":\"info\"}\n{\"level\":\"warn\"}\nDone.\n", true},
		{"several objects with big numbers", "{\"id\":9007199254740993}\n{\"id\":1}\n", true},
		{"one document of YAML, as of helm template", "---\n# Source: a.yaml\nkind: Service\nmetadata:\n  name: x\n", true},
		{"two documents of YAML, as of helm template",
			"---\n# Source: a.yaml\nkind: A\nid: 9007199254740993\n---\n# Source: b.yaml\nkind: B\nmetadata: {}\n", true},
		{"more documents of YAML", "---\n# nothing\n---\nkind: A\nx: &a 1\ny: *a\n---\n# nothing\n---\nkind: B\nz: 1\n", true},
		{"three dashes", "---\n", true},
		{"a document, as of kubectl get -o yaml", "apiVersion: v1\nkind: List\nitems: []\n", false},
		{"a list", "[1, 2]\n", false},
		{"a number", "9007199254740993\n", false},
		{"a diff", "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n", false},
		{"a diff with labels", "--- old\n+++ new\n", false},
		{"a line of dashes", "----\nTitle\n----\n", false},
		{"a list of dashes", "- a\n- b\n", false},
		{"code that begins with a brace", "{ echo hi; }\n", false},
		{"an array of C", "{\"a\", \"b\"}\n", false},
		{"an array of Postgres", "{\"foo bar\",baz}\n", false},
		{"a fenced program", "```go\nfunc main() {}\n```\n", false},
		{"git grep", "docs/a.md:12:$status: done\nx.go:3:\tif s := m[\"$status\"]; s != nil {\n", false},
		{"a flow", "roles:\n  a:\n    frontmatter:\n      properties:\n        $status: {const: done}\n", false},
		{"a schema of a flow", "see:\n{\"properties\": {\"$status\": {\"const\": \"done\"}}}\n", false},
		{"a diff of a flow", "+        $status: {const: done}\n-  \"$status\": \"done\"\n", false},
		{"prose about it", "The key $status: it routes.\n", false},
		{"a shell script", "echo \"$status: $code\"\nprintf '$status'\n", false},
		{"bytes", "\x7fELF\x00\x01\xff\xfe", false},
		{"nothing", "", false},
		{"blank lines", "\n\n", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parse(program(tt.out), 0, flow.Role{}, false)
			if err != nil || string(got.meta) != `{"$status":"done","exitCode":0}` {
				t.Errorf("got %s and error %v", got.meta, err)
			}
			if want := strings.ToValidUTF8(tt.out, "\uFFFD"); got.text != want {
				t.Errorf("got text %q, want %q", got.text, want)
			}
			_, err = parse(program(tt.out), 0, flow.Role{Frontmatter: json.RawMessage("{}")}, false)
			if (err != nil) != tt.like {
				t.Errorf("of a role with a schema: %v", err)
			}
			if _, err := parse(agent.Result{Output: []byte(tt.out)}, 0, flow.Role{}, false); err == nil {
				t.Error("a model may answer so")
			}
		})
	}
}

// An answer that is too long is not a text that says nothing.
func TestAnswersThatAreTooLong(t *testing.T) {
	long := strings.Repeat("x", 100)
	for _, tt := range []struct{ name, out, meta, text, want string }{
		{"an object", `{"$status":"failed","log":"` + long + `"}`, "", "", "at most 50 bytes"},
		{"an object that is cut off", `{"$status":"failed","log":"` + long, "", "", "at most 50 bytes"},
		{"several, one with a status", `{"a":"` + long + `"}{"$status":"failed"}`, "", "", "$status"},
		{"front matter with a long body", "---\n$status: failed\n---\n" + long, `{"$status":"failed"}`, long[:50], ""},
		{"text", long, `{"$status":"done","exitCode":0}`, long[:50], ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parse(program(tt.out), 50, flow.Role{}, false)
			if tt.want != "" {
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("got %s and error %v, want one about %q", got.meta, err, tt.want)
				}
				return
			}
			if err != nil || string(got.meta) != tt.meta || got.text != tt.text || !got.headOnly {
				t.Errorf("got %s, %q, head only %v, error %v", got.meta, got.text, got.headOnly, err)
			}
		})
	}
}

// One JSON object is an answer or an error, never plain text.
func TestOneObjectIsNeverPlain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.SampledFrom([]string{`"a"`, `"a"`, `"$status"`, `"\ud83d"`, `""`, `"b\u0000"`})
		value := rapid.SampledFrom([]string{`1`, `9007199254740993`, `1e400`, `1e16`, `"x"`, `"\ud83d"`, `null`, `[[]]`, `{}`,
			`"` + "\xff" + `"`, strings.Repeat("[", 80) + strings.Repeat("]", 80), `{"a":1,"a":2}`})
		space := rapid.SampledFrom([]string{"", " ", "\n", "\r\n\t"})
		var fields []string
		for range rapid.IntRange(0, 4).Draw(t, "fields") {
			fields = append(fields, space.Draw(t, "before")+
				key.Draw(t, "key")+":"+space.Draw(t, "between")+value.Draw(t, "value"))
		}
		object := "{" + strings.Join(fields, ",") + "}"
		neverPlain(t, rapid.SampledFrom([]string{"", "\uFEFF", "\n \n"}).Draw(t, "lead")+object+space.Draw(t, "end"))
	})
}

func neverPlain(t interface{ Fatalf(string, ...any) }, out string) {
	var object map[string]json.RawMessage
	if json.Unmarshal([]byte(strings.TrimPrefix(out, bom)), &object) != nil || object == nil {
		return
	}
	if _, own := object["exitCode"]; own {
		return
	}
	if got, err := parse(program(out), 0, flow.Role{}, false); err == nil && got.fields["exitCode"] != nil {
		t.Fatalf("%q is plain: %s", out, got.meta)
	}
}
