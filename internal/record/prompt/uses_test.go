package prompt

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/thread"
)

func TestUses(t *testing.T) {
	c := newChain(t).grow(2)
	c.add(thread.Draft{Role: thread.RoleCompact, Text: "all in short", Compact: true})
	c.grow(1)
	uses := []thread.ContextUse{
		{From: c.steps[0].Hash, To: c.steps[0].Hash, Form: thread.FormOmitted},
		{From: c.steps[1].Hash, To: c.steps[1].Hash, Form: thread.FormMeta},
		{From: c.steps[2].Hash, To: c.steps[2].Hash, Form: thread.FormSummary},
		{From: c.steps[3].Hash, To: c.steps[3].Hash, Form: thread.FormFull},
	}
	got, err := Uses(t.Context(), c.nodes, c.steps[2:], uses)
	if err != nil {
		t.Fatal(err)
	}
	want := []Use{
		{uses[0].To, 0, "worker", thread.FormOmitted, 0},
		{uses[1].To, 0, "worker", thread.FormMeta, len(json.RawMessage(`{"$status":"done"}`))},
		{uses[2].To, 1, thread.RoleCompact, thread.FormSummary, len("all in short")},
		{uses[3].To, 2, "worker", thread.FormFull, len("text 4")},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	gone := dag.Sum([]byte("gone"))
	missing := []thread.ContextUse{{From: gone, To: gone, Form: thread.FormFull}}
	if _, err := Uses(t.Context(), c.nodes, nil, missing); err == nil {
		t.Error("a step that is not there was used")
	}
}
