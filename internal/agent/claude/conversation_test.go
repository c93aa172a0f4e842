package claude

import (
	"cmp"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/agent/host"
	"github.com/plait-run/plait/internal/agent/sandbox"
	"github.com/plait-run/plait/internal/testing/agenttest"
)

// newHost returns a host without an environment.
func newHost() *host.Host {
	return host.New(host.Config{Config: sandbox.Config{Getenv: func(string) string { return "" }}})
}

// converse makes an attempt with a shell script in the place of Claude Code.
func converse(t *testing.T, script string, desk agent.Desk, added ...agent.Addition) (agent.Result, error) {
	t.Helper()
	return converseIn(t, t.TempDir(), script, agent.Request{Desk: desk}, added...)
}

// converseIn makes an attempt with a home.
func converseIn(t *testing.T, home, script string, req agent.Request, added ...agent.Addition) (agent.Result, error) {
	t.Helper()
	more := make(chan agent.Addition, len(added))
	for _, a := range added {
		more <- a
	}
	req.Prompt, req.Dir, req.Access, req.Additions = "Do it.", t.TempDir(), agent.Full, more
	req.Tag, req.Limits = "claude-"+t.Name(), agent.Limits{Timeout: time.Minute}
	at := &host.Setup{Title: "Claude Code", Request: req, Dir: req.Dir, Sandbox: newHost().Sandbox.For(req, sandbox.Use{}),
		Path: "/bin/sh", Args: []string{"-c", script}}
	s := &setup{Setup: at, program: host.Program{Version: Version}, home: home, session: cmp.Or(req.Session, "s")}
	return newConversation(s, req, func(agent.Event) error { return nil }).run(t.Context())
}

// TestDiskFull checks that an attempt ends with the error if a log cannot be written.
func TestDiskFull(t *testing.T) {
	const answers = `read line; echo '{"type":"result","subtype":"success","result":"done"}'; read line; echo bye`
	if res, err := converse(t, answers, agent.Desk{Raw: io.Discard, Requests: io.Discard}); err != nil ||
		string(res.Output) != "done" {
		t.Fatalf("%+v %v", res, err)
	}
	for name, desk := range map[string]agent.Desk{
		"the answer":  {Raw: &agenttest.Disk{}, Requests: io.Discard},
		"the end":     {Raw: &agenttest.Disk{Room: 1}, Requests: io.Discard},
		"the request": {Raw: io.Discard, Requests: &agenttest.Disk{}},
	} {
		_, err := converse(t, answers, desk)
		var f *agent.Failure
		if !errors.Is(err, agenttest.ErrDisk) || errors.As(err, &f) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestNoAnswerAfterMessage checks that an answer does not count once the model has received a message after it.
func TestNoAnswerAfterMessage(t *testing.T) {
	var delivered bool
	res, err := converse(t, `read prompt; read message; echo '{"type":"result","subtype":"success","result":"early"}'
		id=$(echo "$message" | sed 's/.*"uuid":"\([^"]*\)".*/\1/')
		echo '{"type":"command_lifecycle","command_uuid":"'$id'","state":"started"}'
		echo '{"type":"assistant","message":{"content":[{"type":"text","text":"I see, so"}]}}'`,
		agent.Desk{Raw: io.Discard}, agent.Addition{Text: "Wait.", Delivered: func() { delivered = true }})
	var f *agent.Failure
	if !errors.As(err, &f) || len(res.Output) > 0 || !delivered {
		t.Errorf("%q, delivered: %v, %v", res.Output, delivered, err)
	}
}

// TestEndings checks that an answer counts only if its turn ended with a word that is known to mean that it is whole.
func TestEndings(t *testing.T) {
	for end, whole := range map[string]bool{
		`"subtype":"success"`:                            true,
		`"subtype":"success","stop_reason":"end_turn"`:   true,
		`"subtype":"success","stop_reason":"tool_use"`:   true,
		`"subtype":"success","stop_reason":"pause_turn"`: false,
		`"subtype":"success","stop_reason":"error"`:      false,
		`"subtype":"success","stop_reason":null`:         false,
		`"subtype":"error_max_turns","is_error":false`:   false,
		`"subtype":"success","is_error":true`:            false,
		`"stop_reason":"end_turn"`:                       false,
	} {
		res, err := converse(t, `read line; echo '{"type":"result",`+end+`,"result":"The tests pas"}'; read line`,
			agent.Desk{Raw: io.Discard})
		var f *agent.Failure
		if whole && (err != nil || string(res.Output) != "The tests pas") || !whole &&
			(!errors.As(err, &f) || f.Kind != agent.Infra) {
			t.Errorf("%s: %q, %v", end, res.Output, err)
		}
	}
}

// TestFlood checks that Claude Code is stopped if it makes requests and reads no answers: more than a pipe holds.
func TestFlood(t *testing.T) {
	_, err := converse(t, `read line; i=0; while [ $i -lt 2000 ]; do echo '{"type":"control_request",`+
		`"request_id":"x"}'; i=$((i+1)); done; `+
		`exec sleep 60`, agent.Desk{Raw: io.Discard})
	var f *agent.Failure
	if !errors.As(err, &f) || f.Kind != agent.Limit {
		t.Error(err)
	}
}

// TestRefusedForGood checks that a conversation that the server refuses is begun anew by the next attempt, and that
// other failures do not end it. A branch then leaves a session that cannot be continued.
func TestRefusedForGood(t *testing.T) {
	const asks, said = `read line; `, `echo '{"type":"assistant","uuid":"u","message":{"content":[{"type":"text",` +
		`"text":"I"}]}}'; `
	ends := func(status string) string {
		return `echo '{"type":"result","subtype":"success","is_error":true,"result":"no","api_error_status":` + status +
			`}'; read line`
	}
	branch := &agent.Branch{Session: "other"}
	for name, c := range map[string]struct {
		script  string
		req     agent.Request
		session string
		final   bool
	}{
		"a new one":               {asks + ends("400"), agent.Request{}, "", true},
		"after an answer":         {asks + said + ends("413"), agent.Request{}, "", false},
		"continued":               {asks + ends("400"), agent.Request{Session: "s1"}, "", false},
		"continued, and answered": {asks + said + ends("400"), agent.Request{Session: "s1"}, "", false},
		"a limit":                 {asks + said + ends("429"), agent.Request{Session: "s1"}, "s1", false},
		"the key":                 {asks + said + ends("403"), agent.Request{Session: "s1"}, "s1", true},
		"a branch":                {asks + ends("400"), agent.Request{From: branch}, "s", false},
		"a branch, once":          {asks + ends("null"), agent.Request{From: branch, Place: agent.Place{Try: 1}}, "", false},
		"a branch, twice":         {asks + ends("null"), agent.Request{From: branch, Place: agent.Place{Try: 2}}, "s", false},
		"a branch, and a limit":   {asks + ends("429"), agent.Request{From: branch, Place: agent.Place{Try: 2}}, "", false},
	} {
		home := t.TempDir()
		write(t, home, "projects/p/s.jsonl")
		c.req.Desk.Raw = io.Discard
		_, err := converseIn(t, home, c.script, c.req)
		var f *agent.Failure
		if !errors.As(err, &f) || f.Session != c.session || f.Final != c.final {
			t.Errorf("%s: %+v", name, f)
		}
		if left := findSession(home, "s") != ""; left == (c.session == "s") {
			t.Errorf("%s: the session can be continued: %t", name, left)
		}
	}
}
