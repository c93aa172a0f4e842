package engine

import (
	"testing"

	"github.com/plait-run/plait/internal/record/store"
)

// A task is released although a person once allowed an attempt, at an earlier head, to be repeated.
func TestReleaseAfterARepeatedAttempt(t *testing.T) {
	s, engine, row := setUp(t, "full", finish)
	row.Status = store.Running
	g := store.Gate{ID: "01JD0000000000000000000001", Task: row.Task, Thread: row.ID, Kind: store.GateApproval,
		Source: store.SourceInterrupted, Attempt: row.ID + ".1", State: store.GateApproved, OpenedAt: 1, AnsweredAt: 2}
	if err := s.Commit(t.Context(), store.Batch{Gates: []store.GateChange{{Row: g}}}); err != nil {
		t.Fatal(err)
	}
	if err := engine().Release(t.Context(), []store.Thread{row}); err != nil {
		t.Error(err)
	}
}
