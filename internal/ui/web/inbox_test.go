package web

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

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
	for _, part := range []string{"Needs you", "Do the thing?", "gate go-ahead", "hello", "Stopped"} {
		b.shows(part)
	}
	if n := js[string](b, `document.getElementById("waiting").innerText`); n != "3" {
		t.Errorf("the head counts %q", n)
	}
	if title := js[string](b, "document.title"); title != "(3) Inbox · Plait" {
		t.Errorf("the title is %q", title)
	}
	if open := js[int](b, `document.querySelectorAll(".asked details[open]").length`); open != 0 {
		t.Errorf("%d details are open", open)
	}
	// The chat is answered in the inbox.
	b.visit("/?at=" + chat.ID)
	b.shows("I am here.")
	b.do(chromedp.SetValue(chromedp.CSS(".detail textarea"), "and now?"),
		chromedp.Click(chromedp.CSS(".detail button.yes")))
	eventually(t, "the second answer", func() error {
		if got := h.thread(chat.ID); got.Steps < 3 || got.Status != store.Blocked {
			return fmt.Errorf("%d steps, %s", got.Steps, got.Status)
		}
		return nil
	})
	// A resume that fails is not reported as a success. On a slow machine the task may still be running when it is reported.
	b.visit("/?at=" + stuck.ID)
	b.do(chromedp.Click(chromedp.CSS(".detail button.yes")))
	eventually(t, "what became of it", func() error {
		if got := js[string](b, `document.getElementById("notice").innerText`); !strings.Contains(got, "nobody plays work") &&
			got == "" {
			return fmt.Errorf("after a resume that failed again it says %q", got)
		}
		return nil
	})
	b.visit("/?at=" + h.gate(row.ID).ID)
	b.do(chromedp.Click(chromedp.CSS("#gate-" + h.gate(row.ID).ID + " button.no")))
	h.ends(row.ID, store.Failed)
	b.visit("/answers")
	for _, part := range []string{"denied", "approved", "ann, via web", "bob, via cli", "“80”", "do it"} {
		b.shows(part)
	}
}

// TestDismiss dismisses a task that has stopped: it leaves the inbox, and its counts, until it stops once more.
func TestDismiss(t *testing.T) {
	h := newHouse(t, map[string]scripted{"plan": say(`{"$status":"ready","what":"the thing"}`)})
	asks := h.run(gated, "do it")
	delete(h.agents, "plan")
	row := h.run(gated, "nobody can")
	s := h.open("")
	inbox := func() string { return s.get("/").body }
	if page := inbox(); !strings.Contains(page, "(2) Inbox") || !strings.Contains(page, `data-key="i`+row.ID) ||
		!strings.Contains(page, `name="tasks" value="`+row.ID+`"`) {
		t.Errorf("the inbox before:\n%s", page)
	}
	if res := s.post("/api/v1/dismiss", `{"tasks":"`+asks.ID+`"}`); res.code != http.StatusBadRequest {
		t.Errorf("a task with a question: %d %s", res.code, res.body)
	}
	for range 2 {
		s.asks("/api/v1/dismiss", `{"tasks":"`+row.ID+`"}`)
	}
	if page := inbox(); !strings.Contains(page, "(1) Inbox") || strings.Contains(page, `data-key="i`+row.ID) {
		t.Errorf("the inbox after:\n%s", page)
	}
	if v := s.data("/api/v1/tasks/" + row.ID).(map[string]any); v["dismissed"] != true {
		t.Errorf("it is %v", v["dismissed"])
	}
	if _, err := h.controller().Drive(t.Context(), row.ID, resume); err != nil {
		t.Fatal(err)
	}
	if page := inbox(); !strings.Contains(page, `data-key="i`+row.ID) {
		t.Error("it stopped once more, and the inbox does not say so")
	}
	lost := h.begin(gated, "interrupted")
	was := lost.State()
	lost.Status = store.Running
	if err := h.store.Commit(t.Context(), store.Batch{Threads: []store.ThreadChange{{Row: lost, From: was}}}); err != nil {
		t.Fatal(err)
	}
	both := lost.ID + " " + row.ID
	if page := inbox(); !strings.Contains(page, `name="tasks" value="`+both+`"`) {
		t.Errorf("not all that stopped can be dismissed:\n%s", page)
	}
	s.asks("/api/v1/dismiss", `{"tasks":"`+both+`"}`)
	if page := inbox(); strings.Contains(page, ">Stopped") {
		t.Errorf("dismissed, and still there:\n%s", page)
	}
	button := func(id string) bool { return strings.Contains(s.get("/tasks/"+id).body, `class="dismiss"`) }
	gone, stays := h.begin(gated, "cancelled"), h.run(gated, "nobody can")
	if _, err := h.controller().Cancel(t.Context(), gone.ID); err != nil {
		t.Fatal(err)
	}
	if button(gone.ID) || !button(stays.ID) {
		t.Error("a cancelled task can be dismissed, or one that has stopped cannot")
	}
}

// TestInboxKeys chooses and answers with keys: one counts only if all was seen for a second, and can be taken back.
func TestInboxKeys(t *testing.T) {
	h := newHouse(t, gatedAgents())
	first, second := h.run(gated, "the first"), h.run(gated, "the second")
	b := h.open("").browse()
	b.visit("/")
	js[int](b, `performance.now = () => 0, 1`) // time stands still
	b.do(chromedp.KeyEvent("a"))
	eventually(t, "a refusal", func() error {
		if got := js[string](b, `document.getElementById("notice").innerText`); got == "" {
			return fmt.Errorf("it says nothing")
		}
		return nil
	})
	for _, row := range []store.Thread{first, second} {
		if g := h.gate(row.ID); g.State != store.GateOpen {
			t.Fatalf("a key that came at once made it %s", g.State)
		}
	}
	b.visit("/")
	b.do(chromedp.KeyEvent("j"))
	eventually(t, "the second", func() error {
		if at := js[string](b, `location.search + " " + document.querySelector(".detail .asked").id`); at !=
			"?at="+h.gate(second.ID).ID+" gate-"+h.gate(second.ID).ID {
			return fmt.Errorf("at %s", at)
		}
		return nil
	})
	press := func(key, part string) { // as soon as it counts
		t.Helper()
		eventually(t, "the answer", func() error {
			b.do(chromedp.KeyEvent(key))
			if got := js[string](b, `document.getElementById("notice").innerText`); !strings.Contains(got, part) {
				return fmt.Errorf("it says %q", got)
			}
			return nil
		})
	}
	press("d", "Deny. Sent in five seconds.")
	b.do(chromedp.Click(chromedp.CSS("#notice button")))
	if g := h.gate(second.ID); g.State != store.GateOpen {
		t.Fatalf("taken back, it is %s", g.State)
	}
	js[int](b, `(() => { const wait = setTimeout; window.setTimeout = (f, ms, ...a) => ms === 5000 ? 0 : wait(f, ms, ...a); return 1; })()`)
	asked := map[string]string{first.ID: h.gate(first.ID).ID, second.ID: h.gate(second.ID).ID}
	choose := func(row store.Thread) {
		t.Helper()
		js[string](b, fmt.Sprintf(`(document.querySelector('.listing a[href="/?at=%s"]').click(), "")`, asked[row.ID]))
		b.waits(fmt.Sprintf(`document.getElementById("gate-%s") !== null`, asked[row.ID]))
	}
	approved := func(row store.Thread) {
		t.Helper()
		eventually(t, "the approval", func() error {
			g, err := h.store.Gate(t.Context(), asked[row.ID])
			if err == nil && g.State != store.GateApproved {
				err = fmt.Errorf("it is %s", g.State)
			}
			return err
		})
	}
	const held = `document.getElementById("held").innerText`
	press("a", "Approve. Sent in five seconds.")
	choose(first)
	choose(second)
	press("d", "Deny. Sent in five seconds.") // in place of the other
	b.do(chromedp.KeyEvent("\x1b"))
	b.waits(held + ` === ""`)
	if g := h.gate(second.ID); g.ID != asked[second.ID] {
		t.Fatal("an answer that was replaced was sent")
	}
	press("a", "Approve. Sent in five seconds.")
	choose(first)
	press("d", "Deny. Sent in five seconds.") // sends the other, whose outcome does not take its place
	approved(second)
	b.waits(`document.getElementById("told").innerText.includes("Approved")`)
	if got := js[string](b, held); !strings.Contains(got, "Deny. Sent in five seconds.") {
		t.Errorf("what is held reads %q", got)
	}
	b.do(chromedp.KeyEvent("\x1b"))
	press("a", "Approve. Sent in five seconds.")
	b.visit("/tasks") // it is sent when the page is left
	approved(first)
}

// TestInboxCost says what was spent today, by tasks that began at any time.
func TestInboxCost(t *testing.T) {
	h := newHouse(t, gatedAgents())
	row, now := h.run(gated, "do it"), time.Now()
	var b store.Batch
	for n, at := range []time.Time{now, now.AddDate(0, 0, -2)} {
		b.Attempts = append(b.Attempts, store.AttemptChange{Row: store.Attempt{ID: fmt.Sprint(row.ID, ".", 8+n), Thread: row.ID,
			N: 8 + n, Role: "plan", Instance: "plan", Status: store.AttemptDone, StartedAt: at.UnixMilli(),
			EndedAt: at.UnixMilli(), Usage: store.Usage{InputTokens: 1, CostMicroUSD: 1_500_000 + int64(n)*5_000_000}}})
	}
	if err := h.store.Commit(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if page := h.open("").get("/").body; !strings.Contains(page, "$1.50 today") {
		t.Error(page)
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
