package attempt

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/dag"
)

func exit(code int) *int { return &code }

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		name   string
		result agent.Result
		meta   string
		text   string
	}{
		{"front matter", agent.Result{Output: []byte("---\n$status: done\nn: 3\nlist: [a, b]\n---\n\nThe body.\n")},
			`{"$status":"done","list":["a","b"],"n":3}`, "The body.\n"},
		{"front matter after blanks and a BOM",
			agent.Result{Output: []byte("\uFEFF\n \n---\r\n$status: done\r\n---\r\nBody")}, `{"$status":"done"}`,
			"Body"},
		{"front matter alone", agent.Result{Output: []byte("---\n$status: done\n---")}, `{"$status":"done"}`, ""},
		{"a date stays text", agent.Result{Output: []byte("---\n$status: done\nday: 2026-01-02\n---\n")},
			`{"$status":"done","day":"2026-01-02"}`, ""},
		{"one JSON object", agent.Result{Output: []byte(" {\"b\": 1, \"$status\": \"done\"}\n")},
			`{"$status":"done","b":1}`, "{\"b\": 1, \"$status\": \"done\"}\n"},
		{"a fenced JSON object", agent.Result{Output: []byte("```json\n{\"$status\":\"done\"}\n```\n")},
			`{"$status":"done"}`, "```json\n{\"$status\":\"done\"}\n```\n"},
		{"plain text of a program", agent.Result{Output: []byte("all is well\n"), Plain: true, Exit: exit(0)},
			`{"$status":"done","exitCode":0}`, "all is well\n"},
		{"a mapped exit code", agent.Result{Output: []byte("x"), Plain: true, Exit: exit(1), Status: "failed"},
			`{"$status":"failed","exitCode":1}`, "x"},
		{"a mapped exit code wins", agent.Result{Output: []byte("---\n$status: fine\n---\n"), Plain: true,
			Exit: exit(1), Status: "failed"}, `{"$status":"failed"}`, ""},
		{"front matter of a program without status", agent.Result{Output: []byte("---\nn: 1\n---\n"), Plain: true,
			Exit: exit(0)}, `{"$status":"done","n":1}`, ""},
		{"nothing printed", agent.Result{Plain: true, Exit: exit(0)}, `{"$status":"done","exitCode":0}`, ""},
		{"three dashes without an end", agent.Result{Output: []byte("---\nno end\n"), Plain: true, Exit: exit(0)},
			`{"$status":"done","exitCode":0}`, "---\nno end\n"},
		{"prose that begins with a brace", agent.Result{Output: []byte("{not json}"), Plain: true, Exit: exit(0)},
			`{"$status":"done","exitCode":0}`, "{not json}"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parse(tt.result, 0, flow.Role{}, false)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]any{tt.meta, tt.text, false},
				[]any{string(got.meta), got.text, got.headOnly}); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	deep := "---\n$status: done\nx: " + strings.Repeat("[", 100) + strings.Repeat("]", 100) + "\n---\n"
	for _, tt := range []struct{ name, output, want string }{
		{"prose", "I have done it.", "front matter"},
		{"nothing", "", "front matter"},
		{"no status", "---\nn: 1\n---\n", "$status is missing"},
		{"a status that is no text", "---\n$status: 3\n---\n", "/$status: 3; it must be a text that is not empty"},
		{"a key twice", "---\n$status: done\na: 1\na: 2\n---\n", "duplicate key"},
		{"an alias", "---\n$status: done\na: &x 1\nb: *x\n---\n", "anchors"},
		{"a tag", "---\n$status: done\na: !!binary aGk=\n---\n", "not allowed"},
		{"a list", "---\n- a\n---\n", "want fields"},
		{"no YAML", "---\n\t: :\n---\n", "front matter"},
		{"a number that would be rounded", "---\n$status: done\nn: 9007199254740993\n---\n",
			`"n": number 9007199254740993 cannot be kept`},
		{"infinity", "---\n$status: done\nn: .inf\n---\n", ""},
		{"deep nesting", deep, "deep"},
		{"two JSON objects", `{"$status":"done"}{"$status":"done"}`, "one JSON object"},
		{"a JSON key twice", `{"$status":"done","$status":"done"}`, "one JSON object"},
		{"not UTF-8", "\xff\xfe", "UTF-8"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parse(agent.Result{Output: []byte(tt.output)}, 0, flow.Role{}, false)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %q and error %v, want one about %q", got.meta, err, tt.want)
			}
		})
	}
}

func TestOutputThatIsNoText(t *testing.T) {
	for _, tt := range []struct {
		name string
		out  []byte
		most int64
		text string
	}{
		{"not UTF-8", []byte("ab\xffcd"), 0, "ab\uFFFDcd"},
		{"over the flow's limit, cut between characters", []byte("aöö"), 4, "aö"},
		{"too large escaped", []byte(strings.Repeat("\x01", 2<<20)), 0, strings.Repeat("\x01", headBytes)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parse(agent.Result{Output: tt.out, Plain: true, Exit: exit(0)}, tt.most, flow.Role{}, false)
			if err != nil {
				t.Fatal(err)
			}
			if !got.headOnly || got.text != tt.text {
				t.Errorf("head only %v, text of %d bytes, want %d", got.headOnly, len(got.text), len(tt.text))
			}
		})
	}
}

// FuzzParse: whatever an agent prints, meta is a canonical object with a status
// and the text is UTF-8, or there is an error.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"---\n$status: done\n---\nbody", `{"$status":"done"}`, "prose", "---\n---\n",
		"---\na: &x [*x]\n---\n", "\xff", "```json\n{}\n```", `{"a":1e400}`,
		"~~~\r{\r~~~", "\x1b[0m--- #\r$status", "$status"} {
		f.Add([]byte(s), true)
		f.Add([]byte(s), false)
	}
	f.Fuzz(func(t *testing.T, out []byte, plain bool) {
		neverPlain(t, string(out))
		got, err := parse(agent.Result{Output: out, Plain: plain, Exit: exit(0)}, 1<<16, flow.Role{}, false)
		if err != nil {
			return
		}
		canon, err := dag.Canonical(got.meta)
		if err != nil || string(canon) != string(got.meta) || got.meta[0] != '{' || got.status == "" {
			t.Errorf("%q gave meta %q (%v), status %q", out, got.meta, err, got.status)
		}
		if !utf8.ValidString(got.text) {
			t.Errorf("%q gave a text that is not UTF-8", out)
		}
	})
}
