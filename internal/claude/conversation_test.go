package claude

import (
	"errors"
	"io"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/agent/agenttest"
	"github.com/plait-run/plait/internal/sandbox"
)

// converse makes an attempt with a shell script in the place of Claude Code.
func converse(t *testing.T, script string, desk agent.Desk, added ...agent.Addition) (agent.Result, error) {
	t.Helper()
	more := make(chan agent.Addition, len(added))
	for _, a := range added {
		more <- a
	}
	req := agent.Request{Prompt: "Do it.", Dir: t.TempDir(), Access: agent.Full, Desk: desk, Additions: more,
		Tag: "claude-" + t.Name(), Limits: agent.Limits{Timeout: time.Minute}}
	h := NewHost(HostConfig{Config: sandbox.Config{Getenv: func(string) string { return "" }}})
	s := &setup{program: Program{Version: Version}, dir: req.Dir, path: "/bin/sh", args: []string{"-c", script}, session: "s",
		box: h.box.Box(req, sandbox.Use{})}
	return newConversation(s, req, func(agent.Event) error { return nil }).run(t.Context())
}

// TestDiskFull checks that an attempt ends with the error if a log cannot be written.
func TestDiskFull(t *testing.T) {
	const answers = `read line; echo '{"type":"result","result":"done"}'; read line; echo bye`
	if res, err := converse(t, answers, agent.Desk{Raw: io.Discard, Requests: io.Discard}); err != nil || string(res.Output) != "done" {
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
	res, err := converse(t, `read prompt; read message; echo '{"type":"result","result":"early"}'
		id=$(echo "$message" | sed 's/.*"uuid":"\([^"]*\)".*/\1/')
		echo '{"type":"command_lifecycle","command_uuid":"'$id'","state":"started"}'
		echo '{"type":"assistant","message":{"content":[{"type":"text","text":"I see, so"}]}}'`,
		agent.Desk{Raw: io.Discard}, agent.Addition{Text: "Wait.", Delivered: func() { delivered = true }})
	var f *agent.Failure
	if !errors.As(err, &f) || len(res.Output) > 0 || !delivered {
		t.Errorf("%q, delivered: %v, %v", res.Output, delivered, err)
	}
}

// TestFlood checks that Claude Code is stopped if it makes requests and reads no answers: more than a pipe holds.
func TestFlood(t *testing.T) {
	_, err := converse(t, `read line; i=0; while [ $i -lt 2000 ]; do echo '{"type":"control_request","request_id":"x"}'; i=$((i+1)); done; `+
		`exec sleep 60`, agent.Desk{Raw: io.Discard})
	var f *agent.Failure
	if !errors.As(err, &f) || f.Kind != agent.Limit {
		t.Error(err)
	}
}
