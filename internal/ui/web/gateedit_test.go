package web

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/record/store"
)

// TestApprovedWithAnotherInput edits an agent's requested action before approving it, on the page and in the API.
func TestApprovedWithAnotherInput(t *testing.T) {
	const hostile = `</textarea><script>alert(1)</script>`
	h := newHouse(t, map[string]scripted{"work": func(ctx context.Context, req agent.Request,
		_ func(agent.Event) error) (agent.Result, error) {
		input, err := json.Marshal(map[string]any{"command": "echo " + hostile})
		if err != nil {
			return agent.Result{}, err
		}
		ans, err := req.Ask(ctx, agent.Question{Text: "May I?", Editable: true,
			Action: agent.Action{Type: "command", Command: "echo " + hostile, Params: input}})
		if ctx.Err() != nil {
			return agent.Result{}, &agent.Failure{Kind: agent.Interrupted, Message: "stopped"}
		}
		if err != nil || !ans.Approved || ans.Edited == nil {
			return agent.Result{Output: []byte("---\n$status: done\n---\nNothing ran.")}, err
		}
		return agent.Result{Output: []byte("---\n$status: done\n---\nIt ran " + ans.Edited.Command + ".")}, nil
	}})
	row := h.run(chatty, "do it")
	g := h.gate(row.ID)
	s := h.open("")
	for _, page := range []string{"/", "/tasks/" + row.ID} {
		body := s.get(page).body
		if !strings.Contains(body, "Approve this instead") || strings.Contains(body, hostile) {
			t.Errorf("%s: it can be changed: %t; the command is escaped: %t", page,
				strings.Contains(body, "Approve this instead"),
				!strings.Contains(body, hostile))
		}
	}
	for _, input := range []string{`"{"`, `"[]"`, `"{\"command\":\"\"}"`, `{"command":"ls"}`} {
		if res := s.post("/api/v1/gates/"+g.ID+"/approve", `{"input":`+input+`}`); res.code != http.StatusBadRequest {
			t.Errorf("input %s: %d %s", input, res.code, res.body)
		}
	}
	if res := s.post("/api/v1/gates/"+g.ID+"/deny", `{"input":"{}"}`); res.code != http.StatusBadRequest {
		t.Errorf("a denial with an input: %d %s", res.code, res.body)
	}
	res := s.post("/api/v1/gates/"+g.ID+"/approve", `{"input":"{\"command\":\"ls\"}"}`)
	if res.code != http.StatusOK || !strings.Contains(res.body, "Approved, with your input.") {
		t.Fatalf("%d %s", res.code, res.body)
	}
	h.ends(row.ID, store.Completed)
	kept, err := h.store.Gate(t.Context(), g.ID)
	if err != nil || kept.EditedDigest.IsZero() || !strings.Contains(string(kept.Edited), `"command":"ls"`) {
		t.Errorf("the gate: %+v, %v", kept, err)
	}
	if body := s.get("/tasks/" + row.ID).body; !strings.Contains(body, "It ran ls.") {
		t.Error("the agent did not do what was approved")
	}
	if body := s.get("/answers").body; !strings.Contains(body, "approved with another input") ||
		strings.Contains(body, hostile) {
		t.Error("the answers do not say what was approved")
	}
}
