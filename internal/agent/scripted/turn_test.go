package scripted

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Whether a limited failure happens again, for respond.
func always(string, int) bool { return true }
func never(string, int) bool  { return false }

func mustParse(t *testing.T, text string) *Scenario {
	t.Helper()
	sc, err := parse("test", "test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return sc
}

func request(t *testing.T, input string) *Request {
	t.Helper()
	r, err := decode(http.Header{}, []byte(`{"model":"m","prompt_cache_key":"k","input":`+input+`}`))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

const (
	agents = `{"type":"message","role":"user","content":[{"type":"input_text","text":"# AGENTS.md instructions for ` +
		`/x\n\n<INSTRUCTIONS>\nbe kind\n</INSTRUCTIONS>"},{"type":"input_text",` +
		`"text":"<environment_context>\n</environment_context>"}]},`
	hello = `{"type":"message","role":"user","content":[{"type":"input_text","text":"hello"}]}`
	out   = `,{"type":"function_call","name":"exec_command","arguments":"{}","call_id":"c"},` +
		`{"type":"function_call_output","call_id":"c","output":"Chunk ID: 1a\nWall time: 0.0 seconds\nProcess exited ` +
		`with code 0\nOutput:\n the output \n"}`
)

func TestDecode(t *testing.T) {
	tests := map[string]struct {
		input            string
		prompts, outputs []string
	}{
		"a text":           {`"hello"`, []string{"hello"}, nil},
		"no items":         {`[]`, nil, nil},
		"context of Codex": {`[` + agents + hello + `]`, []string{"hello"}, nil},
		"only context":     {`[` + strings.TrimSuffix(agents, ",") + `]`, nil, nil},
		"an output":        {`[` + agents + hello + out + `]`, []string{"hello"}, []string{"the output"}},
		"output of a patch": {`[` + hello + `,{"type":"custom_tool_call_output","output":"Exit code: 0\nWall ` +
			`time: 0 seconds\nOutput:\nSuccess.\n"}]`, []string{"hello"}, []string{"Success."}},
		"output in parts": {`[` + hello + `,{"type":"function_call_output","output":[{"type":"input_text",` +
			`"text":"a"},{"type":"input_image"},{"type":"input_text","text":"b"}]}]`, []string{"hello"},
			[]string{"a\nb"}},
		"output of an object": {`[` + hello + `,{"type":"mcp_tool_call_output","output":{"content":[]}}]`,
			[]string{"hello"}, []string{`{"content":[]}`}},
		"a refusal": {`[` + hello + `,{"type":"function_call_output","output":"rejected by ` +
			`user\nOutput:\nnothing"}]`, []string{"hello"}, []string{"rejected by user\nOutput:\nnothing"}},
		"outputs before":       {`[` + hello + out + `,` + hello + `]`, []string{"hello", "hello"}, nil},
		"a message of no type": {`[{"role":"user","content":"hi"}]`, []string{"hi"}, nil},
		"odd items": {`[1,null,"x",{"type":7},{"role":"user","content":[7,{"text":null}]},` + hello + `]`,
			[]string{"", "hello"}, nil},
		"an aborted turn": {`[` + hello + out + `,{"type":"message","role":"user","content":[{"type":"input_text",` +
			`"text":"<turn_aborted>\nx</turn_aborted>"}]},` + hello + `]`, []string{"hello", "hello"}, nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			r := request(t, tc.input)
			if diff := cmp.Diff(tc.prompts, r.Prompts); diff != "" {
				t.Errorf("prompts: %s", diff)
			}
			if diff := cmp.Diff(tc.outputs, r.Outputs); diff != "" {
				t.Errorf("outputs: %s", diff)
			}
		})
	}
	for _, bad := range []string{``, `{`, `[]`, `{"input":7}`, `{}`, `{"input":[],"stream":false}`, `{"input":[]} {}`} {
		if _, err := decode(http.Header{}, []byte(bad)); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

func TestSteps(t *testing.T) {
	sc := mustParse(t, `
turns:
- when: {contains: [special, case]}
  steps: [{items: [{say: special}]}]
- when: {context: [be kind], schema: false, nth: 2}
  steps: [{items: [{say: second}]}]
- when: {schema: true}
  steps: [{items: [{say: shaped}]}]
- when: {nth: 1}
  steps:
  - items: [{say: one}, {run: a}, {patch: b}]
  - items: [{call: {name: c}}]
  - items: [{answer: "{{output 3}} {{output 1}} {{output 4}}"}]
`)
	tests := []struct {
		name, input, schema string
		turn, step          int
	}{
		{"nothing fits", `[` + hello + `,` + hello + `]`, "", 0, 0},
		{"first", `[` + hello + `]`, "", 4, 1},
		{"half of the outputs", `[` + hello + out + `]`, "", 4, 1},
		{"second step", `[` + hello + out + out + `]`, "", 4, 2},
		{"third step", `[` + agents + hello + out + out + out + `]`, "", 4, 3},
		{"more outputs than calls", `[` + hello + out + out + out + out + out + `]`, "", 4, 3},
		{"nth and context", `[` + agents + hello + out + `,` + hello + `]`, "", 2, 1},
		{"a schema", `[` + agents + hello + `]`, `{}`, 3, 1},
		{"contains all", `"a special case"`, `{}`, 1, 1},
		{"contains one", `"a special thing"`, "", 4, 1},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			r := request(t, tc.input)
			if tc.schema != "" {
				r.Schema = json.RawMessage(tc.schema)
			}
			got := respond(sc, r, never)
			if got.turn != tc.turn || got.step != tc.step {
				t.Errorf("turn %d step %d, want %d and %d", got.turn, got.step, tc.turn, tc.step)
			}
			if want := map[bool]int{true: 200, false: 400}[tc.turn > 0]; got.status != want {
				t.Errorf("status %d, want %d", got.status, want)
			}
		})
	}
}

// show returns the events of a reply in wire format.
func show(r reply) string {
	var b strings.Builder
	for _, e := range r.events {
		b.Write(e.bytes())
	}
	return b.String()
}

func TestStream(t *testing.T) {
	sc := mustParse(t, `
turns:
- steps:
  - items:
    - reason: why
    - say: a <b> & c
    - run: {cmd: ls, workdir: /w, escalate: true, justification: ok?, yield_ms: 5}
    - call: {namespace: mcp__lab, name: echo, arguments: {text: ping, n: 2}}
    - patch: "*** {{output 1}}"
    usage: {input: 1, cached: 2, output: 3, reasoning: 4}
  - items: [{answer: {json: {a: ["{{output 5}}"]}}}]
`)
	const want = `event: response.created
data: {"response":{"id":"resp_1_1","status":"in_progress"},"type":"response.created"}

event: response.output_item.added
data: {"item":{"encrypted_content":null,"id":"resp_1_1_item0","summary":[],"type":"reasoning"},"output_index":0,"type":"response.output_item.added"}

event: response.reasoning_summary_part.added
data: {"item_id":"resp_1_1_item0","output_index":0,"summary_index":0,"type":"response.reasoning_summary_part.added"}

event: response.reasoning_summary_text.delta
data: {"delta":"why","item_id":"resp_1_1_item0","output_index":0,"summary_index":0,"type":"response.reasoning_summary_text.delta"}

event: response.output_item.done
data: {"item":{"encrypted_content":null,"id":"resp_1_1_item0","summary":[{"text":"why","type":"summary_text"}],"type":"reasoning"},"output_index":0,"type":"response.output_item.done"}

event: response.output_item.added
data: {"item":{"content":[],"id":"resp_1_1_item1","role":"assistant","type":"message"},"output_index":1,"type":"response.output_item.added"}

event: response.output_text.delta
data: {"content_index":0,"delta":"a <b> & c","item_id":"resp_1_1_item1","output_index":1,"type":"response.output_text.delta"}

event: response.output_item.done
data: {"item":{"content":[{"annotations":[],"text":"a <b> & c","type":"output_text"}],"id":"resp_1_1_item1","role":"assistant","type":"message"},"output_index":1,"type":"response.output_item.done"}

event: response.output_item.added
data: {"item":{"arguments":"{\"cmd\":\"ls\",\"justification\":\"ok?\",\"sandbox_permissions\":\"require_escalated\",\"workdir\":\"/w\",\"yield_time_ms\":5}","call_id":"call_1_1_3","id":"resp_1_1_item2","name":"exec_command","type":"function_call"},"output_index":2,"type":"response.output_item.added"}

event: response.output_item.done
data: {"item":{"arguments":"{\"cmd\":\"ls\",\"justification\":\"ok?\",\"sandbox_permissions\":\"require_escalated\",\"workdir\":\"/w\",\"yield_time_ms\":5}","call_id":"call_1_1_3","id":"resp_1_1_item2","name":"exec_command","type":"function_call"},"output_index":2,"type":"response.output_item.done"}

event: response.output_item.added
data: {"item":{"arguments":"{\"n\":2,\"text\":\"ping\"}","call_id":"call_1_1_4","id":"resp_1_1_item3","name":"echo","namespace":"mcp__lab","type":"function_call"},"output_index":3,"type":"response.output_item.added"}

event: response.output_item.done
data: {"item":{"arguments":"{\"n\":2,\"text\":\"ping\"}","call_id":"call_1_1_4","id":"resp_1_1_item3","name":"echo","namespace":"mcp__lab","type":"function_call"},"output_index":3,"type":"response.output_item.done"}

event: response.output_item.added
data: {"item":{"call_id":"call_1_1_5","id":"resp_1_1_item4","input":"*** (there is no such output)","name":"apply_patch","status":"completed","type":"custom_tool_call"},"output_index":4,"type":"response.output_item.added"}

event: response.output_item.done
data: {"item":{"call_id":"call_1_1_5","id":"resp_1_1_item4","input":"*** (there is no such output)","name":"apply_patch","status":"completed","type":"custom_tool_call"},"output_index":4,"type":"response.output_item.done"}

event: response.completed
data: {"response":{"id":"resp_1_1","output":[],"status":"completed","usage":{"input_tokens":1,"input_tokens_details":{"cached_tokens":2},"output_tokens":3,"output_tokens_details":{"reasoning_tokens":4},"total_tokens":4}},"type":"response.completed"}

`
	got := show(respond(sc, request(t, `[`+hello+`]`), never))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	var outputs string
	for i := range 3 {
		outputs += fmt.Sprintf(`,{"type":"function_call_output","output":"out {{output %d}}"}`, i+1)
	}
	got = show(respond(sc, request(t, `[`+hello+outputs+`]`), never))
	if want := `{\"a\":[\"(there is no such output)\"]}`; !strings.Contains(got, want) {
		t.Errorf("%s\nhas no %s", got, want)
	}
	// Replacements are not expanded again.
	if got := quote("{{output 1}}", &Request{Outputs: []string{"{{output 2}}", "x"}}); got != "{{output 2}}" {
		t.Errorf("quoted %q", got)
	}
	asked := &Request{Prompts: []string{"an earlier one: 0", "the value: 42, and more"}}
	for text, want := range map[string]string{
		"<{{prompt value: [0-9]+}}>": "<value: 42>", "{{prompt value: ([0-9]+)}}": "42",
		"{{prompt none}}": "(the prompt has no such text)",
	} {
		if got := quote(text, asked); got != want {
			t.Errorf("%s was replaced by %q, want %q", text, got, want)
		}
	}
}

func TestFaults(t *testing.T) {
	tests := []struct {
		name, step string
		fails      func(string, int) bool
		status     int
		end        ending
		last       string // name of the last event
	}{
		{"fail", `fail: {status: 503}`, always, 503, whole, ""},
		{"fail over", "fail: {times: 1}\n    items: [{say: x}]", never, 200, whole, "response.completed"},
		{"silent", `silent: true`, always, 200, silent, ""},
		{"broken", `broken: {code: c}`, always, 200, whole, "response.failed"},
		{"broken over", "broken: {times: 1}\n    items: [{say: x}]", never, 200, whole, "response.completed"},
		{"incomplete", "incomplete: max_output_tokens\n    items: [{say: x}]", always, 200, whole,
			"response.incomplete"},
		{"cut", "cut: true\n    items: [{reason: x}, {say: a text that is long enough to be sent in more " +
			"than one piece}]", always, 200, cut, "response.output_text.delta"},
		{"cut a call", "cut: true\n    items: [{say: y}, {run: x}]", always, 200, cut, "response.output_item.added"},
		{"cut over", "cut: {times: 1}\n    items: [{say: x}]", never, 200, whole, "response.completed"},
		{"no cut", "cut: false\n    items: [{say: x}]", always, 200, whole, "response.completed"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			got := respond(mustParse(t, "turns:\n- steps:\n  - "+tc.step+"\n"), request(t, `"x"`), tc.fails)
			last := ""
			if len(got.events) > 0 {
				last = got.events[len(got.events)-1].name
			}
			if got.status != tc.status || got.end != tc.end || last != tc.last {
				t.Errorf("status %d, end %d, last %q", got.status, got.end, last)
			}
			if tc.status != 200 && !json.Valid([]byte(got.body)) {
				t.Errorf("body %q", got.body)
			}
		})
	}
}

// TestWait checks that output of a running command is requested by its session id.
func TestWait(t *testing.T) {
	sc := mustParse(t, "turns: [{steps: [{items: [{run: a}]}, {items: [{wait: 1}, {wait: 2}]}, {items: [{say: x}]}]}]")
	const running = `,{"type":"function_call_output","output":"Chunk ID: 1\nWall time: 1 seconds\nProcess running ` +
		`with session ID 4711\nOriginal token count: 0\nOutput:\nProcess running with session ID 5"}`
	got := show(respond(sc, request(t, `[`+hello+running+`]`), never))
	for _, want := range []string{
		`"arguments":"{\"chars\":\"\",\"session_id\":4711,\"yield_time_ms\":300000}","call_id":"call_1_2_1"`,
		`"arguments":"{\"chars\":\"\",\"session_id\":0,\"yield_time_ms\":300000}","call_id":"call_1_2_2"`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s\nhas no %s", got, want)
		}
	}
}

// TestWaits checks that the model asks for the output of a command until it has ended, and that its output is then one.
func TestWaits(t *testing.T) {
	sc := mustParse(t, "turns: [{steps: [{items: [{run: a}, {run: b}]}, {items: [{say: '{{output 1}}|{{output 2}}'}]}]}]")
	call := func(name, id, args string) string {
		return fmt.Sprintf(`,{"type":"function_call","name":%q,"call_id":%q,"arguments":%q}`, name, id, args)
	}
	output := func(id, state, text string) string {
		return fmt.Sprintf(`,{"type":"function_call_output","call_id":%q,"output":%q}`, id,
			"Chunk ID: 1\n"+state+"\nOutput:\n"+text)
	}
	const runs, over = "Process running with session ID 7", "Process exited with code 0"
	asks := func(at, n int) string {
		return fmt.Sprintf(`"arguments":"{\"chars\":\"\",\"session_id\":7,\"yield_time_ms\":300000}",`+
			`"call_id":"call_wait_%d_%d"`, at, n)
	}
	seen := hello + call("exec_command", "x", `{"cmd":"a"}`) + call("exec_command", "y", `{"cmd":"b"}`) +
		output("x", over, "done\n")
	for _, tt := range []struct{ more, want string }{
		{output("y", runs, "one\n"), asks(1, 0)},
		{call("write_stdin", "call_wait_1_0", "{}") + output("call_wait_1_0", runs, ""), asks(1, 1)},
		{call("write_stdin", "call_wait_1_1", "{}") + output("call_wait_1_1", over, "two\n"), `done|one\ntwo`},
	} {
		seen += tt.more
		if got := show(respond(sc, request(t, `[`+seen+`]`), never)); !strings.Contains(strings.ReplaceAll(got, `"}`+"\n",
			""), tt.want) {
			t.Errorf("%s\nhas no %s", got, tt.want)
		}
	}
	// A scenario that sets the yield time says itself what comes then.
	seen = hello + call("exec_command", "x", `{"cmd":"a","yield_time_ms":5}`) + output("x", runs, "one") +
		output("y", over, "two")
	if got := show(respond(sc, request(t, `[`+seen+`]`), never)); strings.Contains(got, "write_stdin") {
		t.Error(got)
	}
	// A person who says more is answered at once.
	seen = hello + call("exec_command", "x", `{"cmd":"a"}`) + output("x", runs, "one") + `,` + hello +
		output("call_wait_0_0", over, "two")
	if got := show(respond(sc, request(t, `[`+seen+`]`), never)); strings.Contains(got, "write_stdin") {
		t.Error(got)
	}
}
