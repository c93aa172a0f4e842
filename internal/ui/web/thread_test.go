package web

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/testing/housetest"
	"github.com/plait-run/plait/internal/view"
)

// winding calls a flow in a loop, and forks.
const winding = `
version: 1
name: winding
limits: {maxRounds: 400}
roles:
  plan: {description: plans}
  develop: {flow: inner}
  api: {description: reads}
  db: {description: reads}
  check: {description: checks}
forks:
  survey: {forkStrategy: parallel, forkPaths: [{pathId: one, childNodeId: api, prompt: "read"}, {pathId: two, childNodeId: db, prompt: "read"}]}
joins:
  gathered: {forkPathIds: [one, two], joinStrategy: ALL_COMPLETED, timeout: 600}
graph:
  $START: {new: {role: plan, prompt: "{{ prompt }}"}}
  plan: {done: {role: develop, prompt: "build"}}
  develop: {done: {role: survey, prompt: "read"}}
  api: {done: {role: gathered}}
  db: {done: {role: gathered}}
  gathered: {joined: {role: check, prompt: "check"}, failed: {role: $END, code: 1, prompt: "no"}}
  check: {again: {role: plan, prompt: "again"}, done: {role: $END, prompt: over}}
`

const inner = `
version: 1
name: inner
roles: {code: {description: codes}}
graph:
  $START: {new: {role: code, prompt: "{{ prompt }}"}}
  code: {done: {role: $END, prompt: built}}
`

// wound runs winding, twice through its loop.
func wound(t *testing.T) (*house, store.Thread) {
	t.Helper()
	done := say("---\n$status: done\n---\nIt is done.")
	costly := scripted(func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
		res, err := done(ctx, req, emit)
		res.Usage.CostMicroUSD = 617_250
		return res, err
	})
	h := newHouse(t, map[string]scripted{"plan": costly, "code": done, "api": done, "db": done,
		"check": say(`{"$status":"again"}`, `{"$status":"done"}`)})
	row := h.winds()
	if row.Status != store.Completed {
		t.Fatalf("%s: %+v", row.Status, row.Reason)
	}
	return h, row
}

// winds runs winding.
func (h *house) winds() store.Thread {
	h.t.Helper()
	c := h.controller()
	row, err := c.Begin(h.t.Context(), control.Spec{Bundle: housetest.Bundle(h.t, winding, inner), Prompt: "wind it",
		Workspace: h.dir})
	if err == nil {
		row, err = c.Drive(h.t.Context(), row.ID, control.Resume{})
	}
	if err != nil {
		h.t.Fatal(err)
	}
	return row
}

// parts returns the threads of a task by kind.
func (h *house) parts(row store.Thread) map[store.ThreadKind][]store.Thread {
	h.t.Helper()
	rows, err := h.store.Threads(h.t.Context(), store.ThreadFilter{Task: row.Task})
	if err != nil {
		h.t.Fatal(err)
	}
	out := map[store.ThreadKind][]store.Thread{}
	for _, r := range rows {
		out[r.Kind] = append(out[r.Kind], r)
	}
	return out
}

var linked = regexp.MustCompile(`href="([^"]+)"`)

// TestThreadPages checks that all links on the pages of a thread and of its task work.
func TestThreadPages(t *testing.T) {
	h, row := wound(t)
	parts := h.parts(row)
	if len(parts[store.KindCall]) != 2 || len(parts[store.KindPath]) != 4 {
		t.Fatalf("it has %v", parts)
	}
	fork, err := h.controller().Fork(t.Context(), control.Fork{Thread: row.ID, At: "2"})
	if err != nil {
		t.Fatal(err)
	}
	s := h.open("")
	pages := map[string]string{"/tasks/" + row.ID: "", "/threads/" + row.ID: "", "/threads/" + fork.ID: "",
		"/threads/" + row.ID + "?from=3": ""}
	for _, kind := range []store.ThreadKind{store.KindCall, store.KindPath} {
		for _, p := range parts[kind] {
			pages["/threads/"+p.ID] = ""
		}
	}
	for path := range pages {
		pages[path] = s.get(path).body
	}
	for path, body := range pages {
		for _, m := range linked.FindAllStringSubmatch(body, -1) {
			link := strings.ReplaceAll(m[1], "&amp;", "&")
			target, anchor, _ := strings.Cut(link, "#")
			to := body
			if target != "" {
				res := s.get(target)
				if res.code != http.StatusOK {
					t.Errorf("%s leads to %s: %d", path, link, res.code)
				}
				to = res.body
			}
			if anchor != "" && !strings.Contains(to, `id="`+anchor+`"`) {
				t.Errorf("%s leads to %s, which has no such place", path, link)
			}
		}
		if strings.Contains(body, "ZgotmplZ") || strings.Contains(body, " style=") {
			t.Errorf("%s has a style, or what the template refused", path)
		}
	}
	main, child := pages["/threads/"+row.ID], parts[store.KindCall][1]
	for _, want := range []string{">one</a>", ">two</a>", `href="/threads/` + child.ID + `"`, "11 steps", "$1.23"} {
		if !strings.Contains(main, want) {
			t.Errorf("the thread's page does not say %q", want)
		}
	}
	for page, want := range map[string]string{
		"/threads/" + child.ID: fmt.Sprintf(`<a href="/threads/%s?from=1#s6">Main thread at step 6</a> › inner`,
			row.ID),
		"/threads/" + fork.ID:            fmt.Sprintf(`forked from <a href="/threads/%s?from=1#s2">`, row.ID),
		"/tasks/" + row.ID:               `<li class="in1"`,
		"/threads/" + row.ID + "?from=3": "in the 9 steps shown",
	} {
		if !strings.Contains(pages[page], want) {
			t.Errorf("%s does not say %s", page, want)
		}
	}
	if n := strings.Count(pages["/tasks/"+row.ID], `<li class="in`); n < 7 {
		t.Errorf("the task has %d lanes, and 7 threads", n)
	}
}

// TestThreadObjects checks that the API returns the values of view for a thread and what it relates to.
func TestThreadObjects(t *testing.T) {
	h, row := wound(t)
	s := h.open("")
	c := h.controller()
	book := &view.Reader{Store: h.store, Nodes: c.Reader(), Workspace: h.dir}
	ctx, of := t.Context(), view.Subject{Row: row, Head: row.Head}
	for path, read := range map[string]func() (any, error){
		"tree":         func() (any, error) { return book.Tree(ctx, of, -1) },
		"tree?depth=0": func() (any, error) { return book.Tree(ctx, of, 0) },
		"stack":        func() (any, error) { return book.Stack(ctx, of) },
	} {
		v, err := read()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(plain(t, v), s.data("/api/v1/threads/"+row.ID+"/"+path)); diff != "" {
			t.Errorf("%s: -view +API\n%s", path, diff)
		}
	}
	for _, path := range []string{"tree?depth=-1", "tree?depth=x"} {
		if res := s.get("/api/v1/threads/" + row.ID + "/" + path); res.code != http.StatusBadRequest {
			t.Errorf("%s: %d", path, res.code)
		}
	}
	var doc struct {
		Paths map[string]map[string]struct{ Parameters []struct{ Name string } }
	}
	if err := json.Unmarshal([]byte(s.get("/api/v1/openapi.json").body), &doc); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string][]string{"tree": {"id", "depth"}, "stack": {"id"}} {
		var got []string
		for _, p := range doc.Paths["/api/v1/threads/{id}/"+path]["get"].Parameters {
			got = append(got, p.Name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s takes %v, want %v", path, got, want)
		}
	}
}

// TestLongThread checks that a page of a long thread has only its part of the steps.
func TestLongThread(t *testing.T) {
	more := make([]string, 0, 251)
	for range 250 {
		more = append(more, `{"$status":"more"}`)
	}
	h := newHouse(t, map[string]scripted{"work": say(append(more, `{"$status":"done"}`)...)})
	row := h.run(strings.Replace(chatty, "maxRounds: 100", "maxRounds: 400", 1), "talk")
	if row.Steps != 252 {
		t.Fatalf("%d steps: %+v", row.Steps, row.Reason)
	}
	s := h.open("")
	for path, want := range map[string][2]int{"": {153, 252}, "?from=1": {1, 100}, "?from=101": {101, 200},
		"?from=500": {1, 0}} {
		res := s.get("/threads/" + row.ID + path)
		var first, last int
		for _, m := range regexp.MustCompile(`<section class="card" id="s(\d+)"`).FindAllStringSubmatch(res.body, -1) {
			fmt.Sscan(m[1], &last)
			if first == 0 {
				first = last
			}
		}
		if want[1] == 0 {
			want[0] = 0
		}
		if res.code != http.StatusOK || [2]int{first, last} != want {
			t.Errorf("%q: %d, steps %d to %d, want %v", path, res.code, first, last, want)
		}
	}
}

// TestClimb goes down into a called thread and back up, using links on the pages.
func TestClimb(t *testing.T) {
	h, row := wound(t)
	b := h.open("").browse()
	for _, width := range []int64{390, 1280} {
		b.do(chromedp.EmulateViewport(width, 844))
		b.visit("/threads/" + row.ID)
		b.do(chromedp.Click(chromedp.CSS("a.child")))
		b.leaves("/threads/" + row.ID)
		b.shows("built")
		child := h.parts(row)[store.KindCall][0]
		if at := js[string](b, "location.pathname"); at != "/threads/"+child.ID {
			t.Errorf("the call leads to %s", at)
		}
		b.do(chromedp.Click(chromedp.CSS(`.crumbs a[href*="/threads/"]`)))
		b.leaves("/threads/" + child.ID)
		b.shows("Main thread")
		if at := js[string](b, "location.pathname + location.search + location.hash"); at != "/threads/"+row.ID+"?from=1#s1" {
			t.Errorf("back up is %s", at)
		}
		if top := js[float64](b, `document.querySelector("#s1").getBoundingClientRect().top - document.querySelector("header.top").getBoundingClientRect().bottom`); top < 0 {
			t.Errorf("at %d: the step lies %v px under the header", width, -top)
		}
	}
	b.visit("/tasks/" + row.ID)
	b.shows("inner")
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.said) > 0 {
		t.Errorf("%q", b.said)
	}
}

// The pages of a thread and of its join show why a path failed.
func TestWhyAPathFailed(t *testing.T) {
	done := say("---\n$status: done\n---\nIt is done.")
	cut := scripted(func(context.Context, agent.Request, func(agent.Event) error) (agent.Result, error) {
		return agent.Result{}, &agent.Failure{Kind: agent.Refused, Message: "the wire is <b>cut</b>"}
	})
	h := newHouse(t, map[string]scripted{"plan": done, "code": done, "api": done, "db": cut})
	row := h.winds()
	if row.Status != store.Failed {
		t.Fatalf("%s: %+v", row.Status, row.Reason)
	}
	steps, err := h.controller().Reader().Steps(t.Context(), row.Head)
	if err != nil {
		t.Fatal(err)
	}
	s := h.open("")
	for _, path := range []string{"/threads/" + row.ID, "/steps/" + steps[len(steps)-2].Hash.String()} {
		if body := s.get(path).body; !strings.Contains(body, "refused: db: refused: the wire is &lt;b&gt;cut&lt;/b&gt;") {
			t.Errorf("%s does not say why:\n%s", path, body)
		}
	}
}
