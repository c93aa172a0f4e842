package view_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/view"
)

// TestCosts adds up what two tasks used: one with steps, a path and a failed attempt, and one that was imported.
func TestCosts(t *testing.T) {
	const day = 86_400_000
	r, root := newRecord(t)
	start := r.clock
	attempts := 0
	spend := func(l *line, agent string, days, tokens, micro int64) string {
		attempts++
		a := store.Attempt{ID: fmt.Sprintf("%s.%d", l.row.ID, attempts), Thread: l.row.ID, N: attempts, Role: "a",
			Instance: "a", Agent: agent, Status: store.AttemptDone, StartedAt: start + days*day,
			Usage: store.Usage{InputTokens: tokens, CostMicroUSD: micro}}
		r.commit(store.Batch{Attempts: []store.AttemptChange{{Row: a}}})
		return a.ID
	}
	step := func(l *line, model, attempt string, earlier ...string) {
		d := &thread.Detail{Agent: "x", Model: model, Attempt: attempt}
		for _, id := range earlier {
			d.Attempts = append(d.Attempts, thread.EarlierAttempt{ID: id, Failure: &store.Failure{}})
		}
		r.step(l, thread.Draft{Role: "a", Text: "x", Detail: d})
	}
	r.commit(store.Batch{Events: []store.Event{event.New(root.row, start, event.TaskCreated{By: "ann"})}})
	failed := spend(root, "codex", 0, 10, 1)
	step(root, "m1", spend(root, "codex", 0, 100, 10), failed)
	path := r.path(root, "p")
	step(path, "m2", spend(path, "claude", 1, 1000, 0)) // without a price
	spend(root, "claude", 1, 10_000, 1000)              // of a step that is not there
	spend(root, "claude", 2, 0, 0)                      // used nothing

	other := root.row
	other.ID, other.Root, other.Task, other.Short = "01KA0000000000000000000009", "", "", "zzzz"
	other.Options = json.RawMessage(`{"imported":"/elsewhere"}`)
	r.commit(store.Batch{Threads: []store.ThreadChange{{Row: other}}})
	spend(&line{row: other}, "codex", 0, 1_000_000, 1_000_000)

	type row struct {
		Name             string
		Tasks, Attempts  int
		Tokens, Micro, U int64
	}
	brief := func(c view.Cost) row {
		return row{c.Name, c.Tasks, c.Attempts, c.Usage.InputTokens, c.Usage.CostMicroUSD, c.UnpricedTokens}
	}
	total := row{"", 1, 4, 11_110, 1011, 1000}
	for by, want := range map[string][]row{
		view.CostByDay:    {{"2027-01-16", 1, 2, 11_000, 1000, 1000}, {"2027-01-15", 1, 2, 110, 11, 0}},
		view.CostByFlow:   {{"solve", 1, 4, 11_110, 1011, 1000}},
		view.CostByAgent:  {{"claude", 1, 2, 11_000, 1000, 1000}, {"codex", 1, 2, 110, 11, 0}},
		view.CostByModel:  {{"", 1, 1, 10_000, 1000, 0}, {"m1", 1, 2, 110, 11, 0}, {"m2", 1, 1, 1000, 0, 1000}},
		view.CostByPerson: {{"ann", 1, 4, 11_110, 1011, 1000}},
	} {
		got, err := r.book().Costs(t.Context(), view.TaskFilter{}, by)
		if err != nil {
			t.Fatal(err)
		}
		var rows []row
		for _, c := range got.Rows {
			rows = append(rows, brief(c))
		}
		if diff := cmp.Diff(want, rows); diff != "" || brief(got.Total) != total {
			t.Errorf("by %s (-want +got): %+v\n%s", by, brief(got.Total), diff)
		}
	}
	for _, x := range []struct {
		f    view.TaskFilter
		want row
	}{
		{view.TaskFilter{Flow: "another"}, row{}},
		{view.TaskFilter{Since: start + 1}, row{"", 1, 2, 11_000, 1000, 1000}},
		{view.TaskFilter{Since: start + 3*day, All: true}, row{}},
	} {
		if got, err := r.book().Costs(t.Context(), x.f, view.CostByDay); err != nil || brief(got.Total) != x.want {
			t.Errorf("%+v: %+v, %v", x.f, got, err)
		}
	}
}
