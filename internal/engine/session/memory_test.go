package session

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/prompt"
	"github.com/plait-run/plait/internal/record/thread"
)

// TestMemory is the law of a session's count: whatever its turns add, the count is what its requests grew by, with the
// last answer. Without requests it is what was said and heard.
func TestMemory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seen := rapid.Bool().Draw(t, "requests seen")
		bare := rapid.IntRange(0, 40_000).Draw(t, "bare")
		at := &record.Position{Def: &flow.Definition{}}
		var before *thread.Memory
		held, answer := 0, 0
		for range rapid.IntRange(1, 12).Draw(t, "turns") {
			size := func(what string) int { return rapid.IntRange(2, 9000).Draw(t, what) }
			sent, tools, next := size("prompt"), size("tools"), size("answer")
			turn := Turn{In: Choice{Memory: before}, Told: strings.Repeat("p", sent-2), Heard: tools,
				Result: agent.Result{Session: "s", Output: []byte(strings.Repeat("a", next-2))}}
			if first := bare + held + answer + sent; seen {
				turn.Requests = [2]int64{int64(prompt.ApproxTokens(first)), int64(prompt.ApproxTokens(first + tools))}
			}
			m := new(Keeper).Memory(at, turn)
			held, answer = held+answer+sent+tools, next
			if got, want := int(m.Tokens), prompt.ApproxTokens(held+answer); got < want-3 || got > want+40 {
				t.Fatalf("it holds %d tokens, want about %d", got, want)
			}
			before = m
		}
	})
}

func TestMemoryWithoutASession(t *testing.T) {
	at := &record.Position{Def: &flow.Definition{}}
	if m := new(Keeper).Memory(at, Turn{}); m != nil {
		t.Errorf("%+v", m)
	}
}

// TestFreshSessions checks which sessions begin where a prompt would begin.
func TestFreshSessions(t *testing.T) {
	at, older, head := dag.SumText("a summary"), dag.SumText("an older one"), dag.SumText("the head")
	for _, tt := range []struct {
		name    string
		summary dag.Hash
		whole   bool
		s       session
		want    bool
	}{
		{name: "no summary", s: session{last: head, memory: &thread.Memory{}}, want: true},
		{name: "older than the summary", summary: at, s: session{last: head, memory: &thread.Memory{}}},
		{name: "begun with it", summary: at, s: session{last: head, memory: &thread.Memory{Summary: at}}, want: true},
		{name: "begun with one before", summary: at, s: session{last: head, memory: &thread.Memory{Summary: older}}},
		{name: "all is wanted", summary: at, whole: true, s: session{last: head, memory: &thread.Memory{}}, want: true},
		{name: "all is wanted, it has a summary", summary: at, whole: true,
			s: session{last: head, memory: &thread.Memory{Summary: at}}},
		{name: "of an older release", s: session{last: head}, want: true},
		{name: "of an older release, before a summary", summary: at, s: session{last: head}},
		{name: "its first turn was cut off here", summary: at, s: session{from: head}, want: true},
		{name: "its first turn was cut off before", summary: at, s: session{from: older}},
	} {
		at := &record.Position{Summary: tt.summary}
		if at.Row.Head = head; tt.whole {
			at.Row.Options = []byte(`{"context":"full","limits":{}}`)
		}
		if got := new(Keeper).fresh(at, tt.s); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}
