package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/record/store"
)

// TestOnlyAPressApproves types words next to an approval, with every key that submits a form:
// nothing is approved or denied. Then it presses the button.
func TestOnlyAPressApproves(t *testing.T) {
	h := newHouse(t, gatedAgents())
	row := h.run(gated, "do it")
	g := h.gate(row.ID)
	b := h.open("").browse()
	posts := func() []string { return js[[]string](b, "window.posts") }
	for _, page := range []string{"/", "/tasks/" + row.ID} {
		b.visit(page)
		b.shows("Do the thing?")
		// Everything is sent by fetch, within the key event.
		js[int](b, `window.posts = [], (() => { const f = fetch; window.fetch = (...a) => { if (a[1] && a[1].method) posts.push(a[0]); return f(...a); }; })(), 1`)
		b.do(chromedp.Focus(chromedp.CSS("section [name=text]")), chromedp.KeyEvent("no, not that way\r"),
			chromedp.KeyEvent("\r", chromedp.KeyModifiers(chromedp.ModifierCtrl)),
			chromedp.KeyEvent("\r", chromedp.KeyModifiers(chromedp.ModifierMeta)))
		js[int](b, `(() => { const f = document.querySelector("section form"), at = {bubbles: true, cancelable: true};
			f.dispatchEvent(new SubmitEvent("submit", at)); f.requestSubmit();
			f.querySelector("button.yes").dispatchEvent(new MouseEvent("click", {...at, detail: 2})); })(), 1`)
		if got := posts(); len(got) > 0 {
			t.Fatalf("%s: the keys sent %v", page, got)
		}
		if at := js[string](b, "location.pathname + location.search"); at != page {
			t.Fatalf("the keys led to %s", at)
		}
		if kept, err := h.store.Gate(t.Context(), g.ID); err != nil || kept.State != store.GateOpen {
			t.Fatalf("%s: the gate is %s, %v", page, kept.State, err)
		}
	}
	b.do(chromedp.SetValue(chromedp.CSS("section [name=text]"), "this way"),
		chromedp.Focus(chromedp.CSS("section button.yes")), chromedp.KeyEvent("\r"))
	b.shows("Which port?")
	if diff := cmp.Diff([]string{"/api/v1/gates/" + g.ID + "/approve"}, posts()); diff != "" {
		t.Errorf("what was sent: -want +got\n%s", diff)
	}
	if kept, err := h.store.Gate(t.Context(), g.ID); err != nil || kept.State != store.GateApproved ||
		kept.Text != "this way" {
		t.Errorf("the gate is %s with %q, %v", kept.State, kept.Text, err)
	}
	// Enter sends the answer that was typed, not the first option.
	port := h.gate(row.ID)
	b.do(chromedp.Focus(chromedp.CSS(".strip [name=text]:not(button)")), chromedp.KeyEvent("443\r"))
	b.shows("It is done.")
	if kept, err := h.store.Gate(t.Context(), port.ID); err != nil || kept.State != store.GateAnswered ||
		kept.Text != "443" {
		t.Errorf("the question is %s with %q, %v", kept.State, kept.Text, err)
	}
	h.ends(row.ID, store.Completed)
}

// TestWordsApproveNothing resumes, with text, a task that waits for an approval.
func TestWordsApproveNothing(t *testing.T) {
	h := newHouse(t, gatedAgents())
	row := h.run(gated, "do it")
	g := h.gate(row.ID)
	s := h.open("")
	for _, words := range []string{"approve", "yes", "plait gate approve " + g.ID} {
		s.post("/api/v1/tasks/"+row.ID+"/resume", `{"text":"`+words+`"}`)
		eventually(t, "the end of the resume", func() error {
			if s.srv.work.drives(row.ID) {
				return errors.New("it is driven")
			}
			return nil
		})
		if kept, err := h.store.Gate(t.Context(), g.ID); err != nil || kept.State != store.GateOpen {
			t.Errorf("%q: the gate is %s, %v", words, kept.State, err)
		}
	}
}

// TestStopBesideWords stops and cancels a task while words for it are typed next to the buttons: they are not sent, and
// not lost.
func TestStopBesideWords(t *testing.T) {
	h := newHouse(t, map[string]scripted{
		"plan": func(ctx context.Context, _ agent.Request, _ func(agent.Event) error) (agent.Result, error) {
			<-ctx.Done()
			return agent.Result{}, ctx.Err()
		}})
	row, s := h.begin(gated, "do it"), h.open("")
	s.asks("/api/v1/tasks/"+row.ID+"/resume", `{}`)
	b := s.browse()
	b.visit("/tasks/" + row.ID)
	b.do(chromedp.Click(chromedp.CSS("[data-key=message] > summary")),
		chromedp.SetValue(chromedp.CSS("[data-key=message] [name=text]"), "and quickly"),
		chromedp.Click(chromedp.CSS("form.stop button")))
	eventually(t, "the stop", func() error {
		if s.srv.work.drives(row.ID) {
			return errors.New(js[string](b, `document.querySelector("main .said").innerText`))
		}
		return nil
	})
	b.shows("Resume")
	if kept := js[string](b, `document.querySelector("[data-key=resume] [name=text]").value`); kept != "and quickly" {
		t.Errorf("after the stop there is %q beside the buttons", kept)
	}
	b.do(chromedp.Click(chromedp.CSS("[data-key=menu] > summary")), chromedp.Click(chromedp.CSS(".menu button.no")))
	h.ends(row.ID, store.Cancelled)
}

// TestMergeIsSeenFirst approves a merge with the button: it cannot be pressed before the end of the change was on the
// screen, or a file of the list was opened, and not after another button was pressed and taken back.
func TestMergeIsSeenFirst(t *testing.T) {
	h := newHouse(t, gatedAgents())
	h.asksMore(h.run(gated, "Release"), 30)
	s := h.open("")
	approve := `<button type="button" class="yes" data-api="/api/v1/gates/g-0000000001/approve" data-key-of="a" disabled`
	if !strings.Contains(s.get("/?at=g-0000000001").body, approve) {
		t.Error("without scripts it could be pressed")
	}
	b := s.browse()
	b.do(chromedp.EmulateViewport(1024, 768))
	off := `document.querySelector("[data-key-of=a]").disabled`
	for _, see := range []string{`document.querySelector(".asked form.answer").scrollIntoView()`,
		`document.querySelectorAll(".change-list a")[7].click()`} {
		b.visit("/?at=g-0000000001")
		b.waits(off)
		js[string](b, `(document.querySelector("[data-key-of=d]").click(), "")`)
		b.waits(`document.querySelector("#notice button") !== null`)
		js[string](b, `(document.querySelector("#notice button").click(), "")`)
		b.waits(`!document.querySelector("[data-key-of=d]").disabled`)
		if !js[bool](b, off) {
			t.Error("a press of Deny, taken back, lets it be approved")
		}
		js[string](b, `(`+see+`, "")`)
		b.waits("!" + off)
		js[int](b, `document.querySelector("[data-key-of=a]").mark = 1`)
		b.again()
		if !js[bool](b, `document.querySelector("[data-key-of=a]").mark === 1`) {
			t.Error("a button that can be pressed is another one after the page was drawn")
		}
	}
}

// TestLongChangeIsSeen asks to approve changes whose lines come when they are wanted: without them the end is not seen.
func TestLongChangeIsSeen(t *testing.T) {
	h := newHouse(t, gatedAgents())
	row := h.run(gated, "Release")
	asks := func(id string, files int) {
		patch := ""
		for i := range files {
			patch += fmt.Sprintf("--- /dev/null\n+++ b/f%d.txt\n@@ -0,0 +1,400 @@\n", i) + strings.Repeat("+a line\n", 400)
		}
		action, err := json.Marshal(gate.Action{Type: gate.Merging, Diff: patch, Params: json.RawMessage(`{"sides":[]}`)})
		if err != nil {
			t.Fatal(err)
		}
		g := store.Gate{ID: id, Kind: store.GateApproval, State: store.GateOpen, Source: store.SourceMerge, Task: row.Task,
			Thread: row.ID, Node: "plan", From: row.Head, Action: action, Options: []string{"approve", "deny"},
			OpenedAt: time.Now().UnixMilli(), Grant: store.GrantOnce}
		if g.Digest, err = gate.Digest(row.ID, action); err != nil {
			t.Fatal(err)
		}
		if err := h.store.Commit(t.Context(), store.Batch{Gates: []store.GateChange{{Row: g}}}); err != nil {
			t.Fatal(err)
		}
	}
	asks("g-0000000001", 1)
	asks("g-0000000002", 2)
	b := h.open("").browse()
	off := `document.querySelector("[data-key-of=a]").disabled`
	for id, open := range map[string]int{"g-0000000001": 1, "g-0000000002": 0} {
		if n := strings.Count(b.get("/?at="+id).body, "<details open><summary><span"); n != open {
			t.Errorf("%s: %d files are open, want %d", id, n, open)
		}
		b.visit("/?at=" + id)
		b.waits(`document.querySelector(".asked form.answer") !== null`)
		time.Sleep(time.Second) // it is looked at several times
		if !js[bool](b, off) {
			t.Errorf("%s can be approved before its lines were seen", id)
		}
		js[string](b, `(document.querySelectorAll(".asked .file > details").forEach((d) => { d.open = true; }), "")`)
		b.waits(`document.querySelector(".asked [data-load]") === null`)
		js[string](b, `(document.querySelector(".asked form.answer").scrollIntoView(), "")`)
		b.waits("!" + off)
	}
}
