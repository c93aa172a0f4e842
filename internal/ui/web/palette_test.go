package web

import (
	"errors"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/plait-run/plait/internal/record/store"
)

// TestPalette finds a task, a flow and an action with the keyboard alone; nothing that waits for a person is
// answered by that.
func TestPalette(t *testing.T) {
	h := newHouse(t, gatedAgents())
	row := h.run(gated, "do it")
	g := h.gate(row.ID)
	b := h.open("").browse()
	open := func(page string) {
		b.visit(page)
		b.do(chromedp.KeyEvent("k", chromedp.KeyModifiers(chromedp.ModifierCtrl)))
		b.becomes(`document.getElementById("palette").open && document.activeElement.getAttribute("role") === "combobox"`)
	}
	chosen := func(text string) {
		b.becomes(`(document.querySelector("#palette [aria-selected=true]") || {innerText: ""}).innerText.includes("` + text +
			`")`)
	}
	for _, x := range []struct{ words, chosen, path string }{
		{"do it", "do it", "/tasks/" + row.ID},
		{"orchestrate", "orchestrate", "/flows/orchestrate"},
		{"new ta", "New task", "/new"},
	} {
		open("/flows")
		b.do(chromedp.KeyEvent(x.words))
		chosen(x.chosen)
		b.do(chromedp.KeyEvent("\r"))
		b.becomes(`location.pathname === "` + x.path + `"`)
	}
	open("/tasks/" + row.ID)
	for _, words := range []string{"approve", "deny"} {
		js[int](b, `document.querySelector("#palette input").value = "", 1`)
		b.do(chromedp.KeyEvent(words))
		b.becomes(`[...document.querySelectorAll("#palette li")].map((l) => l.firstChild.textContent).join() === "Search for ` +
			words + `"`)
	}
	if kept, err := h.store.Gate(t.Context(), g.ID); err != nil || kept.State != store.GateOpen {
		t.Errorf("the gate is %s, %v", kept.State, err)
	}
	js[int](b, `document.querySelector("#palette input").value = "", 1`)
	b.do(chromedp.KeyEvent("run again"))
	chosen("Run again")
	if bad := b.audit(axe(t)); len(bad) > 0 {
		t.Errorf("axe: %s", strings.Join(bad, "\n\t"))
	}
	b.do(chromedp.KeyEvent("\r"))
	b.becomes(`!document.getElementById("palette").open && document.querySelector("[data-key=again]").open`)
}

// becomes waits until an expression is true on the page.
func (b *browser) becomes(expr string) {
	b.t.Helper()
	eventually(b.t, expr, func() error {
		is, err := inTime(b, chromedp.Evaluate[bool](expr))
		if err == nil && !is {
			err = errors.New("it is not so")
		}
		return err
	})
}
