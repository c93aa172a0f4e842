package web

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	cdpage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/plait-run/plait/internal/view/taskdir"
)

// A browser is a Chromium tab logged in to a site, with a log of what went wrong in it.
type browser struct {
	*site
	ctx context.Context

	mu   sync.Mutex
	said []string // dialogs, requests to other hosts, policy violations
}

// chromium is started by the first test that needs it: a start takes longer than most tests. TestMain closes it.
var chromium struct {
	mu  sync.Mutex
	ctx context.Context // of its first, empty tab; nil: it was not started
	end []func()
}

// startChromium starts Chromium if it does not run.
func startChromium(path string) error {
	chromium.mu.Lock()
	defer chromium.mu.Unlock()
	if chromium.ctx != nil {
		return nil
	}
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox,
		chromedp.DisableGPU, chromedp.WindowSize(1440, 900))
	all, end := chromedp.NewExecAllocator(context.Background(), opts...)
	ctx, shut := chromedp.NewContext(all, chromedp.WithErrorf(func(string, ...any) {})) // errors about unknown events
	chromium.end = []func(){func() { chromedp.Cancel(ctx) }, shut, end}
	if err := chromedp.Do(ctx); err != nil {
		closeChromium()
		return err
	}
	chromium.ctx = ctx
	return nil
}

func closeChromium() {
	for _, f := range chromium.end {
		f()
	}
}

// browse opens a tab of Chromium that shares no cookie and nothing kept with that of another test. Without Chromium the
// test is skipped, except in CI, where it fails.
func (s *site) browse() *browser {
	s.t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		if os.Getenv("CI") == "true" {
			s.t.Fatal("there is no chromium: make setup")
		}
		s.t.Skip("NOT TESTED: there is no chromium: make setup")
	}
	if err := startChromium(path); err != nil {
		s.t.Fatal(err)
	}
	ctx, shut := chromedp.NewContext(chromium.ctx, chromedp.WithNewBrowserContext())
	s.t.Cleanup(func() { chromedp.Cancel(ctx); shut() })
	ctx, late := context.WithTimeout(ctx, 12*patience)
	s.t.Cleanup(late)
	b := &browser{site: s, ctx: ctx}
	if err := chromedp.Do(ctx, chromedp.Navigate("about:blank")); err != nil { // the tab lives as long as this context
		s.t.Fatal(err)
	}
	if err := chromedp.Listen(ctx, func(ev any) {
		switch ev := ev.(type) {
		case *cdpage.EventJavascriptDialogOpening:
			b.note("dialog: " + ev.Message)
			go chromedp.Call(ctx, cdpage.HandleJavaScriptDialog, cdpage.HandleJavaScriptDialogParams{})
		case *network.EventRequestWillBeSent:
			if !strings.HasPrefix(ev.Request.URL, "http://"+s.host+"/") {
				b.note("request: " + ev.Request.URL)
			}
		case *log.EventEntryAdded:
			if ev.Entry.Source == "security" || strings.Contains(ev.Entry.Text, "Content Security Policy") {
				b.note("report: " + ev.Entry.Text)
			}
		}
	}); err != nil {
		s.t.Fatal(err)
	}
	name, value, _ := strings.Cut(s.cookie(), "=")
	_, err1 := chromedp.Call(ctx, network.Enable, network.EnableParams{})
	_, err2 := chromedp.Call(ctx, log.Enable, cdp.Empty{})
	_, err3 := chromedp.Call(ctx, network.SetCookie,
		network.SetCookieParams{Name: name, Value: value, URL: "http://" + s.host + "/"})
	if err := errors.Join(err1, err2, err3); err != nil {
		s.t.Fatal(err)
	}
	return b
}

func (b *browser) note(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.said = append(b.said, text)
}

// do carries out actions. It fails the test if what they wait for, such as an element, does not appear in time. If the
// page replaces an element after it was found and before it is clicked, do tries again.
func (b *browser) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	for _, action := range actions {
		err := chromedp.Do(ctx, action)
		for err != nil && strings.Contains(err.Error(), "Could not find node with given id") {
			err = chromedp.Do(ctx, action)
		}
		if err != nil {
			b.t.Fatal(err)
		}
	}
}

func (b *browser) visit(path string) {
	b.t.Helper()
	b.do(chromedp.Navigate("http://" + b.host + path))
}

// inTime carries out an action, which must end within patience.
func inTime[T any](b *browser, action chromedp.Action[T]) (T, error) {
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	return chromedp.Run(ctx, action)
}

// js evaluates an expression.
func js[T any](b *browser, expr string) T {
	b.t.Helper()
	v, err := inTime(b, chromedp.Evaluate[T](expr))
	if err != nil {
		b.t.Fatal(err)
	}
	return v
}

// shows waits until the page's text contains part.
func (b *browser) shows(part string) {
	b.t.Helper()
	eventually(b.t, "the page", func() error {
		text, err := inTime(b, chromedp.Evaluate[string](`["main", "#live"].map((q) => (document.querySelector(q) || {}).innerText).join(" ")`))
		if err == nil && !strings.Contains(text, part) {
			err = fmt.Errorf("does not show %q:\n%s", part, text)
		}
		return err // also if the page is being left
	})
}

// leaves waits until the browser has left a page, and returns the new path.
func (b *browser) leaves(from string) (path string) {
	b.t.Helper()
	eventually(b.t, "another page", func() (err error) {
		path, err = inTime(b, chromedp.Evaluate[string]("document.readyState === 'complete' ? location.pathname : ''"))
		if err == nil && (path == "" || path == from) {
			err = fmt.Errorf("it is still %s", from)
		}
		return err
	})
	return path
}

// TestFollow has a page follow a task: rows change, a gate is approved on it, the server is
// restarted, and nothing is reloaded.
func TestFollow(t *testing.T) {
	h := newHouse(t, gatedAgents())
	s := h.open("")
	b := s.browse()
	row := h.begin(gated, "follow me")
	b.visit("/tasks/" + row.ID)
	b.shows("live")
	js[int](b, "window.mark = 1")
	b.do(chromedp.Click(chromedp.CSS("[data-key=resume] > summary")),
		chromedp.Click(chromedp.CSS("[data-key=resume] button.yes")))
	b.shows("Do the thing?")
	b.do(chromedp.SetValue(chromedp.CSS(".asked textarea[name=text]"), "words that are being written"))
	h.emit(row, 3, "task.updated")
	b.do(chromedp.SetValue(chromedp.CSS(".asked textarea[name=text]"), "yes, do"),
		chromedp.Click(chromedp.CSS(".asked button.yes")))
	b.shows("Which port?")
	if g := js[string](b, `document.querySelector(".strip button.yes").innerText`); g != "80" {
		t.Errorf("the first answer to choose is %q", g)
	}
	// From now on another server serves at the same address.
	s.stop()
	b.shows("not connected")
	s = h.open(s.host)
	if _, err := s.srv.cfg.Control.Gates().Answer(t.Context(), h.gate(row.ID).ID, words("8080")); err != nil {
		t.Fatal(err)
	}
	if _, err := h.controller().Drive(t.Context(), row.ID, resume); err != nil {
		t.Fatal(err)
	}
	b.shows("It is done.")
	b.shows("Result")
	if js[int](b, "window.mark") != 1 {
		t.Error("the page was loaded again")
	}
	gates, err := h.store.Gates(t.Context(), all(row.ID))
	if err != nil || len(gates) != 2 {
		t.Fatalf("%+v: %v", gates, err)
	}
	for _, g := range gates {
		if g.Kind == "approval" && (g.By != "ann" || g.Via != "web" || g.Text != "yes, do") {
			t.Errorf("the answer: %+v", g)
		}
	}
}

// TestKeys navigates pages with the keyboard.
func TestKeys(t *testing.T) {
	h := newHouse(t, gatedAgents())
	first, second := h.run(gated, "the first"), h.run(gated, "the second")
	b := h.open("").browse()
	b.visit("/")
	b.do(chromedp.KeyEvent("g"), chromedp.KeyEvent("t"))
	b.leaves("/")
	b.do(chromedp.KeyEvent("j"), chromedp.KeyEvent("j"), chromedp.KeyEvent("k"), chromedp.KeyEvent("j"),
		chromedp.KeyEvent("\r"))
	if at := b.leaves("/tasks"); at != "/tasks/"+first.ID {
		t.Errorf("the second row leads to %s, want %s; the first is %s", at, first.ID, second.ID)
	}
	b.do(chromedp.KeyEvent("/"), chromedp.KeyEvent("gt"))
	if v := js[string](b, "document.activeElement.value"); !strings.HasSuffix(v, "gt") {
		t.Errorf("in the search stands %q", v)
	}
}

// TestLooks checks what every page must meet: it fits a phone, every field has a label, there
// is one h1, and text has enough contrast in light and dark mode.
func TestLooks(t *testing.T) {
	h := newHouse(t, map[string]scripted{"plan": say(`{"$status":"ready","what":"` +
		strings.Repeat("averylongwordwithoutend", 20) + `"}`),
		"assistant": say(strings.Repeat("averylongwordwithoutend", 30) + "\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n    " +
			strings.Repeat("code ", 60))})
	row := h.run(gated, strings.Repeat("a-very-long-title-without-spaces-", 12))
	h.begin(asking, strings.Repeat("words ", 200))
	chat := h.chat("# A heading\n\n" + strings.Repeat("words ", 200))
	h.write(filepath.Join(taskdir.At(h.dir, row.ID).Path(), "shared", "reports", "a.md"),
		"# A report\n\n## More\n\n"+strings.Repeat("longword", 60)+"\n\n[x](https://example.com) `code`\n")
	b := h.open("").browse()
	paths := []string{"/", "/tasks", "/tasks?state=failed", "/threads/" + row.ID,
		"/steps/" + row.Head.String() + "?thread=" + row.ID, "/nothing", "/chats", "/hosts", "/cost", "/chats/" + chat.ID,
		"/compare?a=" + row.ID + "&b=" + chat.ID, "/threads/" + row.ID + "/verify", "/flows", "/flows/orchestrate",
		"/tasks/" + row.ID + "/read/shared/reports/a.md"}
	for _, tab := range tabs {
		paths = append(paths, "/tasks/"+row.ID+"?tab="+tab)
	}
	const basics = `(() => {
	  const bad = [];
	  for (const e of document.querySelectorAll("input:not([type=hidden]),textarea,select")) if (!e.labels.length && !e.getAttribute("aria-label")) bad.push("no label: " + e.outerHTML);
	  for (const e of document.querySelectorAll("a,button,summary")) if (!(e.innerText || e.textContent).trim() && !e.getAttribute("aria-label")) bad.push("no name: " + e.outerHTML);
	  const n = document.querySelectorAll("h1").length; if (n !== 1) bad.push(n + " h1");
	  if (!document.documentElement.lang || !document.title) bad.push("no language or title");
	  const ids = [...document.querySelectorAll("[id]")].map((e) => e.id); if (new Set(ids).size !== ids.length) bad.push("an id twice");
	  for (const e of document.querySelectorAll("th")) if (!e.innerText.trim() && e.offsetParent) bad.push("an empty head of a column");
	  return bad;
	})()`
	// The contrast of all texts with their background, as defined by WCAG.
	const contrast = `(() => {
	  const rgb = (c) => (c.match(/[\d.]+/g) || []).map(Number);
	  const light = ([r, g, b]) => { const f = (v) => { v /= 255; return v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; }; return .2126 * f(r) + .7152 * f(g) + .0722 * f(b); };
	  const behind = (e) => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor); if (c.length === 3 || c[3] > 0) return c; } return [255, 255, 255]; };
	  const bad = [];
	  for (const e of document.querySelectorAll("body *")) {
	    if (!e.offsetParent || ![...e.childNodes].some((n) => n.nodeType === 3 && n.nodeValue.trim())) continue;
	    const [a, b] = [light(rgb(getComputedStyle(e).color)), light(behind(e))], r = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
	    if (r < 4.5) bad.push(r.toFixed(2) + " " + e.outerHTML.slice(0, 80));
	  }
	  return bad;
	})()`
	for _, path := range paths {
		b.do(chromedp.EmulateViewport(390, 844))
		b.visit(path)
		if over := js[int](b, "document.documentElement.scrollWidth - innerWidth"); over > 0 {
			t.Errorf("%s is %d px too wide for a phone: %v", path, over,
				js[[]string](b, `[...document.querySelectorAll("main *, header *")].filter((e) => e.getBoundingClientRect().right > innerWidth + 1 && !e.closest(".scroll")).slice(0, 3).map((e) => e.outerHTML.slice(0, 120))`))
		}
		if !js[bool](b, `document.querySelector('header a[href="/search"]').checkVisibility()`) {
			t.Errorf("%s: on a phone nothing leads to the search", path)
		}
		b.do(chromedp.EmulateViewport(1280, 900))
		if bad := js[[]string](b, basics); len(bad) > 0 {
			t.Errorf("%s: %v", path, bad)
		}
		for _, theme := range []string{"light", "dark"} {
			if bad := js[[]string](b, `document.documentElement.className = "`+theme+`", `+contrast); len(bad) > 0 {
				t.Errorf("%s, %s: too little contrast: %v", path, theme, bad[:min(3, len(bad))])
			}
		}
	}
	js[string](b, `document.documentElement.className = "light"`)
	b.do(chromedp.Click(chromedp.CSS("#theme")))
	back := js[string](b, `getComputedStyle(document.body).backgroundColor`)
	b.visit("/tasks")
	if got := js[string](b, `getComputedStyle(document.body).backgroundColor`); got != back || got != "rgb(22, 24, 27)" {
		t.Errorf("the night is %s, and then %s", back, got)
	}
	if b.mu.Lock(); len(b.said) > 0 {
		t.Errorf("%v", b.said)
	}
	b.mu.Unlock()
}
