package view

import (
	"encoding/json"
	"testing"

	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
)

// TestEveryEventIsSaid checks that each type of event can be described in words, none of which is JSON.
func TestEveryEventIsSaid(t *testing.T) {
	fill := `{"flow":"f","state":"working","wanted":"cancel","code":1,"paths":["a"],"threads":["A"],"role":"r","agent":"codex",
		"outcome":"joined","join":"j","message":"m","status":"completed","kind":"approval","text":"t","names":["n"],"title":"t",
		"gate":"g-1","limit":"maxTokens","n":1,"steps":2,"items":[{"kind":"thought","text":"hm","phase":"completed"}]}`
	for _, kind := range event.All() {
		n := NewNarrator(nil)
		n.All = true
		said := n.Tell(store.Event{Task: "T", Thread: "T", Type: kind, Payload: json.RawMessage(fill)})
		if len(said) == 0 {
			t.Errorf("%s is said in no words", kind)
		}
		for _, s := range said {
			if s.Text == "" || s.Text[0] == '{' {
				t.Errorf("%s is said as %q", kind, s.Text)
			}
		}
	}
}

// TestFailedActionIsSaid checks that an action whose agent said that it failed is told as failed, though older records
// have it as completed. A role of any other path that says so has done its work.
func TestFailedActionIsSaid(t *testing.T) {
	for join, want := range map[string]string{"__join__": "failed: failed", "met": "done: failed"} {
		n := NewNarrator(nil)
		n.All = true
		n.Observe(store.Event{Task: "T", Thread: "T", Type: "thread.forked",
			Payload: json.RawMessage(`{"fork":"p","join":"` + join + `","paths":["two"],"threads":["A"]}`)})
		said := n.Tell(store.Event{Task: "T", Thread: "A", Type: "agent.completed", Instance: "two",
			Payload: json.RawMessage(`{"role":"two","status":"failed"}`)})
		if len(said) != 1 || said[0].Text != want {
			t.Errorf("join %s: %+v, want %q", join, said, want)
		}
	}
}
