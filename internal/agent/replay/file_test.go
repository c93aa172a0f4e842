package replay_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/agent/replay"
)

const full = `{"attempts": [
  {"role": "planner", "output": "---\n$status: ready\n---\nThe plan."},
  {"role": "tester", "visit": 1, "try": 2,
   "output": "FAIL", "stderr": "why", "exit": 1, "status": "failed", "plain": true,
   "raw": {"base64": "/wA="}, "session": "s1", "model": "m",
   "usage": {"inputTokens": 12, "outputTokens": 3},
   "events": [{"kind": "message", "text": "hi", "detail": {"a": [1]}}], "delay": 50},
  {"role": "tester", "failure": {"kind": "limit", "message": "m", "resetAt": "2026-01-02T15:04:05Z", "final": true}}
]}
`

func wanted() replay.Recording {
	one, raw := 1, replay.Bytes("\xff\x00")
	return replay.Recording{Attempts: []replay.Attempt{
		{Role: "planner", Output: replay.Bytes("---\n$status: ready\n---\nThe plan.")},
		{Role: "tester", Visit: 1, Try: 2, Output: replay.Bytes("FAIL"), Stderr: replay.Bytes("why"),
			Exit: &one, Status: "failed", Plain: true, Raw: &raw, Session: "s1", Model: "m",
			Usage:  agent.Usage{InputTokens: 12, OutputTokens: 3},
			Events: []agent.Event{{Kind: "message", Text: "hi", Detail: json.RawMessage(`{"a": [1]}`)}}, Delay: 50},
		{Role: "tester", Failure: &replay.Failure{Kind: "limit", Message: "m", Final: true,
			ResetAt: time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)}},
	}}
}

func TestLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "recording.json")
	if err := os.WriteFile(path, []byte(full), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := replay.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(wanted(), got); diff != "" {
		t.Errorf("recording (-want +got):\n%s", diff)
	}
	if _, err := replay.Load(path + "x"); err == nil || !strings.Contains(err.Error(), path+"x") {
		t.Errorf("a missing file gives %v", err)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, tt := range []struct {
		name, in string
		want     []string // one per line of the error
	}{
		{"empty", "", []string{"r:1:1: "}},
		{"no object", "[]", []string{`r:1:1: want an object with the key "attempts"`}},
		{"no attempts", "{}", []string{`r:1:1: the key "attempts" is missing`}},
		{"no list", "{\n \"attempts\": 3}", []string{`r:2:14: "attempts" is not a list`}},
		{"unknown key", "{\n \"x\": 1, \"attempts\": []}", []string{`r:2:2: unknown key "x"`}},
		{"cut", `{"attempts": [{"role": "a"}`, []string{"r:1:28: "}},
		{"two values", "{\"attempts\": []}\n{}", []string{"r:2:1: something follows"}},
		{"twice", `{"attempts": [], "attempts": []}`, []string{"r:1:18: "}},
		{"not UTF-8", "{\"attempts\": [{\"role\": \"\xff\"}]}", []string{"r:1:"}},
		{"every wrong attempt", `{"attempts": [
  {"role": "ok"},
  {"role": "a", "colour": 1},
  {"role": "b", "visit": "one"},
  {"visit": 1},
  {"role": "ok", "try": 1},
  {"role": "c", "failure": {"kind": "odd", "message": ""}},
  {"role": "d", "delay": -1},
  {"role": "e", "output": {"base64": "!"}},
  {"role": "f", "output": {"hex": "00"}},
  {"role": "g", "events": [{"text": "no kind"}]},
  {"role": "h", "role": "i"},
  {"Role": "j"},
  7
]}`, []string{
			"r:3:", "r:4:", "r:5:3: attempt 3: it has no role", "r:6:3: attempt 4: role ok, visit 0, try 1 is " +
				"recorded twice, first as attempt 0",
			`r:7:3: attempt 5: failure kind "odd"`, "r:8:3: attempt 6: ", "r:9:", "r:10:",
			"r:11:3: attempt 9: event 0 has no kind", "r:12:", "r:13:", "r:14:3: ",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := replay.Parse("r", []byte(tt.in))
			if err == nil {
				t.Fatal("it was taken")
			}
			lines := strings.Split(err.Error(), "\n")
			if len(lines) != len(tt.want) {
				t.Fatalf("got %d errors, want %d:\n%v", len(lines), len(tt.want), err)
			}
			for i, want := range tt.want {
				if !strings.HasPrefix(lines[i], want) {
					t.Errorf("got %q, want it to begin with %q", lines[i], want)
				}
			}
		})
	}
}

func TestNewRefuses(t *testing.T) {
	for name, attempts := range map[string][]replay.Attempt{
		"twice":    {{Role: "a"}, {Role: "a", Try: 1}},
		"no role":  {{}},
		"negative": {{Role: "a", Visit: -1}},
		"kind":     {{Role: "a", Failure: &replay.Failure{Kind: "odd"}}},
	} {
		if _, err := replay.New(replay.Recording{Attempts: attempts}); err == nil {
			t.Errorf("%s: it was taken", name)
		}
	}
}

// FuzzParse checks that an accepted recording is unchanged when written and read back.
func FuzzParse(f *testing.F) {
	f.Add([]byte(full))
	f.Add([]byte(`{"attempts": [{"role": "\ud83d\ude00", "output": "\u0000"}]}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		rec, err := replay.Parse("r", in)
		if err != nil {
			return
		}
		out, err := json.Marshal(rec)
		if err != nil {
			t.Fatal(err)
		}
		again, err := replay.Parse("r", out)
		if err != nil {
			t.Fatalf("%s: %v", out, err)
		}
		once, _ := json.Marshal(again)
		if string(once) != string(out) {
			t.Errorf("got %s, then %s", out, once)
		}
	})
}
