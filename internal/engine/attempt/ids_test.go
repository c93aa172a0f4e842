package attempt

import (
	"strings"
	"testing"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
)

// TestIdsAreCountedOn: numbers continue over the visits of one instance, in any process.
func TestIdsAreCountedOn(t *testing.T) {
	s, e, row := emitting(t, nil)
	for i, want := range []string{"first.cmd-1", "first.cmd-2", "first.cmd-3"} {
		if i == 2 {
			e.Runner = New(e.cfg)
		}
		ans, err := proving(t, e, row, false, `{"$status":"done"}`, ran("ls", "x", 0))
		if err != nil || len(ans.proved) != 1 || ans.proved[0].ID != want {
			t.Fatalf("visit %d: %+v, %v; want %s", i+1, ans.proved, err, want)
		}
		if err := s.Commit(t.Context(),
			store.Batch{Events: []store.Event{event.New(row, 1, ans.proved[0])}}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAForkInheritsEvidence: what the shared steps proved can be cited, and its ids are
// taken.
func TestAForkInheritsEvidence(t *testing.T) {
	s, e, row := emitting(t, func(_ agent.Request, emit func(agent.Event) error) (agent.Result, error) {
		if err := emit(ran("ls", "…the end", 0)); err != nil {
			return agent.Result{}, err
		}
		return answered(`{"$status":"done"}`)
	})
	first, err := e.Step(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	second, err := e.Step(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if ev := evidenceOf(t, s, second.Head)[0]; !strings.Contains(ev.Summary, "only the end") {
		t.Errorf("what is cut by the agent is told as whole: %q", ev.Summary)
	}
	fork := row
	fork.ID = "01JD0000000000000000000001"
	fork.Task, fork.Root, fork.Head = fork.ID, fork.ID, first.Head
	fork.ForkedFrom = &store.ForkedFrom{Thread: row.ID, Step: first.Head}
	if err := s.Commit(t.Context(), store.Batch{Threads: []store.ThreadChange{{Row: fork}}}); err != nil {
		t.Fatal(err)
	}
	ans, err := proving(t, e, fork, true, `{"$status":"done","x":"evidence:cmd-1, evidence:cmd-2"}`, ran("ls", "x", 0))
	if err != nil || len(ans.proved) != 1 || ans.proved[0].ID != "first.cmd-2" {
		t.Errorf("%+v, %v", ans.proved, err)
	}
	_, err = proving(t, e, fork, true, `{"$status":"done","x":"evidence:second.cmd-1"}`)
	mustRefuse(t, err, "second.cmd-1") // a step that the fork does not share
	s.Lose(first.Head)
	again := &house{Runner: runner(s, nil), store: s, row: fork}
	if _, err := proving(t, again, fork, true, `{"$status":"done"}`, ran("ls", "x", 0)); err != nil {
		t.Errorf("a lost step stops the work: %v", err)
	}
}
