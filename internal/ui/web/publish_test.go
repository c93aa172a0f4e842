package web

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/plait-run/plait/internal/record"
	"github.com/plait-run/plait/internal/record/store"
)

// TestPublish presses what the page does to publish a change.
func TestPublish(t *testing.T) {
	h := newHouse(t, gatedAgents())
	h.options.Forge = &record.Forge{Issue: "https://forge.example/issues/7"}
	row := h.run(gated, "do it")
	if res := h.open("").post("/api/v1/tasks/"+row.ID+"/commit", `{}`); res.code != http.StatusConflict {
		t.Errorf("without Publish: status %d", res.code)
	}
	var asked []bool
	h.publish = func(_ context.Context, at store.Thread, request, protected bool) (string, string, error) {
		if asked = append(asked, request, protected); at.ID != row.ID || !request {
			return "", "", errors.New("nothing was committed")
		}
		return "opened it", "https://forge.example/1", nil
	}
	s := h.open("")
	if page := s.get("/tasks/" + row.ID).body; !strings.Contains(page, `<a href="https://forge.example/issues/7">`) {
		t.Error("the page has no link to the issue")
	}
	if res := s.post("/api/v1/tasks/"+row.ID+"/pr", `{"yes":true}`); res.code != http.StatusOK ||
		!strings.Contains(res.body, "opened it") || !strings.Contains(res.body, "https://forge.example/1") {
		t.Errorf("pr: %d %s", res.code, res.body)
	}
	s.refused("/api/v1/tasks/"+row.ID+"/commit", `{}`, http.StatusConflict, "conflict")
	if len(asked) != 4 || !asked[0] || !asked[1] || asked[2] || asked[3] {
		t.Errorf("asked %v", asked)
	}
}
