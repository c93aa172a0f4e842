package web

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/record/history"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/testing/housetest"
	"github.com/plait-run/plait/internal/view"
)

// asks posts to the API and returns the state of the thread in the response.
func (s *site) asks(path, body string) view.Standing {
	s.t.Helper()
	res := s.post(path, body)
	var e struct {
		OK   bool
		Data view.Standing
	}
	if err := json.Unmarshal([]byte(res.body), &e); err != nil || !e.OK || res.code != http.StatusOK {
		s.t.Fatalf("%s %s: %d %s: %v", path, body, res.code, res.body, err)
	}
	return e.Data
}

// refused checks that a POST is refused and changes nothing.
func (s *site) refused(path, body string, code int, why string) {
	s.t.Helper()
	_, before := s.store.counts()
	if res := s.post(path, body); res.code != code || !strings.Contains(res.body, why) {
		s.t.Errorf("%s %s: %d %s, want %d and %q", path, body, res.code, res.body, code, why)
	}
	if _, after := s.store.counts(); after != before {
		s.t.Errorf("%s %s was refused, and left something", path, body)
	}
}

// roles returns the roles that made the steps of a thread, oldest first.
func (h *house) roles(id string) (roles []string) {
	h.t.Helper()
	row, err := h.store.Thread(h.t.Context(), id)
	if err != nil {
		h.t.Fatal(err)
	}
	for st, err := range h.controller().Reader().Walk(h.t.Context(), row.Head) {
		if err != nil {
			h.t.Fatal(err)
		}
		roles = append([]string{st.State.Role}, roles...)
	}
	return roles
}

// TestFork continues from a step of another task, with another prompt.
func TestFork(t *testing.T) {
	h := newHouse(t, gatedAgents())
	row := h.run(gated, "do it")
	s := h.open("")
	path := "/api/v1/threads/" + row.ID + "/fork"
	st := s.asks(path, `{"at":"1","text":"and quickly","agent":"scripted","inPlace":true}`)
	next, err := h.store.Thread(t.Context(), st.Thread)
	if err != nil || next.ForkedFrom == nil || next.ForkedFrom.Thread != row.ID || next.Task == row.Task ||
		st.Task != next.Task {
		t.Fatalf("%+v: %+v: %v", st, next, err)
	}
	if g := h.gate(next.ID); !strings.Contains(g.Question, "Do the thing?") {
		t.Errorf("the fork asks %q", g.Question)
	}
	if kept, err := h.store.Thread(t.Context(), row.ID); err != nil || kept.Head != row.Head || kept.Status != row.Status {
		t.Errorf("the task that was forked: %+v: %v", kept, err)
	}
	for body, why := range map[string]string{
		`{"at":"9"}`: "step", `{"at":"nowhere"}`: "", `{"at":"1","agent":"nobody"}`: "nobody",
		`{"at":"1","inPlace":"yes"}`: "inPlace",
	} {
		if res := s.post(path, body); res.code != http.StatusBadRequest && res.code != http.StatusNotFound ||
			!strings.Contains(res.body, why) {
			t.Errorf("fork with %s: %d %s", body, res.code, res.body)
		}
	}
	s.refused("/api/v1/threads/01ARZ3NDEKTSV4RRFFQ69G5FAV/fork", `{}`, http.StatusNotFound, "not_found")
}

// TestForkPage forks from a step's page in a real browser, with another prompt.
func TestForkPage(t *testing.T) {
	h := newHouse(t, gatedAgents())
	row := h.run(gated, "do it")
	b := h.open("").browse()
	b.visit("/steps/" + row.Head.String() + "?thread=" + row.ID)
	b.do(chromedp.Click(chromedp.CSS("details[data-key=forkhere] summary")),
		chromedp.SetValue(chromedp.CSS("details[data-key=forkhere] textarea"), "and quickly"),
		chromedp.SetValue(chromedp.CSS("details[data-key=forkhere] select"), "scripted"),
		chromedp.Click(chromedp.CSS("details[data-key=forkhere] button")))
	id := strings.TrimPrefix(b.leaves("/steps/"+row.Head.String()), "/tasks/")
	b.shows("Do the thing?")
	if next := h.thread(id); next.ForkedFrom == nil || next.ForkedFrom.Step != row.Head ||
		!strings.Contains(string(next.Options), `"scripted"`) {
		t.Errorf("%+v", next)
	}
	b.visit("/compare?a=" + row.ID + "&b=" + id)
	b.shows("and quickly")
}

// TestRevert checks that a conversation can be reverted, and nothing else.
func TestRevert(t *testing.T) {
	h := newHouse(t, map[string]scripted{"assistant": say("The first.", "The second.", "The third."),
		"plan": say(`{"$status":"ready","what":"x"}`)})
	row, s := h.chat("one"), h.open("")
	s.asks("/api/v1/tasks/"+row.ID+"/resume", `{"text":"two"}`)
	eventually(t, "the second answer", func() error {
		if all := h.roles(row.ID); len(all) != 3 || s.srv.work.drives(row.ID) {
			return fmt.Errorf("%v", all)
		}
		return nil
	})
	st := s.asks("/api/v1/tasks/"+row.ID+"/revert", `{"at":"1"}`)
	if !strings.Contains(st.Summary, "files stay as they are") {
		t.Errorf("nothing is said of files: %q", st.Summary)
	}
	h.ends(row.ID, store.Cancelled)
	eventually(t, "the turn of the person", func() error {
		next, err := h.store.Thread(t.Context(), st.Thread)
		if err == nil && next.Status != store.Blocked {
			err = fmt.Errorf("it is %s", next.Status)
		}
		return err
	})
	if all := h.roles(st.Thread); len(all) != 1 || all[0] != "assistant" {
		t.Errorf("after the revert there are %v", all)
	}
	page := s.get("/chats/" + st.Thread).body
	if !strings.Contains(page, "The first.") || strings.Contains(page, "The second.") {
		t.Errorf("the conversation that was taken back:\n%s", page)
	}
	for path, want := range map[string]string{"/chats/" + row.ID: "The second.", "/chats": "one"} {
		if page := s.get(path).body; !strings.Contains(page, want) {
			t.Errorf("%s does not show %q", path, want)
		}
	}
	other := h.run(gated, "no conversation")
	s.refused("/api/v1/tasks/"+other.ID+"/revert", `{"at":"1"}`, http.StatusBadRequest, "only a conversation")
	if res := s.get("/chats/" + other.ID); res.code != http.StatusNotFound {
		t.Errorf("what is no conversation is shown as one: %d", res.code)
	}
}

// TestStop stops a server's work on a task, and resumes it.
func TestStop(t *testing.T) {
	began := make(chan struct{}, 9)
	h := newHouse(t, map[string]scripted{"assistant": func(ctx context.Context, req agent.Request,
		emit func(agent.Event) error) (agent.Result, error) {
		if strings.Contains(req.Prompt, "wait") {
			began <- struct{}{}
			<-ctx.Done()
			return agent.Result{}, &agent.Failure{Kind: agent.Cancelled, Message: "stopped"}
		}
		return housetest.Answer(req, emit, "At once.")
	}})
	row, s := h.chat("one"), h.open("")
	path := "/api/v1/tasks/" + row.ID
	s.refused(path+"/stop", `{}`, http.StatusConflict, "does not drive")
	s.asks(path+"/resume", `{"text":"wait"}`)
	<-began
	for _, verb := range []string{"/resume", "/revert"} {
		s.refused(path+verb, `{}`, http.StatusConflict, "")
	}
	if st := s.asks(path+"/resume", `{"text":"and more"}`); !st.Recorded {
		t.Errorf("what is said to an agent at work is not recorded: %+v", st)
	}
	if page := s.get("/chats/" + row.ID).body; !strings.Contains(page, "and more") ||
		!strings.Contains(page, "not read yet") {
		t.Errorf("what nobody has heard yet is not shown:\n%s", page)
	}
	s.refused("/api/v1/threads/"+row.ID+"/compact", `{}`, http.StatusConflict, "")
	s.asks(path+"/stop", `{}`)
	eventually(t, "the stop", func() error {
		if s.srv.work.drives(row.ID) {
			return fmt.Errorf("it is still driven")
		}
		return nil
	})
	if kept, err := h.store.Thread(t.Context(), row.ID); err != nil || kept.Ended() {
		t.Errorf("what was stopped is %s: %v", kept.Status, err)
	}
	s.refused(path+"/stop", `{}`, http.StatusConflict, "does not drive")
	if said := s.srv.work.lastError(row.ID); said != nil {
		t.Errorf("that somebody stopped it is said to have gone wrong: %s", said)
	}
	s.asks(path+"/resume", `{}`)
	<-began
	s.asks(path+"/cancel", `{}`)
	eventually(t, "the end", func() error {
		if kept := h.thread(row.ID); kept.Status != store.Cancelled {
			return fmt.Errorf("it is %s; driven: %v, %v", kept.Status, s.srv.work.drives(row.ID), s.srv.work.lastError(row.ID))
		}
		return nil
	})
}

// TestCompact summarizes a conversation from a page, which also shows how that failed.
func TestCompact(t *testing.T) {
	h := newHouse(t, map[string]scripted{"assistant": say("The first."), thread.RoleCompact: say("Two things were said.")})
	row, s := h.chat("one"), h.open("")
	s.asks("/api/v1/threads/"+row.ID+"/compact", `{"agent":"scripted"}`)
	eventually(t, "the summary", func() error {
		if all := h.roles(row.ID); len(all) != 2 || all[1] != thread.RoleCompact {
			return fmt.Errorf("%v", all)
		}
		return nil
	})
	if page := s.get("/chats/" + row.ID).body; !strings.Contains(page, "Two things were said.") {
		t.Error("the summary is not shown")
	}
	delete(h.agents, thread.RoleCompact)
	again := h.chat("another")
	s.asks("/api/v1/threads/"+again.ID+"/compact", `{}`)
	eventually(t, "why there is no summary", func() error {
		for _, path := range []string{"/chats/", "/tasks/"} {
			if !strings.Contains(s.get(path+again.ID).body, "nobody plays") {
				return fmt.Errorf("%s does not say it", path)
			}
		}
		return nil
	})
}

// TestVerify checks that a thread is verified on request.
func TestVerify(t *testing.T) {
	h := newHouse(t, gatedAgents())
	row := h.run(gated, "do it")
	s := h.open("")
	v := s.data("/api/v1/threads/" + row.ID + "/verify").(map[string]any)
	if v["integrity"] != "ok" || v["completeness"] != "ok" || v["objects"].(float64) < 3 {
		t.Errorf("%v", v)
	}
	if page := s.get("/threads/" + row.ID + "/verify").body; !strings.Contains(page,
		"The record is unchanged and complete.") || !strings.Contains(page, "events, none of them signed") {
		t.Errorf("the page:\n%s", page)
	}
	log, err := h.store.Log(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	head := history.Head(log)
	keep := func(size int64) string {
		head.Size = size
		if err := os.WriteFile(view.KeptOf(h.store, h.home).File, []byte(head.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		return s.get("/threads/" + row.ID + "/verify").body
	}
	if page := keep(head.Size); !strings.Contains(page, "unchanged and complete") ||
		!strings.Contains(page, "events, all kept by this machine just now, unsigned") {
		t.Errorf("a checkpoint of it:\n%s", page)
	}
	if page := keep(head.Size + 1); !strings.Contains(page, "The history of the record was changed.") ||
		!strings.Contains(page, "the log is shorter than seen") {
		t.Errorf("a longer one:\n%s", page)
	}
}

// TestCompare shows two threads side by side, from the step where they diverge.
func TestCompare(t *testing.T) {
	h := newHouse(t, map[string]scripted{"assistant": say("The first.", "The second.", "Another second.")})
	row, s := h.chat("one"), h.open("")
	s.asks("/api/v1/tasks/"+row.ID+"/resume", `{"text":"two"}`)
	eventually(t, "the second answer", func() error {
		if all := h.roles(row.ID); len(all) != 3 || s.srv.work.drives(row.ID) {
			return fmt.Errorf("%v", all)
		}
		return nil
	})
	other := s.asks("/api/v1/threads/"+row.ID+"/fork", `{"at":"1","text":"three"}`).Thread
	eventually(t, "the other answer", func() error {
		if all := h.roles(other); len(all) != 3 {
			return fmt.Errorf("%v", all)
		}
		return nil
	})
	page := s.get("/compare?a=" + row.ID + "&b=" + other)
	for _, want := range []string{"two", "three"} {
		if page.code != http.StatusOK || !strings.Contains(page.body, want) {
			t.Errorf("%d, without %q:\n%s", page.code, want, page.body)
		}
	}
	v := s.data("/api/v1/threads/" + row.ID + "/diff/" + other).(map[string]any)
	if len(v) == 0 {
		t.Error("the API tells no difference")
	}
	for path, want := range map[string]int{"/compare": 200, "/compare?a=" + row.ID + "&b=x": 404,
		"/compare?a=x&b=x": 404} {
		if res := s.get(path); res.code != want {
			t.Errorf("%s: %d", path, res.code)
		}
	}
}

// What is said while an agent works is passed on in the next turn, which starts by itself.
func TestSaidWhileAtWork(t *testing.T) {
	began, goOn := make(chan struct{}, 9), make(chan struct{})
	var prompts []string
	h := newHouse(t, map[string]scripted{"assistant": func(ctx context.Context, req agent.Request,
		emit func(agent.Event) error) (agent.Result, error) {
		if prompts = append(prompts, req.Prompt); len(prompts) == 2 {
			began <- struct{}{}
			<-goOn
		}
		return housetest.Answer(req, emit, "Well.")
	}})
	row, s := h.chat("one"), h.open("")
	path := "/api/v1/tasks/" + row.ID
	s.asks(path+"/resume", `{"text":"two"}`)
	<-began
	s.asks(path+"/resume", `{"text":"and mind the roof"}`)
	close(goOn)
	eventually(t, "the turn after", func() error {
		if all := h.roles(row.ID); len(all) != 5 || s.srv.work.drives(row.ID) {
			return fmt.Errorf("%v", all)
		}
		return nil
	})
	if len(prompts) != 3 || !strings.Contains(prompts[2], "and mind the roof") {
		t.Errorf("%d prompts, the last one:\n%s", len(prompts), prompts[len(prompts)-1])
	}
	if page := s.get("/chats/" + row.ID).body; strings.Contains(page, "not read yet") {
		t.Error("what was heard is shown as not heard")
	}
}

// TestRetryPage retries a failed task from its page in a real browser: only what failed runs again.
func TestRetryPage(t *testing.T) {
	done := say("---\n$status: done\n---\nIt is done.")
	var works atomic.Bool
	var tries atomic.Int32
	db := scripted(func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
		tries.Add(1)
		if !works.Load() {
			return agent.Result{}, &agent.Failure{Kind: agent.Refused, Message: "the wire is cut"}
		}
		return done(ctx, req, emit)
	})
	h := newHouse(t, map[string]scripted{"plan": done, "code": done, "api": done, "db": db, "check": done})
	row := h.winds()
	s := h.open("")
	b := s.browse()
	b.visit("/tasks/" + row.ID)
	works.Store(true)
	b.do(chromedp.Click(chromedp.CSS("details[data-key=retry] summary")),
		chromedp.SetValue(chromedp.CSS("details[data-key=retry] textarea"), "the wire is mended"),
		chromedp.Click(chromedp.CSS("details[data-key=retry] button")))
	id := strings.TrimPrefix(b.leaves("/tasks/"+row.ID), "/tasks/")
	h.ends(id, store.Completed)
	if n := tries.Load(); n != 2 {
		t.Errorf("the agent that failed ran %d times", n)
	}
	s.refused("/api/v1/tasks/"+id+"/retry", `{}`, http.StatusBadRequest, "is done")
	b.visit("/tasks/" + id)
	if got := js[int](b, `document.querySelectorAll("details[data-key=retry]").length`); got != 0 {
		t.Error("a task that is done offers a retry")
	}
}
