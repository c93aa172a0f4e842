package codex

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/agent/scripted"
	"github.com/plait-run/plait/internal/agent/shape"
	"github.com/plait-run/plait/internal/testing/agenttest"
)

// scriptedExec returns an agent of the real Codex whose model follows a script:
// a built-in scenario, or the text of one. seen gets its requests.
func scriptedExec(t *testing.T, scenario string, seen func(scripted.Request)) *ExecAgent {
	t.Helper()
	h, _ := needCodex(t)
	name := scenario
	if strings.Contains(scenario, "\n") {
		name = filepath.Join(t.TempDir(), "scenario.yaml")
		if err := os.WriteFile(name, []byte(scenario), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	sc, err := scripted.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	srv, err := scripted.Open(scripted.Config{Scenario: sc, Requests: seen})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { srv.Close() })
	a, err := h.ExecAgent(
		Config{Endpoint: &Endpoint{URL: srv.URL(), Model: scripted.Model, Catalog: scripted.Catalog()}})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

const brokenSum = "package sum\n\nfunc Of(numbers ...int) int {\n\ttotal := 0\n\tfor i := 1; i < len(numbers); i++ " +
	"{\n\t\ttotal += numbers[i]\n\t}\n\treturn total\n}\n"

func TestExecRealFix(t *testing.T) {
	t.Parallel()
	a, y := scriptedExec(t, "codex-fix", nil), newExecTry(t, "mend it")
	file := filepath.Join(y.req.Dir, "sum.go")
	if err := errors.Join(os.WriteFile(file, []byte(brokenSum), 0o600),
		os.WriteFile(filepath.Join(y.req.Dir, "sum_test.go"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	res, err := y.run(t.Context(), t, a)
	if err != nil {
		t.Fatal(err)
	}
	if data, _ := os.ReadFile(file); !bytes.Contains(data, []byte("range numbers")) {
		t.Errorf("the file is not mended:\n%s", data)
	}
	want := agent.Usage{InputTokens: 700, CachedInputTokens: 70, OutputTokens: 140, ReasoningTokens: 35}
	if res.Usage != want || res.Sandbox != "workspace-write" || res.Model != scripted.Model || res.Turn == "" ||
		res.Session == "" || res.Plain {
		t.Errorf("got %+v", res)
	}
	if !bytes.HasPrefix(res.Output, []byte("---\n$status: done")) {
		t.Errorf("got output %q", res.Output)
	}
	var changed bool
	for _, e := range y.events {
		changed = changed || e.Kind == agent.EventFile && e.Phase == "completed" &&
			strings.HasSuffix(e.Files[0].Path, "sum.go") && e.Files[0].Change == "update"
		if e.Kind == agent.EventError {
			t.Errorf("an error was told: %+v", e)
		}
	}
	if !changed {
		t.Errorf("no event tells of the file: %+v", y.events)
	}
	kept, err := os.ReadFile(filepath.Join(y.req.Desk.Artifacts, "rollout.jsonl"))
	if err != nil || !bytes.Contains(kept, []byte(`"type":"session_meta"`)) {
		t.Errorf("got rollout of %d bytes and error %v", len(kept), err)
	}
}

func TestExecRealShape(t *testing.T) {
	t.Parallel()
	schema := json.RawMessage(`{"type":"object","properties":{"$status":{"enum":["done","stuck"]},` +
		`"summary":{"type":"string"},"note":{"type":"string"}},"required":["$status","summary"]}`)
	t.Run("kept", func(t *testing.T) {
		var asked json.RawMessage
		a, y := scriptedExec(t, "work", func(r scripted.Request) { asked = r.Schema }), newExecTry(t, "do it")
		y.req.Schema, y.req.Shaped = schema, true
		res, err := y.run(t.Context(), t, a)
		if err != nil {
			t.Fatal(err)
		}
		if want, _ := shape.Strict(schema); !sameJSON(t, asked, want) {
			t.Errorf("the model was asked for %s, want %s", asked, want)
		}
		front, body, ok := strings.Cut(strings.TrimPrefix(string(res.Output), "---\n"), "\n---\n\n")
		var meta map[string]any
		if err := json.Unmarshal([]byte(front), &meta); err != nil || !ok {
			t.Fatalf("got output %q and error %v", res.Output, err)
		}
		if meta["$status"] != "done" || meta["$body"] != nil || !strings.HasPrefix(body, "This is a scripted answer") {
			t.Errorf("got meta %v and text %q", meta, body)
		}
	})
	t.Run("broken", func(t *testing.T) {
		a, y := scriptedExec(t, "prose", nil), newExecTry(t, "do it")
		y.req.Schema, y.req.Shaped = schema, true
		res, err := y.run(t.Context(), t, a)
		if err != nil || !bytes.HasPrefix(res.Output, []byte("Sorry, this is plain prose.")) {
			t.Errorf("got output %q and error %v", res.Output, err)
		}
	})
}

func sameJSON(t *testing.T, a, b []byte) bool {
	t.Helper()
	var x, y any
	if err := errors.Join(json.Unmarshal(a, &x), json.Unmarshal(b, &y)); err != nil {
		t.Error(err)
		return false
	}
	p, _ := json.Marshal(x)
	q, _ := json.Marshal(y)
	return bytes.Equal(p, q)
}

// writes is a scenario that writes a file with a command and answers with the environment.
const writes = `turns:
- steps:
  - items:
    - run: "echo $CODEX_THREAD_ID >> threads; env"
  - items:
    - answer: "said: {{output 1}}"
`

func TestExecRealSessions(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var last scripted.Request
	a := scriptedExec(t, writes, func(r scripted.Request) { mu.Lock(); last = r; mu.Unlock() })
	y := newExecTry(t, "the first prompt")
	first, err := y.run(t.Context(), t, a)
	if err != nil {
		t.Fatal(err)
	}
	said := string(first.Output)
	for _, bad := range []string{keyVariable, "PLAIT_HOME", "CODEX_API_KEY"} {
		if strings.Contains(said, bad) {
			t.Errorf("a command sees %s:\n%s", bad, said)
		}
	}
	for _, want := range []string{"PLAIT_TAG=" + y.req.Tag, "PLAIT_ROLE=tester"} {
		if !strings.Contains(said, want) {
			t.Errorf("a command does not see %s:\n%s", want, said)
		}
	}

	// The session continues: only the prompt is sent, and it may still write.
	z := newExecTry(t, "the second prompt")
	z.req.Home, z.req.Dir, z.req.Session = y.req.Home, y.req.Dir, first.Session
	if !a.Continues(z.req) {
		t.Error("the session cannot be gone on with")
	}
	second, err := z.run(t.Context(), t, a)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(last.Prompts, "|"); got != "the first prompt|the second prompt" {
		t.Errorf("the model was asked %q", got)
	}
	once := agent.Usage{InputTokens: 200, CachedInputTokens: 20, OutputTokens: 40, ReasoningTokens: 10}
	if second.Session != first.Session || second.Turn == first.Turn || second.Sandbox != "workspace-write" ||
		second.Usage != once {
		t.Errorf("got %+v after %+v", second, first)
	}
	threads, _ := os.ReadFile(filepath.Join(y.req.Dir, "threads"))
	if want := strings.Repeat(first.Session+"\n", 2); string(threads) != want {
		t.Errorf("the commands wrote %q, want %q", threads, want)
	}

	// Another task branches off after the first turn, and again from the branch.
	from := &agent.Branch{Home: y.req.Home, Session: first.Session, Turn: first.Turn}
	prompts := "the first prompt"
	for _, prompt := range []string{"the third prompt", "the fourth prompt"} {
		w := newExecTry(t, prompt)
		w.req.From = from
		if !a.Forks(w.req) {
			t.Fatal("the session cannot be branched off from")
		}
		branch, err := w.run(t.Context(), t, a)
		if err != nil {
			t.Fatal(err)
		}
		prompts += "|" + prompt
		if got := strings.Join(last.Prompts, "|"); got != prompts {
			t.Errorf("the model was asked %q, want %q", got, prompts)
		}
		if branch.Session == from.Session || branch.Sandbox != "workspace-write" || branch.Usage != once ||
			len(w.started) != 1 {
			t.Errorf("got %+v, started %d times", branch, len(w.started))
		}
		from = &agent.Branch{Home: w.req.Home, Session: branch.Session, Turn: branch.Turn}
	}

	// A session that does not exist.
	v := newExecTry(t, "more")
	v.req.Session = "01a1fdfc-0000-7000-8000-000000000000"
	if f := v.fails(t, a, agent.Infra); f.Session != "" || !strings.Contains(f.Message, "not there") {
		t.Errorf("got %+v", f)
	}
}

func TestExecRealCancel(t *testing.T) {
	t.Parallel()
	for _, access := range []agent.Access{agent.Write, agent.Full} {
		t.Run(string(access), func(t *testing.T) {
			a, y := scriptedExec(t, "long", nil), newExecTry(t, "p")
			y.req.Access = access
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			res, err := a.Run(ctx, y.req, func(e agent.Event) error {
				y.events = append(y.events, e)
				if e.Kind == agent.EventCommand && e.Phase == "started" {
					cancel()
				}
				return nil
			})
			if left := agenttest.Tagged(y.req.Tag); len(left) > 0 {
				t.Errorf("processes %v are left", left)
			}
			var f *agent.Failure
			if !errors.As(err, &f) || f.Kind != agent.Cancelled || f.Session == "" {
				t.Fatalf("got %+v and %v", res, err)
			}
			if e := y.events[len(y.events)-2]; e.Kind != agent.EventCommand || e.Phase != "failed" {
				t.Errorf("the command was not closed: %+v", y.events)
			}
		})
	}
}

func TestExecRealFailures(t *testing.T) {
	t.Parallel()
	tests := []struct {
		scenario, kind, says string
		final, session       bool
	}{
		{"unauthorized", agent.Infra, "codex login", true, true},
		{"limited", agent.Limit, "rate limit", false, true},
		{"error500", agent.Infra, "overloaded", false, true},
		{"cut", agent.Infra, "broke off", false, true},
		{"context-full", agent.Limit, "session is full", true, false},
		{"about: x\nturns:\n- steps:\n  - fail: {status: 400, body: '{\"error\":{\"message\":\"no such thing\"}}'}\n",
			agent.Infra, "no such thing", true, true},
	}
	for _, tt := range tests {
		t.Run(tt.kind+" "+tt.says, func(t *testing.T) {
			t.Parallel()
			a, y := scriptedExec(t, tt.scenario, nil), newExecTry(t, "p")
			f := y.fails(t, a, tt.kind)
			if !strings.Contains(f.Message, tt.says) || f.Final != tt.final || (f.Session != "") != tt.session {
				t.Errorf("got %+v", f)
			}
		})
	}
	t.Run("silent", func(t *testing.T) {
		t.Parallel()
		a, y := scriptedExec(t, "silent", nil), newExecTry(t, "p")
		y.req.Idle = 1500 * time.Millisecond
		y.fails(t, a, agent.TimedOut)
	})
	t.Run("refused", func(t *testing.T) {
		t.Parallel()
		h, _ := needCodex(t)
		a, err := h.ExecAgent(Config{Endpoint: &Endpoint{URL: "http://127.0.0.1:1/v1", Model: scripted.Model,
			Catalog: scripted.Catalog()}})
		if err != nil {
			t.Fatal(err)
		}
		y := newExecTry(t, "p")
		if f := y.fails(t, a, agent.Infra); f.Final || !strings.Contains(f.Message, "could not be reached") {
			t.Errorf("got %+v", f)
		}
	})
	t.Run("directory gone", func(t *testing.T) {
		t.Parallel()
		a, y := scriptedExec(t, "work", nil), newExecTry(t, "p")
		os.Remove(y.req.Dir)
		if f := y.fails(t, a, agent.Infra); !f.Final || !strings.Contains(f.Message, y.req.Dir) {
			t.Errorf("got %+v", f)
		}
	})
}

func TestExecRealLongLine(t *testing.T) {
	t.Parallel()
	a, y := scriptedExec(t, "big", nil), newExecTry(t, "p")
	res, err := y.run(t.Context(), t, a)
	if err != nil || !bytes.Contains(res.Output, []byte("1100000 zero bytes")) {
		t.Fatalf("got %q and %v", res.Output, err)
	}
	if y.raw.Len() < 6_000_000 {
		t.Errorf("the raw log has %d bytes", y.raw.Len())
	}
	for _, e := range y.events {
		if len(e.Output) > maxItemOutput+8 {
			t.Errorf("an event holds %d bytes of output", len(e.Output))
		}
	}
}
