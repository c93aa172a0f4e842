package web

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/plait-run/plait/internal/record/store"
)

// TestManyTasks cancels, dismisses and removes chosen tasks with the form that works without scripts.
func TestManyTasks(t *testing.T) {
	h := newHouse(t, gatedAgents())
	first, second := h.run(gated, "the first"), h.run(gated, "the second")
	s := h.open("")
	form := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}, "Accept": {"text/html"}}
	send := func(want int, values url.Values) response {
		t.Helper()
		res := s.do(http.MethodPost, "/tasks?flow=gated", form, []byte(values.Encode()))
		if res.code != want {
			t.Errorf("%v: %d, want %d", values, res.code, want)
		}
		return res
	}
	both := []string{first.ID, second.ID}
	send(400, url.Values{"task": both})
	send(400, url.Values{"task": both, "do": {"keep"}})
	send(400, url.Values{"task": both, "do": {"cancel", "remove"}})
	send(400, url.Values{"task": both, "do": {"cancel"}, "other": {"x"}})
	send(400, url.Values{"task": {"x"}, "do": {"cancel"}})
	send(404, url.Values{"task": {"01JD0000000000000000000000"}, "do": {"cancel"}})
	if res := s.do(http.MethodPost, "/tasks", http.Header{"Content-Type": {"text/plain"}}, []byte("do=cancel")); res.code != 415 {
		t.Errorf("plain text: %d", res.code)
	}
	form.Set("Origin", "null")
	send(403, url.Values{"task": both, "do": {"cancel"}})
	form.Del("Origin")
	if body := send(409, url.Values{"task": both[:1], "do": {"dismiss"}}).body; !strings.Contains(body, "Could not dismiss 1 task") {
		t.Error("it does not say why a waiting task was not dismissed")
	}
	if res := send(200, url.Values{"task": both, "do": {"cancel"}}); res.at.RequestURI() != "/tasks?flow=gated" ||
		!strings.Contains(res.body, "<h1>Tasks</h1>") {
		t.Errorf("it leads to %s", res.at)
	}
	for _, id := range both {
		h.ends(id, store.Cancelled)
	}
	asked := send(200, url.Values{"task": both, "do": {"remove"}}).body
	if !strings.Contains(asked, "Remove 2 tasks?") || !strings.Contains(asked, `action="/tasks?flow=gated"`) {
		t.Errorf("it asks\n%s", asked)
	}
	send(200, url.Values{"task": both[:1], "do": {"remove"}, "sure": {"true"}})
	body := s.get("/tasks").body
	if strings.Contains(body, first.ID) || !strings.Contains(body, second.ID) {
		t.Errorf("the list after:\n%s", body)
	}
}

// TestTasksInOrder sorts the list, whose order is in the address, and chooses all of it in a browser.
func TestTasksInOrder(t *testing.T) {
	h := newHouse(t, gatedAgents())
	for _, title := range []string{"b", "c", "a"} {
		h.run(gated, title)
	}
	s := h.open("")
	title := regexp.MustCompile(`href="/tasks/\w+">(\w)<`)
	for sort, want := range map[string]string{"": "acb", "-began": "bca", "title": "abc", "-title": "cba", "state": "acb"} {
		got := ""
		for _, m := range title.FindAllStringSubmatch(s.get("/tasks?flow=gated&sort="+sort).body, -1) {
			got += m[1]
		}
		if got != want {
			t.Errorf("by %q: %s, want %s", sort, got, want)
		}
	}
	if res := s.get("/tasks?sort=size"); res.code != http.StatusBadRequest {
		t.Errorf("%d", res.code)
	}
	now := time.Date(2026, 3, 2, 1, 0, 0, 0, time.UTC)
	for hours, want := range map[int]string{0: "Today", 2: "Yesterday", 26: "Saturday, February 28", 24 * 90: "Tuesday, December 2, 2025"} {
		if got := dayOf(now.Add(time.Duration(-hours)*time.Hour), now); got != want {
			t.Errorf("%d hours before: %s", hours, got)
		}
	}
	b := s.browse()
	b.visit("/tasks")
	js[string](b, `(document.querySelector("[data-all]").click(), "")`)
	b.do(chromedp.Click(chromedp.CSS("#many button[value=remove]")))
	b.waits(`document.querySelector("h1").innerText === "Remove 3 tasks?"`)
	b.do(chromedp.Click(chromedp.CSS("main button[value=remove]")))
	b.waits(`document.querySelector("h1").innerText === "Could not remove 3 tasks" || document.querySelector(".empty") !== null`)
	if rows, err := h.store.Threads(t.Context(), store.ThreadFilter{Kind: store.KindRoot}); err != nil || len(rows) != 0 {
		t.Errorf("%d are left: %v", len(rows), err)
	}
}
