package web

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/store"
)

// TestChoice checks that pressing an option gives that answer, whatever was typed next to it.
func TestChoice(t *testing.T) {
	h := newHouse(t, gatedAgents())
	g := h.gate(h.run(asking, "a port").ID)
	b := h.open("").browse()
	b.visit("/")
	b.do(chromedp.SetValue(chromedp.CSS("section input[name=text]"), "written"),
		chromedp.Click(chromedp.CSS(`section button[value="80"]`)))
	eventually(t, "the answer", func() error {
		got, err := h.store.Gate(t.Context(), g.ID)
		if err != nil || got.State != store.GateAnswered || got.Text != "80" {
			return fmt.Errorf("%s %q: %v", got.State, got.Text, err)
		}
		return nil
	})
}

// TestSentOnce checks that a form submitted twice in a row is sent once.
func TestSentOnce(t *testing.T) {
	h := newHouse(t, gatedAgents())
	b := h.open("").browse()
	b.visit("/chats")
	b.do(chromedp.Evaluate[chromedp.Void](`(() => { const f = document.querySelector("main form[data-api]"); f.elements.prompt.value = "hello"; f.requestSubmit(); f.requestSubmit(); })()`))
	b.shows("I am here.")
	rows, err := h.store.Threads(t.Context(), store.ThreadFilter{Kind: store.KindRoot})
	if err != nil || len(rows) != 1 || rows[0].Flow != flow.ChatFlow {
		t.Errorf("%d tasks were begun: %v", len(rows), err)
	}
}

// TestDraft checks that typed text is restored when its form is shown again.
func TestDraft(t *testing.T) {
	h := newHouse(t, gatedAgents())
	row := h.chat("hello")
	b := h.open("").browse()
	b.visit("/chats/" + row.ID)
	b.shows("live")
	b.do(chromedp.Focus(chromedp.CSS("#say textarea")), chromedp.SetValue(chromedp.CSS("#say textarea"), "half a thought"))
	js[bool](b, `document.activeElement.setSelectionRange(2, 5) === undefined`)
	goesOn := func() {
		t.Helper()
		if at := js[string](b, `(() => { const on = document.activeElement; return on.matches("#say textarea") ? on.selectionStart + " " + on.selectionEnd : on.nodeName; })()`); at != "2 5" {
			t.Errorf("who writes is at %s", at)
		}
	}
	lease, err := h.store.Acquire(t.Context(), row.ID)
	if err != nil {
		t.Fatal(err)
	}
	h.emit(row, 1, "task.updated")
	b.shows("Running in another process.")
	goesOn()
	lease.Release()
	h.emit(row, 1, "task.updated")
	b.waits(`document.querySelector("main").innerText.includes("End this conversation")`)
	goesOn()
	if got := js[string](b, `document.querySelector("#say textarea").value`); got != "half a thought" {
		t.Errorf("what was written is %q now", got)
	}
	b.do(chromedp.Click(chromedp.CSS("#say button.yes")))
	eventually(t, "the answer", func() error {
		if got := h.thread(row.ID); got.Steps < 3 || got.Status != store.Blocked {
			return fmt.Errorf("%d steps, %s", got.Steps, got.Status)
		}
		return nil
	})
	b.do(chromedp.WaitVisible(chromedp.CSS("#say textarea")))
	eventually(t, "an empty form", func() error { // the response may arrive after the agent's answer
		if got := js[string](b, `document.querySelector("#say textarea").value`); got != "" {
			return fmt.Errorf("what was sent is there again: %q", got)
		}
		return nil
	})
}

// TestUnseen checks that a hidden page closes its stream, and is brought up to date once it
// is visible again.
func TestUnseen(t *testing.T) {
	h := newHouse(t, gatedAgents())
	row := h.run(asking, "look away")
	b := h.open("").browse()
	b.visit("/tasks/" + row.ID)
	b.shows("live")
	see := func(hidden bool) {
		js[bool](b, fmt.Sprintf(`Object.defineProperty(document, "hidden", {value: %v, configurable: true}); document.dispatchEvent(new Event("visibilitychange"))`, hidden))
	}
	js[int](b, `(() => { const close = EventSource.prototype.close; window.shut = 0; EventSource.prototype.close = function () { window.shut++; close.call(this); }; return 0; })()`)
	see(true)
	if n := js[int](b, "window.shut"); n != 1 {
		t.Errorf("%d streams were let go", n)
	}
	if _, err := h.controller().Gates().Answer(t.Context(), h.gate(row.ID).ID, words("80")); err != nil {
		t.Fatal(err)
	}
	if _, err := h.controller().Drive(t.Context(), row.ID, resume); err != nil {
		t.Fatal(err)
	}
	see(false)
	b.shows("Result")
	h.emit(row, 1, "task.updated")
	b.shows("live")
}

// again has a page asked for once more, and waits until it is drawn.
func (b *browser) again() {
	b.t.Helper()
	js[bool](b, `performance.clearMeasures() === undefined && document.dispatchEvent(new Event("plait:again"))`)
	b.waits(`performance.getEntriesByName("plait-update").length > 0`)
}

// TestFocusStays draws a page on which a row above the focus is gone.
func TestFocusStays(t *testing.T) {
	h := newHouse(t, gatedAgents())
	h.run(asking, "one")
	h.run(asking, "two")
	b := h.open("").browse()
	b.visit("/tasks")
	js[bool](b, `(() => { const rows = document.querySelectorAll("tr[data-row]"), to = document.cloneNode(true);
		to.querySelector("tr[data-row]").remove();
		window.fetch = async () => new Response(to.documentElement.outerHTML);
		window.box = rows[1].querySelector("input");
		box.focus();
		return true; })()`)
	b.again()
	if n := js[int](b, `document.querySelectorAll("tr[data-row]").length`); n != 1 || !js[bool](b, "document.activeElement === box") {
		t.Errorf("%d rows, and the focus is at %s", n, js[string](b, "document.activeElement.nodeName"))
	}
}

// TestCommentIsNoHint writes about a line: other forms that are sent to the same address do not have the words.
func TestCommentIsNoHint(t *testing.T) {
	h := newHouse(t, map[string]scripted{})
	row := h.rewrites(map[string]string{"a.txt": "one\n"}, map[string]string{"a.txt": "two\n"}, "failed")
	b := h.open("").browse()
	b.visit("/tasks/" + row.ID + "?tab=changes")
	js[string](b, `(document.querySelector('td.add a[data-line="1"]').click(), "")`)
	b.waits(`document.activeElement.matches(".writing textarea")`)
	js[string](b, `document.activeElement.value = "Why?"`)
	b.again()
	if got := js[string](b, `document.querySelector("[data-key=retry] textarea").value`); got != "" {
		t.Errorf("the hint is %q", got)
	}
	if got := js[string](b, `document.activeElement.value`); got != "Why?" {
		t.Errorf("the comment is %q", got)
	}
}

// TestLargePrompt starts a task with more text than a request has that outlives its page.
func TestLargePrompt(t *testing.T) {
	b := newHouse(t, gatedAgents()).open("").browse()
	b.visit("/new")
	js[string](b, `(document.querySelector("#new [name=prompt]").value = "x".repeat(100000), document.querySelector("#new button.yes").click(), "")`)
	if at := b.leaves("/new"); len(at) != len("/tasks/")+26 {
		t.Errorf("it leads to %s", at)
	}
}

// TestHelp checks that the keys are listed, and have no effect while the list is open.
func TestHelp(t *testing.T) {
	b := newHouse(t, gatedAgents()).open("").browse()
	b.visit("/flows")
	b.do(chromedp.KeyEvent("?"), chromedp.WaitVisible(chromedp.CSS("#keys")), chromedp.KeyEvent("g"),
		chromedp.KeyEvent("t"))
	if at := js[string](b, "location.pathname"); at != "/flows" {
		t.Errorf("keys led to %s", at)
	}
	b.do(chromedp.KeyEvent("\x1b"))
	eventually(t, "the end of the list", func() error {
		if js[bool](b, `document.getElementById("keys").open`) {
			return fmt.Errorf("it is open")
		}
		return nil
	})
	b.do(chromedp.Click(chromedp.CSS("#help")), chromedp.WaitVisible(chromedp.CSS("#keys")))
}
