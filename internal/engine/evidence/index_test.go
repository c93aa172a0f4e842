package evidence

import (
	"testing"

	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/testing/housetest"
)

// TestIdsAreCountedOn: numbers continue over the visits of one instance, in any process.
func TestIdsAreCountedOn(t *testing.T) {
	s := newScene(t)
	for i, want := range []string{"cmd-1", "cmd-2", "cmd-3"} {
		if i == 2 {
			s.Collector = New(s.cfg)
		}
		if entries := s.keep(t, s.answer(`{"$status":"done"}`, ran("ls", "x", 0))); entries[0].ID != want {
			t.Fatalf("visit %d: %s; want %s", i+1, entries[0].ID, want)
		}
	}
}

// TestAForkInheritsEvidence: what the shared steps proved can be cited, and its ids are taken.
func TestAForkInheritsEvidence(t *testing.T) {
	s := newScene(t)
	a := s.answer(`{"$status":"done"}`, ran("ls", "x", 0))
	kept, err := s.Record(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	head := housetest.Append(t.Context(), t, s.store, s.row, thread.Draft{Role: "first", Meta: []byte(`{"$status":"done"}`),
		At: 1, Detail: &thread.Detail{Instance: "first", Attempts: []thread.EarlierAttempt{},
			Context: []thread.ContextUse{}, Evidence: kept.Nodes, Approvals: thread.Answers{Present: true}}},
		a.Bytes.Objects...).Head
	fork := s.row
	fork.ID = "01JD0000000000000000000001"
	fork.Task, fork.Root, fork.Head = fork.ID, fork.ID, head
	fork.ForkedFrom = &store.ForkedFrom{Thread: s.row.ID, Step: head}
	if err := s.store.Forge(t.Context(), store.Batch{Threads: []store.ThreadChange{{Row: fork}}}); err != nil {
		t.Fatal(err)
	}
	s.add(t, "first", "later") // a step that the fork does not share
	s.row = fork
	kept, err = s.prove(t, true, `{"$status":"done","x":"evidence:cmd-1, evidence:cmd-2"}`, ran("ls", "x", 0))
	if err != nil || len(kept.Added) != 1 || kept.Added[0].ID != "first.cmd-2" {
		t.Errorf("%+v, %v", kept.Added, err)
	}
	_, err = s.prove(t, true, `{"$status":"done","x":"evidence:later"}`)
	mustRefuse(t, err, "evidence:later is cited")
	s.store.Lose(head)
	s.Collector = New(s.cfg)
	if _, err := s.prove(t, true, `{"$status":"done"}`, ran("ls", "x", 0)); err != nil {
		t.Errorf("a lost step stops the work: %v", err)
	}
}
