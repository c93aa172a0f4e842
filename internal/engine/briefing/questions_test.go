package briefing

import (
	"testing"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record"
	"github.com/plait-run/plait/internal/record/store"
)

// TestQuestionsOfGates: a prompt repeats the question of a step that may have been made at a gate, even if
// the flow that the thread continues with has no gates.
func TestQuestionsOfGates(t *testing.T) {
	h := newScene(t)
	err := h.store.Forge(t.Context(), store.Batch{Gates: []store.GateChange{{Row: store.Gate{
		ID: "G", Kind: store.GateInput, State: store.GateAnswered, Source: store.SourceFlow, Task: h.row.Task,
		Thread: h.row.ID, Node: "ask", From: h.row.Head, Question: "Which one?",
	}}}})
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		visits map[string]int
		gates  map[string]flow.GateSpec
		want   int
	}{
		"roles alone":              {visits: map[string]int{"worker": 2}},
		"a flow with a gate":       {gates: map[string]flow.GateSpec{"ask": {}}, want: 1},
		"a gate of another flow":   {visits: map[string]int{"worker": 1, "ask": 1}, want: 1},
		"nothing has happened yet": {},
	} {
		asked, err := h.questions(t.Context(), &record.Position{Row: h.row, Visits: tt.visits,
			Def: &flow.Definition{Roles: map[string]flow.Role{"worker": {}}, Gates: tt.gates}})
		if err != nil || len(asked) != tt.want {
			t.Errorf("%s: %v, %v, want %d", name, asked, err, tt.want)
		}
	}
}
