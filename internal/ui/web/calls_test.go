package web

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/testing/housetest"
)

// TestCalls shows the requests of a step's agent to its model. What either of them said is inert.
func TestCalls(t *testing.T) {
	const hostile = `</pre><script>alert(1)</script>`
	h := newHouse(t, map[string]scripted{"work": func(ctx context.Context, req agent.Request,
		emit func(agent.Event) error) (agent.Result, error) {
		for i := range 2 {
			c := &agent.Call{Method: "POST", Path: "/messages", Type: "application/json",
				Body: fmt.Appendf(nil, `{"model":"<b>m","messages":["asked %d %s"]}`, i, hostile)}
			if _, err := req.Traffic.Begin(ctx, c); err != nil {
				return agent.Result{}, err
			}
			said := fmt.Appendf(nil, "said %d %s\xff%s", i, hostile, strings.Repeat("x", i*maxExcerpt))
			req.Traffic.End(c, agent.Reply{Status: 200, Type: "text/event-stream", Body: said}, agent.Usage{InputTokens: 1234})
		}
		return housetest.Answer(req, emit, "---\n$status: done\n---\nWell.")
	}})
	def := housetest.Flow(t, chatty)
	data, err := json.Marshal(def)
	if err != nil {
		t.Fatal(err)
	}
	c := h.controller()
	row, err := c.Begin(t.Context(),
		control.Spec{Bundle: thread.Bundle{Name: def.Name, Flows: map[string]json.RawMessage{def.Name: data}},
			Prompt: "do it", Workspace: h.dir, Options: control.Options{Record: true}})
	if err != nil {
		t.Fatal(err)
	}
	if row, err = c.Drive(t.Context(), row.ID, control.Resume{}); err != nil || row.Status != store.Completed {
		t.Fatalf("%s, %v", row.Status, err)
	}
	steps, err := c.Reader().Steps(t.Context(), row.Head)
	if err != nil {
		t.Fatal(err)
	}
	step, s := "/steps/"+steps[0].Hash.String(), h.open("")
	link := `href="` + step + `/calls?thread=` + row.ID + `"`
	for _, page := range []string{step + "?thread=" + row.ID, "/tasks/" + row.ID + "?tab=log&at=" + steps[0].Hash.String()} {
		if !strings.Contains(s.get(page).body, link) {
			t.Errorf("%s does not lead to the requests", page)
		}
	}
	list := s.get(step + "/calls?thread=" + row.ID).body
	for _, want := range []string{`href="` + step + `/calls?call=2&amp;thread=` + row.ID + `"`, "&lt;b&gt;m", "1234",
		"/messages"} {
		if !strings.Contains(list, want) {
			t.Errorf("the list of requests is without %q", want)
		}
	}
	for n, cut := range []bool{false, true} {
		body := s.get(fmt.Sprintf("%s/calls?call=%d", step, n+1)).body
		for _, want := range []string{fmt.Sprintf("asked %d &lt;/pre&gt;", n), fmt.Sprintf("said %d &lt;/pre&gt;", n)} {
			if !strings.Contains(body, want) {
				t.Errorf("request %d is without %q", n+1, want)
			}
		}
		whole := fmt.Sprintf("plait thread show %s --calls %d --call %d</code>", steps[0].Hash.Short(), 1, n+1)
		if strings.Contains(body, whole) != cut {
			t.Errorf("request %d: it says how to see the rest: %t, want %t", n+1, !cut, cut)
		}
		if strings.Contains(body, "<script>alert") || strings.Contains(body, "Shortened.") != cut {
			t.Errorf("request %d: it is escaped: %t; it is cut: %t, want %t", n+1, !strings.Contains(body, "<script>alert"),
				!cut, cut)
		}
	}
	if got := s.data("/api/v1" + step + "/calls").(map[string]any)["calls"].([]any); len(got) != 2 {
		t.Errorf("the API has %v", got)
	}
	for path, code := range map[string]int{"?call=3": http.StatusNotFound, "?call=0": http.StatusBadRequest,
		"?call=x":          http.StatusBadRequest,
		"?call=1&thread=x": http.StatusBadRequest} {
		if got := s.get(step + "/calls" + path); got.code != code {
			t.Errorf("%s: %d", path, got.code)
		}
	}
	end := "/steps/" + row.Head.String() // no agent made it
	if got := s.get(end + "/calls"); got.code != http.StatusNotFound || strings.Contains(s.get(end).body, "/calls") {
		t.Errorf("a step without requests: %d", got.code)
	}
}
