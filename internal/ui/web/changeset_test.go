package web

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/testing/housetest"
)

// repository makes the workspace a git repository with these files.
func (h *house) repository(files map[string]string) {
	h.t.Helper()
	for name, text := range files {
		h.write(filepath.Join(h.dir, name), text)
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "."},
		{"-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-qm", "begin"}} {
		cmd := exec.CommandContext(h.t.Context(), "git", args...)
		cmd.Dir = h.dir
		if out, err := cmd.CombinedOutput(); err != nil {
			h.t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
}

const rewriteFlow = `
version: 1
name: rewrite
roles: {mend: {description: mends, access: write}}
graph:
  $START: {new: {role: mend, prompt: "{{ prompt }}"}}
  mend: {done: {role: $END, prompt: over}, failed: {role: $END, code: 1, prompt: over}}
`

// rewrites runs a task whose only step changes files from what they are before to what they are after; an empty text
// removes a file.
func (h *house) rewrites(before, after map[string]string, status string) store.Thread {
	h.t.Helper()
	h.repository(before)
	h.agents["mend"] = func(_ context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
		if _, err := os.Stat(filepath.Join(req.Dir, "docs/old.md")); err != nil && strings.Contains(req.Prompt, "Keep this") {
			after["kept.txt"] = "kept\n"
		}
		for name, text := range after {
			file := filepath.Join(req.Dir, name)
			err := os.MkdirAll(filepath.Dir(file), 0o755)
			if text == "" {
				err = os.RemoveAll(file)
			} else if err == nil {
				err = os.WriteFile(file, []byte(text), 0o644)
			}
			if err != nil {
				return agent.Result{}, err
			}
		}
		return housetest.Answer(req, emit, "---\n$status: "+status+"\n---\nIt is mended.")
	}
	row := h.run(rewriteFlow, "Mend it")
	if !row.Ended() {
		h.t.Fatalf("%s: %+v", row.Status, row.Reason)
	}
	return row
}

// sample returns files of every kind, before a change and after it.
func sample(t testing.TB) (before, after map[string]string) {
	read := func(name string) string {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	route, script, style := read("guard.go"), read("static/task.js"), read("static/pages.css")
	before = map[string]string{
		"internal/web/guard.go": route, "static/task.js": script, "static/pages.css": style,
		"docs/old.md": "# Old\n\nIt is gone.\n", "docs/from.txt": "one\ntwo\nthree\n", "logo.png": "\x89PNG\x00\x01",
		"config.yaml": "port: 80\nhost: localhost # ours\ndebug: false\n",
	}
	after = map[string]string{
		"internal/web/guard.go": strings.NewReplacer("the request comes from another page", "another page sent this request",
			"func ours(r *http.Request) bool {", "func ours(r *http.Request) bool {\n\t// Old browsers say nothing.",
			"0600", "0o600").Replace(route),
		"static/task.js":   strings.NewReplacer("let zoom = 1;", "let zoom = remembered() || 1;", "/ 300", "/ 250").Replace(script),
		"static/pages.css": style + ".new { color: var(--link); }\n",
		"docs/old.md":      "", "docs/from.txt": "", "docs/to.txt": "one\ntwo\nthree\n", "logo.png": "\x89PNG\x00\x02",
		"config.yaml": "port: 8080\nhost: localhost # ours\ndebug: false\nname: \"plait\"\n",
		"new.py":      "\"\"\"Adds.\n\nIn two lines.\"\"\"\n\ndef add(a, b=1):\n    return a + b  # 'both'\n",
		"large.txt":   strings.Repeat("a line\n", 3000),
	}
	return before, after
}

// changesOf returns the address of the page of what a task changed.
func (s *site) changesOf(row store.Thread) string {
	s.t.Helper()
	body := s.get("/tasks/" + row.ID + "?tab=changes").body
	at := regexp.MustCompile(`/threads/[^/"]*/changes\?[^"]*`).FindString(body)
	if at == "" {
		s.t.Fatalf("there is no link to the changes: %s", body)
	}
	return strings.ReplaceAll(at, "&amp;", "&")
}

// TestChanges looks at the page of a change: as a whole, one file, side by side, with unchanged lines, and as a patch.
func TestChanges(t *testing.T) {
	h := newHouse(t, map[string]scripted{})
	before, after := sample(t)
	row := h.rewrites(before, after, "done")
	s := h.open("")
	at := s.changesOf(row)
	file := func(name string) string { return at + "&file=" + url.QueryEscape(name) }
	for path, want := range map[string][]string{
		"/tasks/" + row.ID + "?tab=changes": {"9 files changed", `>mend</span>`, `data-path="new.py"`},
		at: {`<span class="n w">8080</span>`, `<span class="n w">80</span>`, `<span class="tag">deleted</span>`,
			"docs/from.txt → docs/", "A binary file", "97 unchanged lines", `<span class="c"># ours</span>`,
			`<span class="s">&#34;&#34;&#34;Adds.</span>`, `<span class="s">In two lines.&#34;&#34;&#34;</span>`,
			`data-load="/threads/`, `<span class="f">add</span>(a`},
		file("config.yaml"):                                   {"1 file changed", "All files"},
		file("large.txt"):                                     {`data-line="3000"`},
		file("config.yaml") + "&diff=split":                   {`class="code pairs"`, `<td class="none" colspan="2">`},
		file("internal/web/guard.go") + "&whole=true":         {`<span class="k">package</span> web`, "Show 97 unchanged lines", `class="folded"`},
		file("nothing"):                                       {"No files changed."},
		"/threads/" + row.ID + "/changes?from=aaaaaa&to=bbbb": {"The change cannot be shown: "},
	} {
		res := s.get(path)
		for _, want := range want {
			if !strings.Contains(res.body, want) {
				t.Errorf("%s: %d: it does not say %s", path, res.code, want)
			}
		}
	}
	if body := s.get(at).body; strings.Contains(body, `data-line="3000"`) || len(body) > 300_000 {
		t.Errorf("the page has all lines: %d bytes", len(body))
	}
	res := s.get(strings.Replace(at, "/changes", "/patch", 1))
	git := exec.CommandContext(t.Context(), "git", "apply", "--check", "-R", "-")
	git.Dir, git.Stdin = h.dir, strings.NewReader(res.body)
	if out, err := git.CombinedOutput(); err != nil {
		t.Errorf("the patch: %d: %v\n%s", res.code, err, out)
	}
	for _, bad := range []string{"", "?from=x&to=y", "?from=--output=x&to=aa"} {
		for _, page := range []string{"/changes", "/patch"} {
			if res := s.get("/threads/" + row.ID + page + bad); res.code != 400 {
				t.Errorf("%s%s: %d", page, bad, res.code)
			}
		}
	}
}

// key presses a key where the focus is; Shift is held if the name begins with it.
func (b *browser) key(name string) {
	b.t.Helper()
	name, shift := strings.CutPrefix(name, "Shift ")
	js[bool](b, fmt.Sprintf(`document.activeElement.dispatchEvent(new KeyboardEvent("keydown", {key: %q, shiftKey: %t,
		bubbles: true, cancelable: true}))`, name, shift))
}

// waits waits until an expression is true.
func (b *browser) waits(expr string) {
	b.t.Helper()
	eventually(b.t, expr, func() error {
		ok, err := inTime(b, chromedp.Evaluate[bool](expr))
		if err == nil && !ok {
			err = errors.New("it is not so")
		}
		return err
	})
}

// TestChangesByKeys goes through a change by keys, marks a file as viewed, loads lines, and comments on a line: that
// forks the finished task, whose page shows the comment.
func TestChangesByKeys(t *testing.T) {
	h := newHouse(t, map[string]scripted{})
	before, after := sample(t)
	row := h.rewrites(before, after, "done")
	s := h.open("")
	at := s.changesOf(row)
	b := s.browse()
	b.visit(at)
	in := `document.activeElement.closest(".file").dataset.path`
	b.key("n")
	if got := js[string](b, in); got != "config.yaml" {
		t.Errorf("n leads to %s", got)
	}
	b.key("v")
	b.key("n")
	b.key("n")
	b.key("p")
	if got := js[string](b, in); got != "docs/old.md" {
		t.Errorf("n n p leads to %s", got)
	}
	b.visit(at)
	b.waits(`document.querySelector("[data-progress]").textContent === "1 of 9 viewed"`)
	js[string](b, `(document.querySelector('[data-path="large.txt"] summary').click(), "")`)
	b.waits(`document.querySelectorAll('[data-path="large.txt"] a[data-line]').length === 3000`)
	js[string](b, `(document.querySelector('[data-path="docs/old.md"] summary').focus(), "")`)
	b.key("ArrowDown")
	b.key("ArrowDown")
	b.key("Shift ArrowDown")
	b.key("c")
	b.waits(`document.activeElement.matches(".writing textarea")`)
	js[string](b, `(document.activeElement.value = "Keep this", document.querySelector(".writing [data-api]:not(form)").click(), "")`)
	next := h.thread(strings.TrimPrefix(b.leaves("/threads/"+row.ID+"/changes"), "/tasks/"))
	h.ends(next.ID, store.Completed)
	list := h.steps(next.ID)
	state, err := h.controller().Reader().State(t.Context(), list[1])
	if err != nil {
		t.Fatal(err)
	}
	about, is, err := thread.CommentOf(state)
	if !is || err != nil || about.File != "docs/old.md" || about.Line != 2 || about.EndLine != 3 {
		t.Errorf("%s: %+v: %v", state.Meta, about, err)
	}
	text, err := h.controller().Reader().Text(t.Context(), state.Content)
	if want := "About docs/old.md:2-3:\n\n> \n> It is gone.\n\nKeep this"; err != nil || text != want {
		t.Errorf("the agent reads %q, want %q: %v", text, want, err)
	}
	if page := s.get("/compare?a=" + row.ID + "&b=" + next.ID).body; !strings.Contains(page, "1 file changed") ||
		!strings.Contains(page, `data-path="kept.txt"`) {
		t.Error("the files of both are not compared")
	}
	q, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	changes := "/threads/" + next.ID + "/changes?" + q.RawQuery
	for _, page := range []string{changes, changes + "&file=docs%2Fold.md", "/steps/" + list[0].String() + "?thread=" + next.ID,
		"/tasks/" + next.ID + "?at=" + list[0].String()} {
		if _, said, _ := strings.Cut(s.get(page).body, `class="given"`); !strings.Contains(said, "<p>Keep this</p>") {
			t.Errorf("%s: the comment is not shown at its line", page)
		}
	}
	for _, bad := range []string{`"about":"docs/old.md"`, `"about":"docs/old.md:4"`, `"about":"none:1"`, `"about":"docs/old.md:0"`,
		`"about":"docs/old.md:3-2"`, `"about":"docs/old.md:3","tree":"main"`} {
		if !strings.Contains(bad, "tree") {
			bad += `,"tree":"` + q.Query().Get("from") + `"`
		}
		s.refused("/api/v1/threads/"+row.ID+"/fork", `{"text":"x",`+bad+`}`, 400, "")
	}
	b.silent()
}

// TestRemarkOn checks who reads a comment on a change of a thread.
func TestRemarkOn(t *testing.T) {
	srv := newHouse(t, nil).server()
	thread := func(id string, s store.Status) store.Thread { return store.Thread{ID: id, Status: s} }
	for want, x := range map[string][2]store.Thread{
		"/api/v1/tasks/part/resume": {thread("part", store.Running), thread("root", store.Running)},
		"/api/v1/tasks/root/resume": {thread("part", store.Completed), thread("root", store.Running)},
		"/api/v1/tasks/root/retry":  {thread("part", store.Completed), thread("root", store.Failed)},
		"/api/v1/threads/root/fork": {thread("part", store.Completed), thread("root", store.Completed)},
	} {
		if got := srv.remarkOn(x[0], x[1]).Ways[0].API; got != want {
			t.Errorf("%s part of a %s task: %s, want %s", x[0].Status, x[1].Status, got, want)
		}
	}
}

// TestReasonOfDenial comments on a line of what an agent wants to merge: the comment goes into the answer.
func TestReasonOfDenial(t *testing.T) {
	h := newHouse(t, gatedAgents())
	row := h.run(gated, "Release")
	h.asksMore(row, 1)
	b := h.open("").browse()
	if page := b.get("/gates/g-0000000001/changes").body; !strings.Contains(page, "sum.go") || strings.Contains(page, "data-use") {
		t.Error("where there is no answer to write, a comment can be added to it")
	}
	b.visit("/tasks/" + row.ID + "?at=g-0000000001")
	js[string](b, `(document.querySelector('#gate-g-0000000001 [data-path="sum.go"] a[data-line="2"]').click(), "")`)
	b.waits(`document.activeElement.matches(".writing textarea")`)
	js[string](b, `(document.activeElement.value = "Why not all?", document.querySelector(".writing [data-use]").click(), "")`)
	js[string](b, `(document.querySelector('#gate-g-0000000001 [data-path="sum.go"] td.n:not(.del) > a[data-line="3"]').click(), "")`)
	js[string](b, `(document.querySelector(".writing [data-above]").click(), "")`)
	b.waits(`document.querySelector(".writing [data-where]").innerText === "Lines 2 to 3 of sum.go"`)
	js[string](b, `(document.activeElement.value = "All of them.", document.querySelector(".writing [data-use]").click(), "")`)
	want := "sum.go:2\n> \tfor _, v := range n[1:] {\nWhy not all?" +
		"\n\nsum.go:2-3\n> \tfor _, v := range n {\n> \t\tsum += v\nAll of them."
	if got := js[string](b, `document.querySelector("#gate-g-0000000001 form.answer textarea").value`); got != want {
		t.Errorf("the answer is %q, want %q", got, want)
	}
}

// TestHostileChanges shows files whose names and lines are written to break out of the page.
func TestHostileChanges(t *testing.T) {
	t.Parallel()
	h := newHouse(t, map[string]scripted{})
	before, after := map[string]string{"a": "a\n"}, map[string]string{}
	for _, s := range sprays(t, maxFiles, 1<<20) {
		for i, name := range s.names("name") {
			if name = strings.TrimRight(name, " "); len(name) < 200 {
				after[name+".go"] = "package x // " + strings.ReplaceAll(s.each("line")[i], "\x00", "") + "\n"
			}
		}
	}
	row := h.rewrites(before, after, "done")
	s := h.open("")
	at, seen := s.changesOf(row), shown{}
	b := s.browse()
	b.harmless(seen, "/tasks/"+row.ID+"?tab=changes", at, at+"&diff=split")
	if lacks := seen.lacks(t, "name", "line"); len(lacks) > 0 {
		t.Errorf("not shown: %q", lacks)
	}
	b.silent()
}

// TestPicturesOfChanges looks at changes as [TestEveryPage] does at pages.
func TestPicturesOfChanges(t *testing.T) {
	h := newHouse(t, map[string]scripted{})
	before, after := sample(t)
	row := h.rewrites(before, after, "done")
	s := h.open("")
	at := s.changesOf(row)
	from := strings.TrimPrefix(regexp.MustCompile(`from=\w+`).FindString(at), "from=")
	fork := s.asks("/api/v1/threads/"+row.ID+"/fork", `{"text":"Keep this line.","about":"docs/old.md:3","tree":"`+from+`"}`)
	h.ends(fork.Thread, store.Completed)
	b, source := s.browse(), axe(t)
	for name, path := range map[string]string{"task": "/tasks/" + row.ID, "all": strings.Replace(at, row.ID, fork.Thread, 1),
		"split": at + "&diff=split", "whole": at + "&whole=true&file=" + url.QueryEscape("internal/web/guard.go")} {
		b.look(framed{"changes-" + name, path}, source, os.Getenv("PLAIT_PICTURES"))
	}
}
