package event

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
)

var row = store.Thread{ID: "path", Task: "root"}

// TestRead checks that events of any type are read as they were written.
func TestRead(t *testing.T) {
	code, h := 1, dag.Sum([]byte("x"))
	for _, want := range []Payload{
		TaskCreated{Flow: "f", Bundle: h, Start: h}, TaskUpdated{State: Working}, TaskUpdated{Intent: "cancel"},
		TaskEnded{State: "canceled", Code: 130, Summary: "cancelled"}, ControllerChanged{State: Joining, Head: h},
		ThreadForked{Fork: "f", Join: "j", Head: h, Paths: []string{"a"}, Threads: []string{"b"}},
		ThreadForked{From: "t", Step: h, N: 2},
		ThreadEnded{Status: store.Failed, Head: h, Code: &code, Summary: "no"}, ThreadRemoved{},
		AttemptFailed{Role: "r", Kind: "infra", Message: "gone"}, AttemptFailed{Interrupted: true, Role: "r"},
		AgentEnded{State: "completed", Role: "r", Status: "done"},
		AgentItems{Role: "r", Items: []json.RawMessage{json.RawMessage(`{"kind":"message"}`)}},
		GateChanged{Change: "withdrawn", Gate: "g", Question: "why?"}, NotesRead{Text: "a", Hash: h, More: true},
	} {
		ev := OfAttempt(row, store.Attempt{ID: "path.1", Instance: "r"}, 7, want)
		if diff := cmp.Diff(want, Read(ev)); diff != "" {
			t.Errorf("%s: -want +got\n%s", ev.Type, diff)
		}
		if !Is(ev, want) || Type(want) != ev.Type || ev.Task != "root" || ev.Thread != "path" || ev.TS != 7 ||
			ev.Attempt != "path.1" || ev.Instance != "r" {
			t.Errorf("it is %+v", ev)
		}
	}
}

// TestTypes checks that each type is declared once.
func TestTypes(t *testing.T) {
	seen := map[string]bool{}
	for _, typ := range All() {
		if seen[typ] {
			t.Errorf("two events are of type %q", typ)
		}
		seen[typ] = true
		if Read(store.Event{Type: typ, Payload: json.RawMessage("{}")}) == nil {
			t.Errorf("%s cannot be read", typ)
		}
	}
	for _, ev := range []store.Event{
		{Type: "task.later", Payload: json.RawMessage("{}")},
		{Type: "task.created", Payload: json.RawMessage("[]")},
		{Type: "task.created"},
	} {
		if p := Read(ev); p != nil {
			t.Errorf("%s is read as %+v", ev.Type, p)
		}
	}
}

// TestFits checks that the journal accepts an event whatever its payload.
func TestFits(t *testing.T) {
	long := strings.Repeat("\x00ä", 20_000)
	for _, p := range []Payload{
		ThreadBlocked{Kind: "gate", Message: Text(long)}, GateChanged{Change: "blocked", Question: long, By: "p"},
		ArtifactWritten{Names: []string{long}}, NotesRead{Text: long},
	} {
		ev := New(row, 1, p)
		if len(ev.Payload) > store.MaxEventPayload || !json.Valid(ev.Payload) {
			t.Errorf("%s: %d bytes", ev.Type, len(ev.Payload))
		}
	}
	asked, ok := Read(New(row, 1, GateChanged{Change: "blocked", Gate: "g", Question: long})).(GateChanged)
	if !ok || asked.Gate != "g" || len(asked.Question) < 500 || !utf8.ValidString(asked.Question) {
		t.Errorf("of the question there is %d bytes, of gate %q", len(asked.Question), asked.Gate)
	}
}
