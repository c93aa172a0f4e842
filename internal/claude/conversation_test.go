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
func converse(t *testing.T, script string, desk agent.Desk) (agent.Result, error) {
	t.Helper()
	req := agent.Request{Prompt: "Do it.", Dir: t.TempDir(), Access: agent.Full, Desk: desk,
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

// TestFlood checks that Claude Code is stopped if it makes requests and reads no answers: more than a pipe holds.
func TestFlood(t *testing.T) {
	_, err := converse(t, `read line; i=0; while [ $i -lt 2000 ]; do echo '{"type":"control_request","request_id":"x"}'; i=$((i+1)); done; `+
		`exec sleep 60`, agent.Desk{Raw: io.Discard})
	var f *agent.Failure
	if !errors.As(err, &f) || f.Kind != agent.Limit {
		t.Error(err)
	}
}
