package engine

import (
	"errors"
	"testing"

	"github.com/plait-run/plait/internal/engine/attempt"
	"github.com/plait-run/plait/internal/record/store"
)

// A task is released although a person once allowed an attempt, at an earlier head, to be repeated.
func TestReleaseAfterARepeatedAttempt(t *testing.T) {
	s, engine, row := setUp(t, "full", finish)
	row.Status = store.Running
	g := store.Gate{ID: "01JD0000000000000000000001", Task: row.Task, Thread: row.ID, Kind: store.GateApproval,
		Source: store.SourceInterrupted, Attempt: row.ID + ".1", State: store.GateApproved, OpenedAt: 1, AnsweredAt: 2}
	if err := s.Forge(t.Context(), store.Batch{Gates: []store.GateChange{{Row: g}}}); err != nil {
		t.Fatal(err)
	}
	if err := engine().Release(t.Context(), []store.Thread{row}); err != nil {
		t.Error(err)
	}
}

// A task is released if a person allowed an attempt to be repeated, also of the thread that tried the path before.
func TestReleaseWithConsentToAnEarlierTry(t *testing.T) {
	for name, consents := range map[string]bool{"with consent": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			s, engine, root := setUp(t, "full", finish)
			ctx, parent := t.Context(), &store.Parent{Thread: root.ID, From: root.Head}
			first := root
			first.ID, first.Short, first.Kind, first.Status, first.Parent = "01JD0000000000000000000001", "", store.KindPath,
				store.Failed, parent
			first.Path = &store.Path{ID: "a", N: 1}
			second, path := first, *first.Path
			second.ID, second.Status, second.Path, path.N = "01JD0000000000000000000002", store.Running, &path, 2
			cut := store.Attempt{ID: first.ID + ".1", Thread: first.ID, From: first.Head, Role: "second", N: 1,
				Status: store.AttemptInterrupted, Failure: &store.Failure{Kind: store.FailureInterrupted}}
			b := store.Batch{Threads: []store.ThreadChange{{Row: first}, {Row: second}},
				Attempts: []store.AttemptChange{{Row: cut}}}
			if consents {
				b.Gates = []store.GateChange{{Row: store.Gate{ID: "g-1", Task: root.Task, Thread: first.ID, From: first.Head,
					Kind: store.GateApproval, Source: store.SourceInterrupted, Attempt: cut.ID, State: store.GateApproved,
					OpenedAt: 1, AnsweredAt: 2}}}
			}
			if err := s.Forge(ctx, b); err != nil {
				t.Fatal(err)
			}
			err := engine().Release(ctx, []store.Thread{root, first, second})
			if consents != (err == nil) || !consents && !errors.Is(err, attempt.ErrUsage) {
				t.Errorf("%v", err)
			}
		})
	}
}
