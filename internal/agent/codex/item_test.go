package codex

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/agent"
)

// brief returns an event on one line.
func brief(e agent.Event) string {
	s := strings.TrimSpace(fmt.Sprintf("%s %s %s %q", e.Kind, e.Phase, e.ID, e.Text))
	if e.Output != "" {
		s += fmt.Sprintf(" output %q", e.Output)
	}
	if e.Exit != nil {
		s += fmt.Sprintf(" exit %d", *e.Exit)
	}
	for _, f := range e.Files {
		s += fmt.Sprintf(" %s %s %q", f.Change, f.Path, f.Diff)
	}
	if u := e.Usage; u != nil {
		s += fmt.Sprintf(" usage %d %d %d %d", u.InputTokens, u.CachedInputTokens, u.OutputTokens, u.ReasoningTokens)
	}
	if e.WillRetry {
		s += " will retry"
	}
	return s
}

// replayed is the outcome of a captured stream.
type replayed struct {
	events    []string // without the pieces of messages
	pieces    map[string]string
	questions []agent.Question
	answers   string
	raw       string
	turn      *turn
}

func replayStream(t testing.TB, lines []byte) replayed {
	var raw bytes.Buffer
	r := replayed{pieces: map[string]string{}}
	asked := make(chan agent.Question, 100)
	u, s, out := bareTurn(t, agent.Request{
		Access: agent.Write, Desk: agent.Desk{Raw: &raw},
		Ask: func(_ context.Context, q agent.Question) (agent.Answer, error) {
			select {
			case asked <- q:
			default:
			}
			return agent.Answer{}, nil
		},
	})
	u.emit = func(e agent.Event) error {
		if e.Kind == agent.EventMessage && e.Phase == "updated" {
			r.pieces[e.ID] += e.Text
		} else {
			r.events = append(r.events, brief(e))
		}
		return nil
	}
	for line := range bytes.SplitSeq(lines, []byte("\n")) {
		if err := s.line(line, false); err != nil {
			t.Fatal(err)
		}
		for _, m := range u.dequeue() {
			if err := u.receive(t.Context(), m); err != nil {
				t.Fatal(err)
			}
		}
		u.questions.running.Wait()
	}
	for len(asked) > 0 {
		r.questions = append(r.questions, <-asked)
	}
	s.conn.HangUp()
	<-out.closed
	r.answers, r.raw, r.turn = out.String(), raw.String(), u
	return r
}

var capturedStreamsCases = []struct {
	name      string
	events    []string
	questions []agent.Question
	pieces    map[string]string
	answers   string
	status    string
	diff      string
}{
	{
		name: "work", status: "completed",
		events: []string{
			`reasoning completed resp_1_1_item0 "I look first"`,
			`message started resp_1_1_item1 ""`,
			`message completed resp_1_1_item1 "I will run two commands and change a file."`,
			`command started call_1_1_4 "/bin/bash -lc 'echo second'"`,
			`command completed call_1_1_4 "/bin/bash -lc 'echo second'" output "second\n" exit 0`,
			`command started call_1_1_3 "/bin/bash -lc 'echo first; exit 3'"`,
			`command failed call_1_1_3 "/bin/bash -lc 'echo first; exit 3'" output "first\n" exit 3`,
			`file_change started call_1_1_5 "/work/a.txt" update /work/a.txt "@@ -1 +1 @@\n-one\n+two\n"`,
			`file_change completed call_1_1_5 "/work/a.txt" update /work/a.txt "@@ -1 +1 @@\n-one\n+two\n"`,
			`usage   "" usage 100 10 20 5`,
			`message started resp_1_2_item0 ""`,
			`message completed resp_1_2_item0 "all done"`,
			`usage   "" usage 200 20 40 10`,
		},
		pieces: map[string]string{"resp_1_1_item1": "I will run two commands and change a file.",
			"resp_1_2_item0": "all done"},
		diff: "diff --git a/a.txt b/a.txt\nindex " +
			"5626abf0f72e58d7a153368ba57db4c673c0e171..f719efd430d52bcfc8566a43b2eb655688d38871\n" +
			"--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-one\n+two\n",
	},
	{
		name: "approve", status: "completed",
		events: []string{
			`command started call_1_1_1 "/bin/bash -lc 'echo outside'"`,
			`command declined call_1_1_1 "/bin/bash -lc 'echo outside'"`,
			`file_change started call_1_1_2 "/outer/beside.txt" add /outer/beside.txt "planted\n"`,
			`file_change declined call_1_1_2 "/outer/beside.txt" add /outer/beside.txt "planted\n"`,
			`usage   "" usage 100 10 20 5`,
			`message started resp_1_2_item0 ""`,
			`message completed resp_1_2_item0 "all done"`,
			`usage   "" usage 200 20 40 10`,
		},
		pieces: map[string]string{"resp_1_2_item0": "all done"},
		questions: []agent.Question{
			{Text: "May I?", Action: agent.Action{Type: "command", Command: "/bin/bash -lc 'echo outside'",
				Cwd: "/work"}},
			{Text: "Apply this change to files?", Action: agent.Action{Type: "file_change", Cwd: "/work",
				Diff: "add /outer/beside.txt\nplanted\n"}},
		},
		answers: `{"id":0,"result":{"decision":"decline"}}` + "\n" + `{"id":1,"result":{"decision":"decline"}}` +
			"\n",
	},
	{
		name: "limited", status: "failed", pieces: map[string]string{},
		events: []string{`error   "exceeded retry limit, last status: 429 Too Many Requests"`},
	},
	{
		name: "retried", status: "completed",
		events: []string{
			`message started resp_1_1_item0 ""`,
			`error   "Reconnecting... 1/1 (stream disconnected before completion: Transport error: network ` +
				`error: error decoding response body)" will retry`,
			`message started resp_1_1_item0 ""`,
			`message completed resp_1_1_item0 "a text that is long enough to be cut in the middle of it"`,
			`usage   "" usage 100 10 20 5`,
		},
		// What was said before the cut is repeated.
		pieces: map[string]string{"resp_1_1_item0": "a text that is long enough to be cut in the midda text that " +
			"is long enough to be cut in the middle of it"},
	},
}

func TestCapturedStreams(t *testing.T) {
	for _, tt := range capturedStreamsCases {
		t.Run(tt.name, func(t *testing.T) {
			data, err := os.ReadFile(filepath.Join("testdata", "appserver", tt.name+".jsonl"))
			if err != nil {
				t.Fatal(err)
			}
			data = bytes.TrimSuffix(data, []byte("\n"))
			r := replayStream(t, data)
			if r.raw != string(data)+"\n" {
				t.Error("the raw log is not the stream")
			}
			if diff := cmp.Diff(tt.events, r.events); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.pieces, r.pieces); diff != "" {
				t.Errorf("pieces of messages (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.questions, r.questions); diff != "" {
				t.Errorf("questions (-want +got):\n%s", diff)
			}
			if r.answers != tt.answers {
				t.Errorf("the answers are %q, want %q", r.answers, tt.answers)
			}
			if r.turn.end.turn == nil || r.turn.end.turn.Status != tt.status {
				t.Errorf("the turn ended %+v, want %s", r.turn.end.turn, tt.status)
			}
			if r.turn.output.diff != tt.diff {
				t.Errorf("the turn's diff is %q, want %q", r.turn.output.diff, tt.diff)
			}
		})
	}
}

func TestItemEvents(t *testing.T) {
	long := strings.Repeat("é", maxItemOutput)
	tests := []struct{ name, phase, item, want string }{
		{"a tool that failed", "completed", `{"type":"mcpToolCall","id":"1","server":"lab","tool":"echo",` +
			`"status":"failed","error":{"message":"no"}}`,
			`tool_call failed 1 "lab/echo" output "{\"message\":\"no\"}"`},
		{"a tool that did not succeed", "completed", `{"type":"dynamicToolCall","id":"1","namespace":"n","tool":"t",` +
			`"success":false}`, `tool_call failed 1 "n/t"`},
		{"a tool with a result", "completed", `{"type":"mcpToolCall","id":"1","server":"lab","tool":"echo",` +
			`"status":"completed","error":null,"result":{"a":1}}`,
			`tool_call completed 1 "lab/echo" output "{\"a\":1}"`},
		{"a search", "completed", `{"type":"webSearch","id":"1","query":"go"}`,
			`tool_call completed 1 "web search: go"`},
		{"an image", "completed", `{"type":"imageView","id":"1","path":"/x.png"}`,
			`tool_call completed 1 "look at /x.png"`},
		{"a plan", "completed", `{"type":"plan","id":"1","text":"first"}`, `plan completed 1 "first"`},
		{"reasoning", "completed", `{"type":"reasoning","id":"1","summary":["a","b"]}`, `reasoning completed 1 "a\nb"`},
		{"reasoning begins", "started", `{"type":"reasoning","id":"1","summary":[]}`, ""},
		{"a declined command", "completed", `{"type":"commandExecution","id":"1","command":"x","status":"declined"}`,
			`command declined 1 "x"`},
		{"a failed status at the start", "started", `{"type":"commandExecution","id":"1","command":"x",` +
			`"status":"failed"}`, `command started 1 "x"`},
		{"our own message", "completed", `{"type":"userMessage","id":"1"}`, ""},
		{"a new kind", "completed", `{"type":"telepathy","id":"1"}`, ""},
		{"a long output", "completed", `{"type":"commandExecution","id":"1","command":"x","aggregatedOutput":"` + long +
			`"}`, `command completed 1 "x" output "…` + long[:maxItemOutput] + `"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var it item
			if err := json.Unmarshal([]byte(tt.item), &it); err != nil {
				t.Fatal(err)
			}
			got := ""
			if ev, ok := it.event(tt.phase); ok {
				got = brief(ev)
			}
			if got != tt.want {
				t.Errorf("got %.300s, want %.300s", got, tt.want)
			}
		})
	}
}

// TestPatchInside checks that a path is inside only if its target is, and if it
// is not protected.
func TestPatchInside(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	for link, to := range map[string]string{"link": outside, "x": "AGENTS.md", "y": ".git/hooks", "z": ".mcp.json",
		"away": filepath.Join(outside, "new"), "loop": "loop", "fine": "a.txt"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]bool{
		"a.txt": true, filepath.Join(dir, "new/deep/b.txt"): true, "../x": false, filepath.Join(outside, "x"): false,
		"link/x": false, "x": false, "y/pre-commit": false, "z": false, "away": false, "loop": false, "fine": true,
		".git/hooks/pre-commit": false, ".Git/hooks/x": false, "AGENTS.md": false, ".github/x.yaml": false,
		"sub/.codex/config.toml": false, ".plait/config.yaml": false, ".workflows/x.yaml": false, "a/../../x": false,
	} {
		for access, may := range map[agent.Access]bool{agent.Write: true, agent.Full: true, agent.Read: false,
			"": false} {
			var it item
			data := `{"type":"fileChange","changes":[{"path":` + jsonOf(t, path) + `,"kind":{"type":"add"}}]}`
			if err := json.Unmarshal([]byte(data), &it); err != nil {
				t.Fatal(err)
			}
			u := &turn{req: agent.Request{Access: access}, setup: &setup{dir: dir}}
			if got := (fileAsked{}).question(it, u).Inside; got != (want && may) {
				t.Errorf("%s with access %q is inside: %v", path, access, got)
			}
			data = `{"type":"fileChange","changes":[{"path":"a.txt","kind":{"type":"update","move_path":` +
				jsonOf(t, path) + `}}]}`
			var moved item
			if err := json.Unmarshal([]byte(data), &moved); err != nil {
				t.Fatal(err)
			}
			q := (fileAsked{}).question(moved, u)
			if q.Inside != (want && may) || !strings.Contains(q.Action.Diff, "moved to "+path) {
				t.Errorf("a move to %s with access %q is inside: %v, and shown as %q", path, access, q.Inside, q.Action.Diff)
			}
			if ev, _ := moved.event("completed"); len(ev.Files) != 2 || ev.Files[1].Path != path {
				t.Errorf("the event of a move to %s has %+v", path, ev.Files)
			}
			if (fileAsked{Root: "/"}).question(it, u).Inside {
				t.Error("a request for more than the patch is inside")
			}
		}
	}
	if (fileAsked{}).question(item{}, &turn{req: agent.Request{Access: agent.Full}, setup: &setup{dir: dir}}).Inside {
		t.Error("a change that is not known is inside")
	}
}

func FuzzReceive(f *testing.F) {
	files, err := filepath.Glob("testdata/appserver/*.jsonl")
	if err != nil || len(files) == 0 {
		f.Fatalf("no captured streams: %v", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte("{\n\x00\xff\n{\"id\":{},\"method\":\"x\"}\n{\"id\":1,\"result\":null}\nnull\n[]"))
	f.Fuzz(func(t *testing.T, lines []byte) {
		r := replayStream(t, lines)
		if r.raw != string(lines)+"\n" {
			t.Errorf("the raw log is %q, want %q", r.raw, lines)
		}
		for line := range strings.Lines(r.answers) {
			if !json.Valid([]byte(line)) {
				t.Errorf("answered was %q", line)
			}
		}
	})
}
