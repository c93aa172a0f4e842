package web

import (
	"archive/zip"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/testing/housetest"
	"github.com/plait-run/plait/internal/view"
)

const twoWays = `
version: 1
name: twoways
roles: {first: {description: begins}, left: {description: l}, right: {description: r}, last: {description: ends}}
forks:
  split: {forkStrategy: parallel, forkPaths: [{pathId: l, childNodeId: left}, {pathId: r, childNodeId: right}]}
joins:
  met: {forkPathIds: [l, r], joinStrategy: ALL_COMPLETED}
graph:
  $START: {new: {role: first, prompt: "{{ prompt }}"}}
  first: {again: {role: first, prompt: more}, done: {role: split, prompt: go}}
  left: {done: {role: met}}
  right: {done: {role: met}}
  met: {joined: {role: last, prompt: all}}
  last: {done: {role: $END, prompt: over}}
`

// manyWays returns a flow that forks into n paths.
func manyWays(n int) string {
	var paths, ids []string
	for i := range n {
		id := fmt.Sprintf("action-%03d", i)
		paths, ids = append(paths, fmt.Sprintf("{pathId: %s, childNodeId: look}", id)), append(ids, id)
	}
	return fmt.Sprintf(`
version: 1
name: manyways
limits: {maxConcurrent: 16, maxRounds: 1000}
roles: {scope: {description: s}, look: {description: l}, report: {description: r}}
forks: {split: {forkStrategy: parallel, forkPaths: [%s]}}
joins: {met: {forkPathIds: [%s], joinStrategy: ALL_COMPLETED}}
graph:
  $START: {new: {role: scope, prompt: "{{ prompt }}"}}
  scope: {done: {role: split, prompt: go}}
  look: {done: {role: met}}
  met: {joined: {role: report, prompt: all}}
  report: {done: {role: $END, prompt: over}}
`, strings.Join(paths, ", "), strings.Join(ids, ", "))
}

// mendFlow is a flow whose paths change files.
var mendFlow = strings.NewReplacer("name: twoways", "name: mend", "{description: l}", "{description: l, access: write}",
	"{description: r}",
	"{description: r, access: write}").Replace(twoWays)

// mends runs mendFlow in a git repository; a path writes text to file.
func (h *house) mends(file, text string) store.Thread {
	h.t.Helper()
	h.repository(map[string]string{"sum.go": "package sum\n\nfunc Sum(a, b int) int {\n\treturn a - b\n}\n"})
	writes := func(name, text, answer string) scripted {
		return func(_ context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
			if err := os.WriteFile(filepath.Join(req.Dir, name), []byte(text), 0o644); err != nil {
				return agent.Result{}, err
			}
			return housetest.Answer(req, emit, answer)
		}
	}
	const done = "---\n$status: done\n---\n"
	tried := 0
	h.agents["first"] = func(_ context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
		if tried++; tried == 1 {
			return agent.Result{}, &agent.Failure{Kind: agent.Infra, Message: "the line was <b>lost</b>"}
		}
		return housetest.Answer(req, emit, done+"Two things.")
	}
	h.agents["left"] = writes("sum.go", "package sum\n\nfunc Sum(a, b int) int {\n\treturn a + b\n}\n", done+"It adds.")
	h.agents["right"] = writes(file, text, "---\n$status: done\ntestsAdded: 3\n---\n")
	h.agents["last"] = say(done + "**Sum** adds again.")
	row := h.run(mendFlow, "Fix Sum")
	if row.Status != store.Completed {
		h.t.Fatalf("%s: %+v", row.Status, row.Reason)
	}
	return row
}

// TestProgramText looks at what a program printed: line by line, unless it says that it is Markdown. What a model
// says is Markdown.
func TestProgramText(t *testing.T) {
	program := func(head, text string) scripted {
		return func(context.Context, agent.Request, func(agent.Event) error) (agent.Result, error) {
			return agent.Result{Output: []byte("---\n$status: done\n" + head + "---\n" + text), Exit: new(int)}, nil
		}
	}
	const list = "go.mod *\nsum.go *\n"
	asItIs, drawn := "<pre>go.mod *\nsum.go *\n</pre>", "<p>go.mod *<br>\nsum.go *</p>"
	for name, x := range map[string]struct {
		by   scripted
		want string
	}{
		"a program":         {program("", list), asItIs},
		"which is Markdown": {program("$format: markdown\n", list), drawn},
		"a model":           {say("---\n$status: done\n---\n" + list), drawn},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t, map[string]scripted{"work": x.by})
			row := h.run(chatty, "list")
			s := h.open("")
			step := h.did(t, row, "work")
			for _, path := range []string{"/tasks/" + row.ID + "?tab=output&at=" + step.String(), "/threads/" + row.ID, "/steps/" + step.String()} {
				page := s.get(path).body
				if !strings.Contains(page, x.want) {
					t.Errorf("%s: it is not shown as %q:\n%s", path, x.want, page)
				}
				if strings.Contains(page, "<dt>Format</dt>") {
					t.Errorf("%s: the format is shown", path)
				}
			}
		})
	}
	h := newHouse(t, map[string]scripted{"assistant": program("", list)})
	if page := h.open("").get("/chats/" + h.chat("list").ID).body; !strings.Contains(page, asItIs) {
		t.Errorf("the conversation:\n%s", page)
	}
}

// TestResultAndChanges checks that the page of a finished task has its result and the files it changed.
func TestResultAndChanges(t *testing.T) {
	h := newHouse(t, map[string]scripted{})
	row := h.mends("note.txt", "<script>alert(1)</script>\n"+strings.Repeat("a line\n", 200))
	s := h.open("")
	if body := s.get("/tasks/" + row.ID).body; !strings.Contains(body, `<div class="result">`) ||
		!strings.Contains(body, " in 2 files</a>") {
		t.Error("the page has not its result and how much it changed")
	}
	body := s.get("/tasks/" + row.ID + "?tab=changes").body
	for _, want := range []string{
		"2 files changed", `<span class="soft"></span>sum.go</span>`,
		`<span class="k">return</span> a <span class="w">&#43;</span> b`,
		`<span class="add">+1</span> <span class="del">−1</span>`, "&lt;script&gt;alert(1)", `<span class="by soft">l</span>`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("the page does not say %s", want)
		}
	}
	list := h.steps(row.ID)
	for at, want := range map[string][]string{
		"?tab=log&at=" + list[0].String(): {"earlier attempts", "the line was &lt;b&gt;lost&lt;/b&gt;",
			">attempt 1</a>"},
		"?at=" + row.ID + ".1":                              {"the line was &lt;b&gt;lost&lt;/b&gt;", `class="state failed"`},
		"?at=" + h.did(t, row, "right").String():            {"note.txt", "/r/"},
		"?tab=output&at=" + h.did(t, row, "right").String(): {"<dt>Tests added</dt><dd>3</dd>"},
	} {
		res := s.get("/tasks/" + row.ID + at)
		chosen := res.body[max(0, strings.Index(res.body, `class="chosen"`)):]
		for _, want := range want {
			if !strings.Contains(strings.ToLower(chosen), strings.ToLower(want)) {
				t.Errorf("%s: %d: it does not say %s", at, res.code, want)
			}
		}
	}
	filtered := s.get("/tasks/" + row.ID + "?state=done").body
	_, rest, _ := strings.Cut(filtered, `<nav class="filter`)
	_, rest, _ = strings.Cut(rest, "</nav>")
	links := regexp.MustCompile(`href="/tasks/`+row.ID+`[^"]*"[^>]* data-here`).FindAllString(rest, -1)
	if len(links) < 10 || slices.ContainsFunc(links, func(l string) bool { return !strings.Contains(l, "state=done") }) {
		t.Errorf("links that lose the filter: %q", links)
	}
	for at, code := range map[string]int{"?at=x": 400, "?at=" + row.ID + ".99": 404, "?at=g-0": 404, "?tab=graph": 400} {
		if res := s.get("/tasks/" + row.ID + at); res.code != code {
			t.Errorf("%s: %d, want %d", at, res.code, code)
		}
	}
	res := s.get("/tasks/" + row.ID + "/export")
	if z, err := zip.NewReader(strings.NewReader(res.body), int64(len(res.body))); err != nil || len(z.File) < 10 {
		t.Errorf("the export: %d, %d bytes: %v", res.code, len(res.body), err)
	}
	if other := h.run(twoWays, "once more"); !strings.Contains(s.get("/tasks/"+other.ID+"?tab=changes").body,
		`<p class="soft">No files changed.</p>`) {
		t.Error("it does not say that there are no changes")
	}
	ok := say("---\n$status: done\n---\n")
	bare := newHouse(t, map[string]scripted{"first": ok, "left": ok, "right": ok, "last": ok})
	other := bare.run(twoWays, "outside a repository")
	if !strings.Contains(bare.open("").get("/tasks/"+other.ID+"?tab=changes").body,
		"No changes were recorded: that takes a Git repository.") {
		t.Error("it does not say why no changes are known")
	}
}

// TestMessageIsNoAnswer checks that words for the agents are not asked for where they would answer a question.
func TestMessageIsNoAnswer(t *testing.T) {
	h := newHouse(t, gatedAgents())
	s := h.open("")
	for yaml, offered := range map[string]bool{asking: false, gated: true} {
		row := h.run(yaml, "x")
		lease, err := h.store.Acquire(t.Context(), row.ID)
		if err != nil {
			t.Fatal(err)
		}
		defer lease.Release()
		if strings.Contains(s.get("/tasks/"+row.ID).body, `data-key="message"`) != offered {
			t.Errorf("a message is to be offered: %t", offered)
		}
	}
}

// TestLinkAway follows a link of a timeline to another page: it is not drawn in the place of the task's.
func TestLinkAway(t *testing.T) {
	h := newHouse(t, gatedAgents())
	row := h.run(gated, "x")
	b := h.open("").browse()
	b.visit("/tasks/" + row.ID)
	js[int](b, `(document.querySelector(".names a").setAttribute("href", "/threads/`+row.ID+`"), window.mark = 1)`)
	b.do(chromedp.Click(chromedp.CSS(".names a")))
	b.leaves("/tasks/" + row.ID)
	if js[bool](b, "window.mark === 1") {
		t.Error("it is drawn in place")
	}
	js[bool](b, "history.back() === undefined")
	b.leaves("/threads/" + row.ID)
}

// TestWorktreesThatStay checks that the page of a task names them.
func TestWorktreesThatStay(t *testing.T) {
	h := newHouse(t, map[string]scripted{})
	h.write(filepath.Join(h.dir, ".gitignore"), "*.o\n")
	row := h.mends("a&b.o", "work")
	body := h.open("").get("/tasks/" + row.ID + "?tab=changes").body
	for _, want := range []string{"1 file changed",
		"its worktree stays, since it has what cannot be merged: a&amp;b.o (ignored by Git)"} {
		if !strings.Contains(body, want) {
			t.Errorf("the page does not say %s", want)
		}
	}
}

// did returns the step of a role on the timeline of a task.
func (h *house) did(t *testing.T, row store.Thread, role string) dag.Hash {
	t.Helper()
	views := view.Reader{Store: h.store, Nodes: h.controller().Reader(), Workspace: h.dir}
	task, err := views.Record(t.Context(), row)
	if err != nil {
		t.Fatal(err)
	}
	tl, err := views.Timeline(t.Context(), task, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range tl.Lanes {
		for _, b := range l.Bars {
			if b.Role == role {
				return b.Step
			}
		}
	}
	t.Fatalf("nobody did %s", role)
	return dag.Hash{}
}

// TestTwoHundredActions shows them on one axis, at phone and desktop widths, and selects them with keys.
func TestTwoHundredActions(t *testing.T) {
	const done = "---\n$status: done\n---\nIt is fine."
	h := newHouse(t, map[string]scripted{"scope": say(done), "look": say(done), "report": say(done)})
	row := h.run(manyWays(200), "Audit every package")
	b := h.open("").browse()
	for _, width := range []int64{390, 1440} {
		b.do(chromedp.EmulateViewport(width, 900))
		b.visit("/tasks/" + row.ID)
		got := js[[]int](b, `(() => {
		  const pane = document.querySelector(".pane"), plot = document.querySelector(".plot").getBoundingClientRect(), p = pane.getBoundingClientRect();
		  const names = [...document.querySelectorAll(".names li")], bars = [...document.querySelectorAll("svg.timeline .item.bar")];
		  const outside = bars.filter((e) => { const r = e.querySelector(".body").getBoundingClientRect(); return r.left < plot.left || r.right > plot.right + 1; });
		  const last = bars[bars.length - 1].getBoundingClientRect(), name = names[names.length - 1].getBoundingClientRect();
		  return [document.documentElement.scrollWidth - innerWidth, names.length, bars.length, outside.length, Math.round(plot.right - p.right) > 1 ? 1 : 0,
		    pane.scrollHeight > pane.clientHeight ? 1 : 0, Math.abs(last.top + last.height / 2 - name.top - name.height / 2) < 3 ? 0 : 1];
		})()`)
		if want := []int{0, 203, 202, 0, 0, 1, 0}; !slices.Equal(got, want) {
			t.Errorf("at %d: too wide, lanes, bars, bars outside, plot outside, scrolled, off its name: %v, want %v", width, got,
				want)
		}
		// Names stay visible when the drawing is zoomed and scrolled.
		b.do(chromedp.Focus(chromedp.CSS(".pane")), chromedp.KeyEvent("+"), chromedp.KeyEvent("+"))
		if got := js[[]int](b, `(() => { const pane = document.querySelector(".pane"); pane.scrollLeft = 1e6; pane.scrollTop = 1e6; const p = pane.getBoundingClientRect(), n = document.querySelector(".names").getBoundingClientRect(),
		  c = document.querySelector(".corner").getBoundingClientRect(); return [Math.round(n.left - p.left), Math.round(c.top - p.top), pane.scrollLeft > 0 ? 1 : 0, document.documentElement.scrollWidth - innerWidth]; })()`); !slices.Equal(got, []int{0, 0, 1, 0}) {
			t.Errorf("at %d, zoomed: names and hours are %v off", width, got)
		}
		b.do(chromedp.KeyEvent("0"))
	}
	at := func() string { return js[string](b, `document.activeElement.getAttribute("aria-label") || ""`) }
	for _, step := range []struct{ key, at string }{
		{kb.Home, "manyways, join"}, {kb.ArrowDown, "scope, step 1"}, {kb.ArrowDown, "action-000, look"},
		{kb.ArrowDown, "action-001, look"}, {kb.ArrowUp, "action-000, look"},
		{kb.End, "report, step"}, {kb.ArrowRight, "report, step"},
	} {
		b.do(chromedp.KeyEvent(step.key))
		if got := at(); !strings.HasPrefix(got, step.at) {
			t.Fatalf("%q leads to %q, want %q", step.key, got, step.at)
		}
	}
	eventually(t, "the step", func() error {
		if got := js[string](b, `(document.querySelector("article.chosen")?.dataset.key.slice(3) ?? "") + " " + new URLSearchParams(location.search).get("at")`); !strings.HasPrefix(got, h.did(t, row, "report").String()+" ") ||
			!strings.HasSuffix(got, h.did(t, row, "report").String()) {
			return fmt.Errorf("chosen is %q", got)
		}
		return nil
	})
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.said) > 0 {
		t.Errorf("%q", b.said)
	}
}

// TestBarsGrow checks that a working agent's bar grows without events or reloads.
func TestBarsGrow(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	h := newHouse(t, map[string]scripted{"plan": say(`{"$status":"ready","what":"the thing"}`),
		"work": func(context.Context, agent.Request, func(agent.Event) error) (agent.Result, error) {
			<-ctx.Done()
			return agent.Result{}, &agent.Failure{Kind: agent.Interrupted, Message: "stopped"}
		}})
	s := h.open("")
	t.Cleanup(end)
	h.flowFile("slow", "\nversion: 1\nname: slow\nroles: {plan: {description: p}, work: {description: w}}\ngraph:\n  $START: {new: {role: plan, prompt: go}}\n  plan: {ready: {role: work, prompt: go}}\n  work: {done: {role: $END, prompt: over}}\n")
	id := s.begun(`{"flow":"slow","prompt":"go"}`)
	b := s.browse()
	b.visit("/tasks/" + id)
	b.shows("running")
	eventually(t, "the bar", func() error {
		if n := js[int](b, `document.querySelectorAll("svg.timeline .item.running").length`); n != 1 {
			return fmt.Errorf("%d bars run", n)
		}
		return nil
	})
	js[int](b, "window.mark = 1")
	share := func() float64 {
		return js[float64](b, `parseFloat(document.querySelector(".item.running .body").getAttribute("width"))`)
	}
	label := func() string {
		return js[string](b, `document.querySelector(".item.running").getAttribute("aria-label")`)
	}
	before, said := share(), label()
	eventually(t, "growth", func() error {
		if label() == said {
			return fmt.Errorf("it still says %s", said)
		}
		return nil
	})
	if now := share(); now < before || now > 100 || js[int](b, "window.mark") != 1 {
		t.Errorf("the bar was %v%% and is %v%%", before, now)
	}
}

// TestVerifyInPlace verifies a task from its page.
func TestVerifyInPlace(t *testing.T) {
	h := newHouse(t, gatedAgents())
	row := h.run(gated, "do it")
	b := h.open("").browse()
	b.visit("/tasks/" + row.ID)
	b.do(chromedp.Click(chromedp.CSS("[data-key=menu] > summary")), chromedp.Click(chromedp.CSS("[data-verify]")))
	b.shows("objects were hashed again and are as they were written")
	b.do(chromedp.EmulateViewport(390, 844))
	for _, key := range []string{"menu"} { // the menus of the buttons must fit a phone
		over := js[int](b, `(() => { const d = document.querySelector(".drop[data-key=`+key+`]"); d.open = true; const r = d.lastElementChild.getBoundingClientRect(); d.open = false; return Math.round(Math.max(-r.left, r.right - innerWidth)); })()`)
		if over > 0 {
			t.Errorf("%s is %d px too wide", key, over)
		}
	}
	if at := js[string](b, "location.pathname"); at != "/tasks/"+row.ID {
		t.Errorf("it led to %s", at)
	}
}
