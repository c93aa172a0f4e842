package web

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/plait-run/plait/internal/agent/codex"
	"github.com/plait-run/plait/internal/agent/host"
	"github.com/plait-run/plait/internal/agent/sandbox"
	offline "github.com/plait-run/plait/internal/agent/scripted"
	"github.com/plait-run/plait/internal/record/store"
)

// useCodex has the real Codex play every role in a house, with a scenario of the scripted
// model. Without Codex the test is skipped, except in CI, where it fails.
func (h *house) useCodex(scenario string) {
	h.t.Helper()
	state := h.t.TempDir() // has a directory that cannot be listed; see codex
	h.t.Cleanup(func() { os.Chmod(filepath.Join(state, "plait", "codex"), 0o700) })
	codexes := codex.NewHost(host.New(host.Config{Config: sandbox.Config{Getenv: func(key string) string {
		if key == "XDG_STATE_HOME" {
			return state
		}
		return os.Getenv(key)
	}}}))
	if _, err := codexes.Find(h.t.Context(), ""); err != nil {
		if errors.As(err, new(*host.MissingError)) && os.Getenv("CI") == "" {
			h.t.Skip("NOT TESTED WITH THE REAL CODEX:", err)
		}
		h.t.Fatal(err)
	}
	sc, err := offline.Load(scenario)
	if err != nil {
		h.t.Fatal(err)
	}
	model, err := offline.Open(offline.Config{Scenario: sc})
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { model.Close() })
	if h.real, err = codexes.Agent(codex.Config{
		Endpoint: &codex.Endpoint{URL: model.URL(), Model: offline.Model, Catalog: offline.Catalog()},
		Env:      map[string]string{"HOME": h.t.TempDir()}, // its login shells must not read the user's home
	}); err != nil {
		h.t.Fatal(err)
	}
}

// say types a message into the page and presses the button that sends it.
func (b *browser) say(text string) {
	b.t.Helper()
	b.do(chromedp.WaitVisible(chromedp.CSS("#say textarea")), chromedp.SetValue(chromedp.CSS("#say textarea"), text),
		chromedp.Click(chromedp.CSS("#say button.yes")))
}

// TestChatPage talks with the real Codex in a real browser: its activity is visible while it
// works, it asks before it leaves its sandbox, it is stopped, and the conversation is forked
// and reverted.
func TestChatPage(t *testing.T) {
	h := newHouse(t, nil)
	h.useCodex("chat")
	row := h.chat("What is here?")
	b := h.open("").browse()
	b.visit("/chats/" + row.ID)
	b.shows("first thing that was said in this session")
	b.shows("your turn")

	// The requested action is shown in full, and approved next to the conversation.
	b.say("write outside")
	b.shows("touch outside.txt")
	b.do(chromedp.Click(chromedp.CSS("section form button.yes")))
	b.shows("What came back")
	eventually(t, "what the command that was approved does", func() error {
		_, err := os.Stat(filepath.Join(h.dir, "outside.txt"))
		return err
	})

	// Its activity is visible before it is done, and can be stopped.
	b.say("slowly please")
	b.shows("This takes ten minutes.")
	b.shows("sleep 600")
	b.do(chromedp.Click(chromedp.CSS(`form[data-api$="/stop"] button`)))
	b.shows("has no answer yet")
	if kept := h.thread(row.ID); kept.Ended() {
		t.Errorf("a conversation that was stopped is %s", kept.Status)
	}

	// A fork continues from the first answer; the conversation itself is unchanged.
	head := h.thread(row.ID).Head
	b.do(chromedp.Evaluate[chromedp.Void](`document.querySelector("#s1 details.more").open = true`))
	if at := js[string](b, `document.querySelector("#s1 details.more p.blocked").innerText`); !strings.Contains(at,
		"Files are not changed back") {
		t.Errorf("before a revert the page says %q", at)
	}
	b.do(chromedp.SetValue(chromedp.CSS("#s1 textarea"), "What else?"),
		chromedp.Click(chromedp.CSS(`#s1 form[data-api$="/fork"] button`)))
	fork := strings.TrimPrefix(b.leaves("/chats/"+row.ID), "/chats/")
	b.shows("second thing that was said in this session")
	if f := h.thread(fork); f.ForkedFrom == nil || f.ForkedFrom.Thread != row.ID || h.thread(row.ID).Head != head {
		t.Errorf("the fork %+v", f)
	}
	b.say("write something")
	b.shows("There is a file note.txt now.")
	b.shows("your turn") // a conversation cannot be reverted while an agent works

	// What was said after an answer is reverted; files that were written stay.
	b.do(chromedp.Evaluate[chromedp.Void](`document.querySelector("#s1 details.more").open = true`),
		chromedp.Click(chromedp.CSS(`#s1 form[data-api$="/revert"] button`)))
	b.leaves("/chats/" + fork)
	b.shows("your turn")
	if text := js[string](b, "document.querySelector('main').innerText"); strings.Contains(text, "note.txt") ||
		!strings.Contains(text, "first thing") {
		t.Errorf("after the revert it reads:\n%s", text)
	}
	h.ends(fork, store.Cancelled)
	if _, err := os.Stat(filepath.Join(h.dir, "note.txt")); err != nil {
		t.Errorf("the file is gone with what was said: %v", err)
	}
	b.say("What now?")
	b.shows("second thing that was said in this session")
	if b.mu.Lock(); len(b.said) > 0 {
		t.Errorf("%v", b.said)
	}
	b.mu.Unlock()
}

func (h *house) thread(id string) store.Thread {
	h.t.Helper()
	row, err := h.store.Thread(h.t.Context(), id)
	if err != nil {
		h.t.Fatal(err)
	}
	return row
}
