package web

import (
	"net/http"
	"strings"
	"testing"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
)

// TestCost tests that the page and the API say what agents used.
func TestCost(t *testing.T) {
	h := newHouse(t, nil)
	s := h.open("")
	if page := s.get("/cost").body; !strings.Contains(page, "No agent has used anything") {
		t.Error("the page of a new record:", page)
	}
	row := h.begin(asking, "Mend the sum")
	a := store.Attempt{ID: row.ID + ".7", Thread: row.ID, N: 7, From: dag.Sum([]byte("a head")), Role: "plan",
		Agent: "<b>odd", Status: store.AttemptDone, StartedAt: 1000, EndedAt: 2000,
		Usage: store.Usage{InputTokens: 1200, OutputTokens: 34, CostMicroUSD: 1_500_000}}
	b := a
	b.ID, b.N, b.Agent, b.Usage = row.ID+".8", 8, "free", store.Usage{InputTokens: 500}
	if err := h.store.Commit(t.Context(), store.Batch{Attempts: []store.AttemptChange{{Row: a}, {Row: b}}}); err != nil {
		t.Fatal(err)
	}
	page := s.get("/cost?by=agent").body
	for _, text := range []string{"&lt;b&gt;odd", "$1.50", "1,234", "1,734", `<rect width="100.00"`, `<rect width="0.00"`,
		`href="/cost?by=model"`, `href="/cost?by=agent&amp;days=7"`} {
		if !strings.Contains(page, text) {
			t.Errorf("the page does not have %q", text)
		}
	}
	if page := s.get("/cost?by=agent&days=30").body; !strings.Contains(page, "No agent has used anything") {
		t.Error("what is older is counted")
	}
	if got := s.get("/api/v1/cost?by=agent").body; !strings.Contains(got, `"unpricedTokens":500`) ||
		!strings.Contains(got, `"total":{"name":"","tasks":1,"attempts":2`) {
		t.Error(got)
	}
	for _, path := range []string{"/cost?by=weekday", "/api/v1/cost?days=-1", "/api/v1/cost?all=perhaps"} {
		if res := s.get(path); res.code != http.StatusBadRequest {
			t.Errorf("%s: %d", path, res.code)
		}
	}
	if page := s.get("/tasks").body; !strings.Contains(page, `href="/cost"`) {
		t.Error("nothing leads to the page")
	}
}
