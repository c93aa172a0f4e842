package web

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/plait-run/plait/internal/record/store"
)

// TestNewTask validates a task on the page, and then starts it with settings.
func TestNewTask(t *testing.T) {
	h := newHouse(t, map[string]scripted{"solo": say("---\n$status: done\n---\nIt is done.")})
	b := h.open("").browse()
	b.visit("/new")
	notice := func(part string) {
		b.do(chromedp.WaitVisible(chromedp.CSS("#notice p, .said:not(:empty)")))
		if got := js[string](b, `document.querySelector("#notice").innerText + document.querySelector("main .said").innerText`); !strings.Contains(got, part) {
			t.Errorf("it says %q, not %q", got, part)
		}
	}
	b.do(chromedp.Click(chromedp.CSS("button[name=check]")))
	notice("This task can start.")
	if rows, err := h.store.Threads(t.Context(), store.ThreadFilter{}); err != nil || len(rows) > 0 {
		t.Fatalf("a check began %d tasks: %v", len(rows), err)
	}
	b.do(chromedp.SetValue(chromedp.CSS("textarea[name=prompt]"), "do it"),
		chromedp.SetValue(chromedp.CSS("[name=limits]"), "maxTokens=many"),
		chromedp.Click(chromedp.CSS("#new button.yes:not([name])")))
	b.do(chromedp.WaitVisible(chromedp.CSS("main .said")))
	notice("limits")
	b.do(chromedp.SetValue(chromedp.CSS("[name=limits]"), "maxTokens=1000, timeout=1h"),
		chromedp.SetValue(chromedp.CSS("[name=approve]"), "never"),
		chromedp.Click(chromedp.CSS("#new details > summary")),
		chromedp.SetValue(chromedp.CSS("[name=set]"), "solo.agent=scripted"),
		chromedp.Click(chromedp.CSS("#new button.yes:not([name])")))
	id := strings.TrimPrefix(b.leaves("/new"), "/tasks/")
	row := h.ends(id, store.Completed)
	for _, want := range []string{`"maxTokens":1000`, `"approve":"never"`, `"roles":{"solo":"scripted"}`} {
		if !strings.Contains(string(row.Options), want) {
			t.Errorf("the options are %s, without %s", row.Options, want)
		}
	}
}

// TestWorktrees checks that a task can be started in a worktree that git lists, and in no other directory.
func TestWorktrees(t *testing.T) {
	h := newHouse(t, map[string]scripted{"solo": say("---\n$status: done\n---\nIt is done.")})
	tree, other := t.TempDir(), t.TempDir()
	h.write(filepath.Join(h.dir, ".git", "worktrees", "side", "gitdir"), filepath.Join(tree, ".git")+"\n")
	h.write(filepath.Join(h.dir, ".git", "worktrees", "gone", "gitdir"), "/nowhere/at/all/.git\n")
	h.write(filepath.Join(h.dir, ".git", "worktrees", "odd", "gitdir"), "../../..")
	s := h.open("")
	if page := s.get("/new").body; !strings.Contains(page, tree) || strings.Contains(page, "nowhere") {
		t.Error("the page offers other worktrees than there are")
	}
	for _, dir := range []string{other, "/", "..", ".", h.dir + "/..", "/nowhere/at/all"} {
		if res := s.post("/api/v1/tasks",
			`{"flow":"solo","prompt":"x","worktree":"`+dir+`"}`); res.code != http.StatusBadRequest {
			t.Errorf("%s: %d %s", dir, res.code, res.body)
		}
	}
	id := s.begun(`{"flow":"solo","prompt":"x","worktree":"` + tree + `"}`)
	if row := h.ends(id, store.Completed); row.Tree != tree {
		t.Errorf("it worked in %q, want %q", row.Tree, tree)
	}
	if _, err := os.Stat(tree); err != nil {
		t.Error(err)
	}
}

// TestBadBeginnings checks that invalid requests are refused and start nothing.
func TestBadBeginnings(t *testing.T) {
	h := newHouse(t, nil)
	s := h.open("")
	for body, says := range map[string]string{
		`{"flow":"solo","prompt":"x","approve":"maybe"}`:      `invalid value \"maybe\" for approve: use ask, never, sandboxed`,
		`{"flow":"solo","prompt":"x","merge":"now"}`:          `invalid value \"now\" for merge`,
		`{"flow":"solo","prompt":"x","limits":"maxTokens"}`:   "want NAME=VALUE",
		`{"flow":"solo","prompt":"x","limits":"maxTokns=1"}`:  "maxTokens",
		`{"flow":"solo","prompt":"x","limits":"a=&b"}`:        "want NAME=VALUE",
		`{"flow":"solo","prompt":"x","limits":"maxTokens=0"}`: "would be no limit",
		`{"flow":"solo","prompt":"x","set":"solo=scripted"}`:  "want ROLE.agent=NAME",
		`{"flow":"solo","prompt":"x","set":"it.agent=a"}`:     `has no role \"it\"`,
		`{"flow":"solo","check":true,"agent":"nobody"}`:       `no agent is called \"nobody\"`,
		`{"flow":"solo","prompt":"x","check":"yes"}`:          "check must be a boolean",
	} {
		if res := s.post("/api/v1/tasks", body); res.code != http.StatusBadRequest || !strings.Contains(res.body, says) {
			t.Errorf("%s: %d %s", body, res.code, res.body)
		}
	}
	if rows, err := h.store.Threads(t.Context(), store.ThreadFilter{}); err != nil || len(rows) > 0 {
		t.Errorf("%d tasks were begun: %v", len(rows), err)
	}
	if res := s.post("/api/v1/demo", `{}`); res.code != http.StatusNotFound {
		t.Errorf("a demo that is not offered: %d %s", res.code, res.body)
	}
}
