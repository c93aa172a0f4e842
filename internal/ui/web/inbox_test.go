package web

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/record/store"
)

// TestInbox checks that what needs a person is counted and can be answered there, and that answers are listed.
func TestInbox(t *testing.T) {
	h := newHouse(t, gatedAgents())
	row, stuck, chat := h.run(gated, "do it"), h.run(gated, "nobody can"), h.chat("hello")
	fails := h.gate(stuck.ID)
	delete(h.agents, "work")
	if _, err := h.controller().Gates().Answer(t.Context(), fails.ID,
		gate.Answer{Approve: true, By: "bob", Via: store.ViaCLI}); err != nil {
		t.Fatal(err)
	}
	if _, err := h.controller().Drive(t.Context(), stuck.ID, resume); err != nil {
		t.Fatal(err)
	}
	if _, err := h.controller().Gates().Answer(t.Context(), h.gate(stuck.ID).ID, words("80")); err != nil {
		t.Fatal(err)
	}
	if now, err := h.controller().Drive(t.Context(), stuck.ID, resume); err != nil || now.Status != store.Blocked {
		t.Fatalf("%s, %v", now.Status, err)
	}
	b := h.open("").browse()
	b.visit("/")
	for _, part := range []string{"3 things need you.", "Do the thing?", "gate go-ahead", "Your turn", "I am here.",
		"Stopped"} {
		b.shows(part)
	}
	if n := js[string](b, `document.getElementById("waiting").innerText`); n != "3" {
		t.Errorf("the head counts %q", n)
	}
	if open := js[int](b, `document.querySelectorAll(".asked details[open]").length`); open != 0 {
		t.Errorf("%d details are open", open)
	}
	// The chat is answered in the inbox.
	b.do(chromedp.SetValue(chromedp.CSS(`[data-key="c`+chat.ID+`"] textarea`), "and now?"),
		chromedp.Click(chromedp.CSS(`[data-key="c`+chat.ID+`"] button.yes`)))
	eventually(t, "the second answer", func() error {
		if got := h.thread(chat.ID); got.Steps < 3 || got.Status != store.Blocked {
			return fmt.Errorf("%d steps, %s", got.Steps, got.Status)
		}
		return nil
	})
	// A resume that fails is not reported as a success. On a slow machine the task may still be running when it is reported.
	b.do(chromedp.Click(chromedp.CSS(`[data-key="s` + stuck.ID + `"] button`)))
	eventually(t, "what became of it", func() error {
		if got := js[string](b, `document.getElementById("notice").innerText`); !strings.Contains(got, "nobody plays work") &&
			!strings.Contains(got, "Resumed. The task is running.") {
			return fmt.Errorf("after a resume that failed again it says %q", got)
		}
		return nil
	})
	b.do(chromedp.Click(chromedp.CSS("#gate-" + h.gate(row.ID).ID + " button.no")))
	h.ends(row.ID, store.Failed)
	b.visit("/answers")
	for _, part := range []string{"denied", "approved", "ann, via web", "bob, via cli", "“80”", "do it"} {
		b.shows(part)
	}
}

// TestPagesOfTasks pages through a list of tasks in the API and on the page.
func TestPagesOfTasks(t *testing.T) {
	h := newHouse(t, gatedAgents())
	var want []string
	for i := range 7 {
		want = append([]string{h.run(gated, fmt.Sprintf("task %d", i)).ID}, want...)
	}
	h.chat("something else")
	s := h.open("")
	var got []string
	for at := "?n=3&flow=gated"; at != ""; {
		v := s.data("/api/v1/tasks" + at).(map[string]any)
		list := v["tasks"].([]any)
		if len(list) > 3 {
			t.Fatalf("%d tasks on a page of 3", len(list))
		}
		for _, one := range list {
			got = append(got, one.(map[string]any)["id"].(string))
		}
		at = ""
		if next := v["next"].(string); next != "" {
			at = "?n=3&flow=gated&before=" + next
		}
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("the pages have %v, want %v", got, want)
	}
	for path, n := range map[string]int{
		"/tasks?n=3": 3, "/tasks": 8, "/tasks?flow=chat": 1, "/tasks?state=needs+you": 8, "/tasks?state=done": 0,
		"/tasks?q=task+1":          1,
		"/tasks?before=" + want[2]: 4, "/tasks?after=" + want[2] + "&limit=2": 2,
	} {
		res := s.get(path)
		if got := strings.Count(res.body, "<tr data-row"); res.code != http.StatusOK || got != n {
			t.Errorf("%s (%d) has %d tasks, want %d", path, res.code, got, n)
		}
	}
	if res := s.get("/tasks?state=completed"); res.code != http.StatusOK { // an older state name
		t.Errorf("%d", res.code)
	}
	for _, path := range []string{"?state=maybe", "?n=0", "?n=x", "?before=x"} {
		if res := s.get("/api/v1/tasks" + path); res.code != http.StatusBadRequest {
			t.Errorf("%s: %d", path, res.code)
		}
	}

}
