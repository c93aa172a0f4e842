package acp

import (
	"encoding/json"
	"testing"

	"github.com/plait-run/plait/internal/agent"
)

// TestWorking checks that a tool counts as running from its beginning to its end, and that one whose end is never
// reported stops counting once the model responds.
func TestWorking(t *testing.T) {
	n := updateLog{tools: map[string]*tool{}, working: map[*tool]bool{}}
	for i, step := range []struct {
		update string
		want   int
	}{
		{`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"I look."}}`, 0},
		{`{"sessionUpdate":"tool_call","toolCallId":"a","kind":"execute","status":"pending"}`, 0},
		// the command is not known yet
		{`{"sessionUpdate":"tool_call_update","toolCallId":"a","rawInput":{"cwd":"/tmp"}}`, 0},
		{`{"sessionUpdate":"tool_call_update","toolCallId":"a","rawInput":{"command":"ls"}}`, 1},
		{`{"sessionUpdate":"tool_call","toolCallId":"d","kind":"execute","title":"sleep 9","status":"in_progress"}`, 2},
		{`{"sessionUpdate":"tool_call_update","toolCallId":"d","status":"completed"}`, 1},
		{`{"sessionUpdate":"tool_call","toolCallId":"b","kind":"read","status":"in_progress"}`, 2},
		{`{"sessionUpdate":"plan","entries":[]}`, 2},
		{`{"sessionUpdate":"tool_call_update","toolCallId":"a","status":"completed"}`, 1},
		{`{"sessionUpdate":"agent_thought_chunk","content":{"type":"text","text":""}}`, 1},
		{`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Well."}}`, 0},
		{`{"sessionUpdate":"tool_call_update","toolCallId":"b","status":"in_progress"}`, 0},
		{`{"sessionUpdate":"tool_call","toolCallId":"c","kind":"read","status":"in_progress"}`, 1},
		{`{"sessionUpdate":"tool_call_update","toolCallId":"c","status":"failed"}`, 0},
	} {
		n.update(json.RawMessage(`{"update":`+step.update+`}`), i+1)
		if got := len(n.working); got != step.want {
			t.Errorf("after %s: %d tools work, want %d", step.update, got, step.want)
		}
	}
}

// TestIDAgain checks that a call whose id was used before is a new one, and that a late update is not.
func TestIDAgain(t *testing.T) {
	n := updateLog{tools: map[string]*tool{}, working: map[*tool]bool{}}
	send := func(update string) []agent.Event { return n.update(json.RawMessage(`{"update":`+update+`}`), 1) }
	send(`{"sessionUpdate":"tool_call","toolCallId":"a","title":"ls","kind":"execute","rawInput":{"command":"ls"}}`)
	send(`{"sessionUpdate":"tool_call_update","toolCallId":"a","status":"completed"}`)
	if events := send(`{"sessionUpdate":"tool_call_update","toolCallId":"a","rawInput":{"command":"rm -r *"}}`); len(
		events) > 0 {
		t.Errorf("an ended call goes on: %+v", events)
	}
	events, u := n.merge(call{ID: "a", Title: "rm", Kind: "execute", Input: json.RawMessage(`{"command":"rm -r *"}`)}, 2,
		true)
	if act := u.action("/"); act.Command != "rm -r *" || string(act.Params) != `{"command":"rm -r *"}` {
		t.Errorf("asked is %+v", act)
	}
	if len(events) != 1 || events[0].Phase != "started" || events[0].Text != "rm -r *" {
		t.Errorf("it begins with %+v", events)
	}
	send(`{"sessionUpdate":"tool_call_update","toolCallId":"a","status":"failed"}`)
	send(`{"sessionUpdate":"tool_call","toolCallId":"a","title":"id","kind":"execute","rawInput":{"command":"id"}}`)
	events = send(`{"sessionUpdate":"tool_call_update","toolCallId":"a","status":"completed"}`)
	if len(events) != 1 || events[0].Phase != "completed" || events[0].Text != "id" {
		t.Errorf("it ends with %+v", events)
	}
}
