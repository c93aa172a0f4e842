package web

import (
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// TestSearch finds a step by its words, on the page and by the API, and leads to the place where they are.
func TestSearch(t *testing.T) {
	h := newHouse(t, gatedAgents())
	row := h.run(gated, "find <i>zanzibar</i>")
	s := h.open("")
	page := s.get("/search?q=zanzibar").body
	for _, text := range []string{`href="/tasks/` + row.ID + `"`, "<mark>zanzibar</mark>", "&lt;i&gt;"} {
		if !strings.Contains(page, text) {
			t.Errorf("the page does not have %q: %s", text, page)
		}
	}
	if strings.Contains(page, "<i>") {
		t.Error("markup of a prompt is markup of the page")
	}
	if got := s.get("/api/v1/search?q=zanzibar&limit=5").body; !strings.Contains(got, `"found":"title"`) ||
		!strings.Contains(got, `"complete":true`) || !strings.Contains(got, `"matches":[[8,16]]`) {
		t.Error(got)
	}
	if page := s.get("/search").body; !strings.Contains(page, "since:7d") {
		t.Error("the empty page does not say what can be typed")
	}
	if page := s.get("/nothing").body; !strings.Contains(page, `action="/search" method="get"><input type="text"`) {
		t.Error("where there is nothing, nothing can be searched for")
	}
	if page := s.get("/search?q=kilimanjaro").body; !strings.Contains(page, "Nothing was found in this workspace") {
		t.Error(page)
	}
	for _, path := range []string{"/search?q=state:lost+x", "/api/v1/search?q=state:lost+x", "/api/v1/search",
		"/api/v1/search?q=a&limit=101"} {
		if res := s.get(path); res.code != http.StatusBadRequest {
			t.Errorf("%s: %d", path, res.code)
		}
	}
	if page := s.get("/search?q=state:lost+x").body; !strings.Contains(page, "state:lost: use queued") {
		t.Error("the page does not say what is wrong with a filter")
	}
}

// TestSearchKeys searches with the keyboard alone: by the field of the head, and by the palette.
func TestSearchKeys(t *testing.T) {
	h := newHouse(t, gatedAgents())
	row := h.run(gated, "find zanzibar")
	b := h.open("").browse()
	found := `location.pathname + location.search === "/search?q=zanzibar" && ` +
		`document.querySelector("main .hits a").pathname === "/tasks/` + row.ID + `"`
	b.visit("/flows")
	b.do(chromedp.KeyEvent("/"))
	b.becomes(`document.activeElement.type === "search"`)
	b.do(chromedp.Evaluate[chromedp.Void](`document.activeElement.value = ""`)) // only a person's slash is not typed, too
	b.do(chromedp.KeyEvent("zanzibar\r"))
	b.becomes(found)
	b.visit("/flows")
	b.do(chromedp.KeyEvent("k", chromedp.KeyModifiers(chromedp.ModifierCtrl)))
	b.becomes(`document.getElementById("palette").open`)
	b.do(chromedp.KeyEvent("zanzibar"))
	const titles = `[...document.querySelectorAll("#palette li")].map((l) => l.firstChild.textContent).join()`
	b.becomes(titles + `.startsWith("find zanzibar") && ` + titles + `.endsWith("Search for zanzibar")`)
	b.do(chromedp.KeyEvent(kb.ArrowUp), chromedp.KeyEvent("\r"))
	b.becomes(found)
}
