package model

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/agent/host"
)

// A lab is an agent with a server that answers as a test says.
type lab struct {
	t      *testing.T
	host   *host.Host
	cfg    Config
	tree   string
	desk   string
	home   string
	raw    bytes.Buffer
	events []agent.Event
	asked  []agent.Question
	yes    bool
	bodies []string
	access agent.Access
}

// newLab serves answers one after the other, and then the last one again and again.
func newLab(t *testing.T, answers ...http.HandlerFunc) *lab {
	t.Helper()
	l := &lab{t: t, tree: t.TempDir(), desk: t.TempDir(), home: t.TempDir(), host: newHost(t, nil), access: agent.Write}
	var n atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body bytes.Buffer
		body.ReadFrom(r.Body)
		l.bodies = append(l.bodies, body.String())
		answers[min(int(n.Add(1))-1, len(answers)-1)](w, r)
	}))
	t.Cleanup(s.Close)
	l.cfg = Config{URL: s.URL + "/v1", Model: "m"}
	l.put("a.txt", "one\ntwo\nthree\n")
	l.put(".git/hooks/pre-commit", "#!/bin/sh\n")
	if err := os.MkdirAll(filepath.Join(l.desk, "artifacts"), 0o755); err != nil {
		t.Fatal(err)
	}
	return l
}

func (l *lab) put(name, text string) {
	l.t.Helper()
	name = filepath.Join(l.tree, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o644)); err != nil {
		l.t.Fatal(err)
	}
}

func (l *lab) file(name string) string {
	data, _ := os.ReadFile(filepath.Join(l.tree, name))
	return string(data)
}

func (l *lab) run(change ...func(*agent.Request)) (agent.Result, error) {
	l.t.Helper()
	a := newAgent(l.t, l.host, l.cfg)
	req := agent.Request{Place: agent.Place{Task: "T", Thread: "T", Role: "tester", Attempt: "A", Try: 1},
		Prompt: "Do it.",
		Dir:    l.tree, Access: l.access, Home: l.home, Tag: fmt.Sprintf("model-%d-%s", os.Getpid(), l.t.Name()),
		Limits: agent.Limits{Timeout: time.Minute},
		Desk:   agent.Desk{Artifacts: filepath.Join(l.desk, "artifacts"), Raw: &l.raw},
		Ask: func(_ context.Context, q agent.Question) (agent.Answer, error) {
			l.asked = append(l.asked, q)
			return agent.Answer{Approved: l.yes}, nil
		}}
	for _, f := range change {
		f(&req)
	}
	return a.Run(l.t.Context(), req, func(e agent.Event) error { l.events = append(l.events, e); return nil })
}

// says answers with a text.
func says(text string) http.HandlerFunc {
	return sse(string(encode(object{"choices": []any{object{"delta": object{"content": text}, "finish_reason": "stop"}}})))
}

// calls answers with calls of a tool, each with its arguments.
func calls(name string, arguments ...object) http.HandlerFunc {
	var list []any
	for i, a := range arguments {
		list = append(list, object{"index": i, "id": fmt.Sprint("c", i),
			"function": object{"name": name, "arguments": string(encode(a))}})
	}
	return sse(string(encode(object{"choices": []any{object{"delta": object{"tool_calls": list},
		"finish_reason": "tool_calls"}}})))
}

func sse(data ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, d := range data {
			fmt.Fprintf(w, "data: %s\n\n", strings.TrimSpace(d))
		}
	}
}

func status(code int, body string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(code)
		fmt.Fprint(w, body)
	}
}

// TestFiles checks what a model may read and change, and what it is told.
func TestFiles(t *testing.T) {
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "secret"), []byte("the secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		tool string
		args object
		told string // a part of what the model is told
		file string // that is changed
		now  string // its content afterwards
		asks bool
	}{
		"read": {"read", object{"path": "a.txt"}, `one\ntwo\nthree\n`, "", "", false},
		"read lines": {"read", object{"path": "a.txt", "from": 2, "lines": 1}, `two\n\n[lines 2 to 2 of 3]`, "", "",
			false},
		"read beyond":      {"read", object{"path": "a.txt", "from": 9}, "has only 3 lines", "", "", false},
		"read a directory": {"read", object{"path": "."}, `.git/\na.txt`, "", "", false},
		"read nothing":     {"read", object{"path": "b.txt"}, "b.txt does not exist", "", "", false},
		"read outside": {"read", object{"path": filepath.Join(outside, "secret")}, "is not in the working directory", "",
			"", false},
		"read above":     {"read", object{"path": "../x"}, "is not in the working directory", "", "", false},
		"read by a link": {"read", object{"path": "link/secret"}, "is not in the working directory", "", "", false},
		"list artifacts": {"read", object{"path": "$PLAIT_ARTIFACTS"}, "the directory is empty", "", "", false},
		"read an artifact": {"read", object{"path": "$PLAIT_ARTIFACTS/b.txt"}, "artifacts/b.txt does not exist", "", "",
			false},
		"search":         {"search", object{"pattern": "t[wh]"}, `a.txt:2:two\na.txt:3:three`, "", "", false},
		"search names":   {"search", object{"name": "*.txt"}, `"a.txt"`, "", "", false},
		"search nothing": {"search", object{"pattern": "none"}, "nothing was found", "", "", false},
		"search badly":   {"search", object{"pattern": "("}, "the pattern is wrong", "", "", false},
		"edit": {"edit", object{"path": "a.txt", "old": "two", "new": "2"}, "is changed", "a.txt",
			"one\n2\nthree\n", false},
		"edit twice there": {"edit", object{"path": "a.txt", "old": "e", "new": "2"}, "3 times", "a.txt", "one\ntwo\nthree\n",
			false},
		"edit not there": {"edit", object{"path": "a.txt", "old": "four", "new": "2"}, "read it again", "a.txt",
			"one\ntwo\nthree\n", false},
		"write":        {"edit", object{"path": "d/e/b.txt", "new": "b"}, "is changed", "d/e/b.txt", "b", false},
		"edit no text": {"edit", object{"path": "a.txt"}, "new is missing", "a.txt", "one\ntwo\nthree\n", false},
		"edit outside": {"edit", object{"path": outside + "/x", "new": "b"}, "is not in the working directory", "", "",
			false},
		"edit protected": {"edit", object{"path": "AGENTS.md", "new": "b"}, "A person said no", "AGENTS.md", "", true},
		"edit by a link": {"edit", object{"path": "hooks/pre-commit", "new": "b"}, "A person said no",
			".git/hooks/pre-commit", "#!/bin/sh\n", true},
		"edit dangling": {"edit", object{"path": "dangling", "new": "b"}, "A person said no", ".claude/settings.json", "",
			true},
		"edit a link out":  {"edit", object{"path": "away", "new": "b"}, "is not in the working directory", "", "", false},
		"edit in a loop":   {"edit", object{"path": "loop", "new": "b"}, "too many links", "", "", false},
		"edit a fine link": {"edit", object{"path": "fine", "new": "b"}, "is changed", "d/new.txt", "b", false},
		"no tool":          {"fly", object{}, "no tool fly", "", "", false},
		"misspelled": {"search", object{"pattrn": "t"},
			`search has no argument \"pattrn\": there are pattern, path, name`, "", "", false},
		"misspelled too": {"edit", object{"path": "a.txt", "new": "b", "odl": "one"}, `no argument \"odl\"`, "a.txt",
			"one\ntwo\nthree\n", false},
		"another's":    {"read", object{"path": "a.txt", "timeout": 1}, `there are path, from, lines`, "", "", false},
		"in capitals":  {"read", object{"Path": "a.txt"}, `one\ntwo\nthree\n`, "", "", false},
		"a wrong type": {"read", object{"path": "a.txt", "from": "2"}, `from is of the JSON type string`, "", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, calls(c.tool, c.args), says("done"))
			for link, to := range map[string]string{"link": outside, "hooks": ".git/hooks", "dangling": ".claude/settings.json",
				"away": filepath.Join(outside, "new"), "loop": "loop", "fine": "d/new.txt"} {
				if err := os.Symlink(to, filepath.Join(l.tree, link)); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := l.run(); err != nil {
				t.Fatal(err)
			}
			if told := l.bodies[len(l.bodies)-1]; !strings.Contains(told, c.told) || strings.Contains(told, "the secret") {
				t.Errorf("the model is told %s, want %s", told, c.told)
			}
			if got := l.file(c.file); c.file != "" && got != c.now {
				t.Errorf("%s holds %q, want %q", c.file, got, c.now)
			}
			if c.asks != (len(l.asked) == 1) {
				t.Errorf("asked %+v", l.asked)
			}
		})
	}
}

// TestAccess checks that a role with access: read cannot change the tree.
func TestAccess(t *testing.T) {
	l := newLab(t, calls("edit", object{"path": "a.txt", "new": "b"}),
		calls("run", object{"command": "echo b > a.txt; echo b > $PLAIT_ARTIFACTS/b"}), says("done"))
	if l.host.Sandbox.Bwrap == "" {
		t.Skip("NOT TESTED: bubblewrap is not installed")
	}
	l.access = agent.Read
	res, err := l.run(func(r *agent.Request) { r.Env = []string{"PLAIT_ARTIFACTS=" + r.Desk.Artifacts} })
	if err != nil || l.file("a.txt") != "one\ntwo\nthree\n" || res.Sandbox != "bubblewrap: read-only" {
		t.Errorf("%+v %v: %q", res, err, l.file("a.txt"))
	}
	if strings.Contains(l.bodies[0], `"name":"edit"`) || !strings.Contains(l.bodies[1], "no tool edit") {
		t.Errorf("%s", l.bodies[1])
	}
	if _, err := os.Stat(filepath.Join(l.desk, "artifacts", "b")); err != nil ||
		!strings.Contains(l.bodies[2], "Read-only file system") {
		t.Errorf("%v: %s", err, l.bodies[2])
	}
}

// TestWithoutWall checks that a person is asked about each command and each change, exactly as it is.
func TestWithoutWall(t *testing.T) {
	for _, yes := range []bool{true, false} {
		l := newLab(t, calls("run", object{"command": "echo b > b.txt"}),
			calls("edit", object{"path": "a.txt", "old": "two", "new": "2"}), says("done"))
		l.host.Sandbox.Bwrap, l.yes = "", yes
		if _, err := l.run(); err != nil {
			t.Fatal(err)
		}
		if len(l.asked) != 2 || l.asked[0].Action.Command != "echo b > b.txt" ||
			!strings.Contains(l.asked[1].Action.Diff, "-two\n+2\n") {
			t.Fatalf("asked %+v", l.asked)
		}
		if (l.file("b.txt") == "b\n") != yes || strings.Contains(l.file("a.txt"), "2") != yes {
			t.Errorf("answered %t: %q %q", yes, l.file("a.txt"), l.file("b.txt"))
		}
		if declined := slices.ContainsFunc(l.events, func(e agent.Event) bool {
			return e.Phase == "declined"
		}); declined == yes {
			t.Errorf("answered %t: %+v", yes, l.events)
		}
	}
}

// TestChangedWhileAsked checks that an approved change is not made to a file that a person changed meanwhile.
func TestChangedWhileAsked(t *testing.T) {
	l := newLab(t, calls("edit", object{"path": "a.txt", "old": "two", "new": "2"}), says("done"))
	l.host.Sandbox.Bwrap, l.yes = "", true
	_, err := l.run(func(r *agent.Request) {
		ask := r.Ask
		r.Ask = func(ctx context.Context, q agent.Question) (agent.Answer, error) {
			if err := os.WriteFile(filepath.Join(l.tree, "a.txt"), []byte("mine, and two\n"), 0o644); err != nil {
				t.Error(err)
			}
			return ask(ctx, q)
		}
	})
	if err != nil || l.file("a.txt") != "mine, and two\n" || !strings.Contains(l.bodies[1], "read it again") {
		t.Errorf("%v: %q; the model is told %s", err, l.file("a.txt"), l.bodies[1])
	}
}

// TestBounds checks that a command's output and its time are limited.
func TestBounds(t *testing.T) {
	l := newLab(t, calls("run", object{"command": "seq 300000"}, object{"command": "echo begun; sleep 60", "timeout": 1}),
		says("done"))
	l.access = agent.Full
	if _, err := l.run(); err != nil {
		t.Fatal(err)
	}
	body := l.bodies[1]
	if len(body) > 3*maxTold || !strings.Contains(body, `"content":"…`) || !strings.Contains(body, "Stopped after 1s.") {
		t.Errorf("%d bytes: %.300s", len(body), body)
	}
	var ends []agent.Event
	for _, e := range l.events {
		if e.Kind == agent.EventCommand && e.Phase != "started" {
			ends = append(ends, e)
		}
	}
	if len(ends) != 2 || ends[0].Exit == nil || *ends[0].Exit != 0 || ends[1].Exit != nil || ends[1].Phase != "failed" ||
		len(ends[0].Output) > maxKept+9 {
		t.Errorf("%d ends: %+v", len(ends), ends[len(ends)-1])
	}
}
