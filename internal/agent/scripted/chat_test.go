package scripted

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// bash is a tool that runs commands, as agents offer it.
const bash = `{"type":"function","function":{"name":"bash","parameters":{"type":"object","properties":{
	"command":{"type":"string"},"description":{"type":"string"},"sessionId":{"type":"string"}},"required":["command","sessionId"]}}}`

// chat returns a request of the Chat Completions API.
func chat(t *testing.T, more, tools string, messages ...string) *Request {
	t.Helper()
	list := `{"role":"system","content":"You help."},{"role":"user","content":"hello"}`
	for _, m := range messages {
		list += "," + m
	}
	r, err := decodeChat(http.Header{"Thread-Id": {"t"}}, []byte(
		`{"model":"m"`+more+`,"tools":[`+tools+`],"messages":[`+list+`]}`))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

const everything = `
turns:
- steps:
  - items:
    - reason: why
    - say: a <b> & c
    - run: ls
    - call: {namespace: mcp__lab, name: echo, arguments: {n: 2}}
    usage: {input: 7, cached: 2, output: 3, reasoning: 1}
  - items: [{answer: "{{output 1}} and {{output 2}}"}]
`

func TestChatStream(t *testing.T) {
	sc := mustParse(t, everything)
	const head = `data: {"choices":[{"delta":`
	const tail = `,"finish_reason":null,"index":0}],"created":1767225600,"id":"chatcmpl-1_1","model":"m",` +
		`"object":"chat.completion.chunk"}` + "\n\n"
	want := ""
	for _, delta := range []string{
		`{"content":"","role":"assistant"}`, `{"reasoning_content":"why"}`, `{"content":"a <b> & c"}`,
		`{"tool_calls":[{"function":{"arguments":"","name":"bash"},"id":"call_1_1_3","index":0,"type":"function"}]}`,
		`{"tool_calls":[{"function":{"arguments":"{\"command\":\"ls\",\"descrip"},"index":0}]}`,
		`{"tool_calls":[{"function":{"arguments":"tion\":\"Run a command\",\"s"},"index":0}]}`,
		`{"tool_calls":[{"function":{"arguments":"essionId\":\"Scripted sess"},"index":0}]}`,
		`{"tool_calls":[{"function":{"arguments":"ionId.\"}"},"index":0}]}`,
		`{"tool_calls":[{"function":{"arguments":"","name":"lab-echo"},"id":"call_1_1_4","index":1,"type":"function"}]}`,
		`{"tool_calls":[{"function":{"arguments":"{\"n\":2}"},"index":1}]}`,
	} {
		want += head + delta + tail
	}
	want += head + `{},"finish_reason":"tool_calls"` + strings.TrimPrefix(tail, `,"finish_reason":null`) +
		`data: {"choices":[],"created":1767225600,"id":"chatcmpl-1_1","model":"m","object":"chat.completion.chunk",` +
		`"usage":{"completion_tokens":3,"completion_tokens_details":{"reasoning_tokens":1},"prompt_tokens":7,` +
		`"prompt_tokens_details":{"cached_tokens":2},"total_tokens":10}}` + "\n\ndata: [DONE]\n\n"
	tools := bash + `,{"function":{"name":"lab-echo"}}`
	got := show(respond(sc, chat(t, `,"stream":true,"stream_options":{"include_usage":true}`, tools), never))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	got = show(respond(sc, chat(t, `,"stream":true`, tools), never))
	if strings.Contains(got, "usage") || !strings.HasSuffix(got, "data: [DONE]\n\n") {
		t.Errorf("usage that was not asked for, or no end:\n%s", got)
	}
}

func TestChatWhole(t *testing.T) {
	sc := mustParse(t, everything)
	first := show(respond(sc, chat(t, "", bash), never))
	var got struct {
		Choices []struct {
			Finish  string `json:"finish_reason"`
			Message struct {
				Content string
				Thought string `json:"reasoning_content"`
				Calls   []struct {
					Function struct{ Name, Arguments string }
				}
				Tools []struct {
					Function struct{ Name, Arguments string }
				} `json:"tool_calls"`
			}
		}
		Usage struct {
			Prompt int `json:"prompt_tokens"`
		}
	}
	if err := json.Unmarshal([]byte(first), &got); err != nil {
		t.Fatalf("%v: %s", err, first)
	}
	c := got.Choices[0]
	if c.Finish != "tool_calls" || c.Message.Content != "a <b> & c" || c.Message.Thought != "why" ||
		len(c.Message.Tools) != 2 ||
		c.Message.Tools[1].Function.Name != "mcp__lab__echo" || got.Usage.Prompt != 7 {
		t.Errorf("%s", first)
	}
	last := show(respond(sc, chat(t, "", bash, `{"role":"assistant","content":null,"tool_calls":[]}`,
		`{"role":"tool","content":" one\n"}`, `{"role":"tool","content":[{"type":"text","text":"two"}]}`), never))
	if !strings.Contains(last, `"content":"one and two"`) || !strings.Contains(last, `"finish_reason":"stop"`) {
		t.Errorf("%s", last)
	}
}

func TestChatFaults(t *testing.T) {
	for step, want := range map[string]struct {
		end         ending
		stream, all string
	}{
		"broken: {code: c, message: m}": {whole,
			`{"error":{"code":"c","message":"m","type":"server_error"}}`, `{"error":{"code":"c"`},
		"incomplete: max_output_tokens\n    items: [{say: x}]": {whole, `"finish_reason":"length"`,
			`"finish_reason":"length"`},
		"cut: true\n    items: [{run: x}]": {cut, `"name":"bash"`, ""},
		"silent: true":                     {silent, "", ""},
	} {
		sc := mustParse(t, "turns:\n- steps:\n  - "+step+"\n")
		got := respond(sc, chat(t, `,"stream":true`, bash), always)
		if text := show(got); got.end != want.end || !strings.Contains(text, want.stream) ||
			strings.Contains(text, "[DONE]") != strings.HasPrefix(step, "incomplete") {
			t.Errorf("%s: %s", step, text)
		}
		got = respond(sc, chat(t, "", bash), always)
		if text := show(got); got.end != want.end || !strings.HasPrefix(text, "{") != (want.all == "") ||
			!strings.Contains(text, want.all) {
			t.Errorf("%s, as one object: %s", step, text)
		}
	}
}

// TestChatServed tests what only a server shows: paths, content types, and an invalid request.
func TestChatServed(t *testing.T) {
	sc := mustParse(t, "turns: [{when: {schema: true}, steps: [{items: [{answer: {auto: true}}]}]}, {steps: [{items: "+
		"[{say: hi}]}]}]")
	s, err := Open(Config{Scenario: sc})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	const user = `"messages":[{"role":"user","content":"hello"}]`
	for _, try := range []struct {
		name, method, body string
		status             int
		kind, want         string
	}{
		{"get", "GET", "", 405, "application/json", "want POST"},
		{"no messages", "POST", `{"stream":true}`, 400, "application/json", "messages are missing"},
		{"no JSON", "POST", `{`, 400, "application/json", "unexpected end"},
		{"a title", "POST", `{` + user + `}`, 200, "application/json", "Scripted"},
		{"whole", "POST", `{` + user + `,"tools":[` + bash + `]}`, 200, "application/json", `"content":"hi"`},
		{"stream", "POST", `{` + user + `,"stream":true,"tools":[` + bash + `]}`, 200, "text/event-stream",
			`{"content":"hi"}`},
		{"schema", "POST", `{` + user + `,"response_format":{"type":"json_schema","json_schema":{"schema":{"type":"object",
			"required":["n"],"properties":{"n":{"const":4}}}}}}`, 200, "application/json", `"content":"{\"n\":4}"`},
	} {
		w := httptest.NewRecorder()
		s.serve(w, httptest.NewRequest(try.method, "/v1/chat/completions", strings.NewReader(try.body)))
		body, _ := io.ReadAll(w.Body)
		if w.Code != try.status || w.Header().Get("Content-Type") != try.kind || !strings.Contains(string(body), try.want) {
			t.Errorf("%s: %d %s %s", try.name, w.Code, w.Header().Get("Content-Type"), body)
		}
	}
}

// TestOffered checks that a tool is called by the name and with the arguments that the agent offers.
func TestOffered(t *testing.T) {
	sc := mustParse(t, `
turns:
- steps:
  - items:
    - run: {cmd: ls, escalate: true, justification: please}
    - patch: |
        *** Begin Patch
        *** Update File: a.go
        @@ func
         one
        -two
        +three
        *** End Patch
  - items: [{say: done}]
`)
	const own = `{"function":{"name":"run","parameters":{"type":"object","properties":{"command":{"type":"string"},
		"outside":{"type":"boolean"},"reason":{"type":"string"}},"required":["command"]}}},
		{"function":{"name":"edit","parameters":{"type":"object","properties":{"path":{},"old":{},"new":{}}}}}`
	for tools, want := range map[string][]string{
		own: {`"name":"run"`, `"{\"command\":\"ls\",\"outside\":true,\"reason\":\"please\"}"`, `"name":"edit"`,
			`{\"new\":\"one\\nthree\\n\",\"old\":\"one\\ntwo\\n\",\"path\":\"a.go\"}`},
		bash: {`"name":"bash"`, `git apply`},
		"":   {`"name":"bash"`, `"{\"command\":\"ls\",\"description\":\"Run a command\"}"`},
	} {
		r := chat(t, "", tools)
		r.aside = false
		got := show(respond(sc, r, never))
		for _, part := range want {
			if !strings.Contains(got, part) {
				t.Errorf("%s\nhas no %s", got, part)
			}
		}
	}
	for patch, simple := range map[string]bool{
		"*** Add File: x\n+a\n":                                 true,
		"*** Add File: x\n+a\n*** Update File: y\n@@\n-a\n+b\n": false,
		"*** Update File: x\n@@\n-a\n+b\n@@\n-c\n+d\n":          false,
		"*** Delete File: x\n":                                  false,
	} {
		if _, _, _, ok := replacement(patch); ok != simple {
			t.Errorf("replacement of %q: %t", patch, ok)
		}
	}
}
