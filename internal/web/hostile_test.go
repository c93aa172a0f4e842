package web

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/gate"
	"github.com/plait-run/plait/internal/store"
)

func words(text string) gate.Answer    { return gate.Answer{Text: text, By: "bob", Via: gate.CLI} }
func all(task string) store.GateFilter { return store.GateFilter{Task: task} }

// payloads would do something, if a page took them for markup.
func payloads() []string {
	const js = "window.xss=1;alert(1)"
	var out []string
	for _, tag := range []string{"script", "ScRiPt", "script/x", "script\n", "script\t", "svg><script", "math><script", "noscript><script", "textarea><script", "title><script", "style><script", "template><script", "iframe><script", "xmp><script", "pre></pre><script", "summary></details><script"} {
		out = append(out, "<"+tag+">"+js+"</script>", "</"+tag+"><"+tag+">"+js+"</script>")
	}
	for _, tag := range []string{"img src=x", "svg", "body", "iframe", "video><source", "audio src=x", "input autofocus", "details open", "marquee", "object data=x", "embed src=x", "select autofocus", "textarea autofocus", "a href=# autofocus", "link rel=stylesheet href=x", "div style=animation:x", "svg><animate attributeName=x dur=1s", "button popovertarget=x"} {
		for _, on := range []string{"onerror", "onload", "onfocus", "ontoggle"} {
			out = append(out, "<"+tag+" "+on+"="+js+">")
		}
		out = append(out, `"><`+tag+` onerror="`+js+`">`)
	}
	for _, url := range []string{"javascript:" + js, "JaVaScRiPt:" + js, "java\tscript:" + js, " javascript:" + js, "javascript&colon;" + js, "&#106;avascript:" + js, "data:text/html,<script>" + js + "</script>", "data:image/svg+xml,<svg onload='" + js + "'>", "vbscript:" + js, "//evil.example/x", "https://evil.example/x", "blob:x", "file:///etc/passwd"} {
		out = append(out, url, `<a href="`+url+`">x</a>`, `[x](`+url+`)`, `<iframe src="`+url+`">`, `<form action="`+url+`"><button>x`, `![x](`+url+`)`)
	}
	return append(out,
		`" onmouseover="`+js, `' onmouseover='`+js, "`onmouseover="+js, `x" autofocus onfocus="`+js, "{{.}}", `{{"<script>"}}`, "{{template \"gate\" .}}", "${"+js+"}", "#{"+js+"}", "<%= 1 %>", "</pre><script>"+js+"</script>", "</title><script>"+js+"</script>", "-->"+"<script>"+js+"</script>", "]]><script>"+js+"</script>", "<!--", "<![CDATA[", "<plaintext>",
		"<style>*{display:none}</style>", "<style>@import 'https://evil.example/x.css';</style>", "<div style=\"background:url(https://evil.example/x)\">", "expression("+js+")", `<meta http-equiv=refresh content="0;url=https://evil.example">`, `<meta http-equiv=refresh content="0;url=javascript:`+js+`">`, `<base href="https://evil.example/">`,
		"<link rel=prefetch href=https://evil.example/x>", "<img src=https://evil.example/x.png>", "<img srcset=https://evil.example/x.png>", "<video poster=https://evil.example/x>", "<svg><use href=https://evil.example/x#x>", "<svg><image href=https://evil.example/x>", "<math href=javascript:"+js+">x", "<form id=main><input name=dataset>", "<img name=getElementById>", "<a id=live>", "<main>", "<dialog open>x",
		"\u202e<script>"+js+"</script>", "\u2066x\u2069", "\u200b<\u200bscript>", "\x1b[31mred\x1b]8;;https://evil.example\x07x\x1b]8;;\x07", "\x1b]52;c;eA==\x07", "\u0085\u2028\u2029", "\ufeff", "＜script＞"+js+"＜/script＞", "+ADw-script+AD4-"+js, "%3Cscript%3E"+js+"%3C/script%3E", "&lt;script&gt;"+js+"&lt;/script&gt;", "\\u003cscript\\u003e"+js, "\x00<script>"+js+"</script>", "```mermaid\ngraph TD; a-->b; click a \""+"javascript:"+js+"\"\n```", "$$\\href{javascript:"+js+"}{x}$$")
}

// hostile is an agent that says a payload wherever it can say something.
func hostile(p func() string) scripted {
	return func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
		zero, a, b := 0, p(), p()
		for i, ev := range []agent.Event{
			{Kind: agent.EventMessage, Text: a}, {Kind: agent.EventThought, Text: b}, {Kind: agent.EventCommand, Phase: "completed", Text: a, Output: b, Exit: &zero}, {Kind: agent.EventTool, Phase: "completed", Text: b, Output: a, Detail: mustJSON(a)},
			{Kind: agent.EventFile, Phase: "completed", Files: []agent.File{{Path: a, Change: "add", Diff: "+" + b + "\n-" + a + "\n"}}}, {Kind: agent.EventError, Text: a}, {Kind: agent.EventPlan, Text: b, Detail: mustJSON(b)}, {Kind: agent.EventProgress, Text: a},
		} {
			ev.ID = fmt.Sprint("i", i)
			if err := emit(ev); err != nil {
				return agent.Result{}, err
			}
		}
		for _, name := range []string{a, b} {
			if name = strings.NewReplacer("/", "∕", "\x00", "").Replace(name); len(name) < 200 {
				os.WriteFile(filepath.Join(req.Desk.Artifacts, name), []byte(b), 0o644)
			}
		}
		if req.Role == "fail" {
			return agent.Result{}, &agent.Failure{Kind: "script", Message: a, Final: true}
		}
		meta, _ := json.Marshal(map[string]any{"$status": "done", "what": a, "more": []string{b}})
		return spoken(req, emit, "---\n"+string(meta)+"\n---\n"+a+"\n"+b)
	}
}

func mustJSON(v any) json.RawMessage {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return data
}

const hostileFlow = `
version: 1
name: hostile
roles: {work: {description: works, outputs: {done: {}}}, fail: {description: fails}}
gates: {ask: {kind: input, question: "{{ what }}"}}
graph:
  $START: {new: {role: work, prompt: "{{ prompt }}"}}
  work: {done: {role: ask}}
  ask: {answered: {role: fail, prompt: "{{ what }} {{ answer }}"}}
  fail: {done: {role: $END, prompt: over}}
`

// TestHostile shows what agents said, wherever they can say something, in a real browser:
// nothing of it runs, asks or leads anywhere.
func TestHostile(t *testing.T) {
	corpus := payloads()
	if len(corpus) < 200 {
		t.Fatalf("only %d payloads", len(corpus))
	}
	i := 0
	p := func() string { i++; return corpus[i%len(corpus)] }
	h := newHouse(t, map[string]scripted{"work": hostile(p), "fail": hostile(p)})
	b := h.open("").browse()
	const per = 8 // payloads a prompt
	seen := 0
	for at := 0; at < len(corpus); at += per {
		part := corpus[at:min(at+per, len(corpus))]
		next := at
		p = func() string { next++; return strings.ToValidUTF8(corpus[next%len(corpus)], "") }
		row := h.run(strings.Replace(hostileFlow, "outputs: {done: {}}", "", 1), strings.ReplaceAll(strings.Join(part, "\n"), "{%", "{ %"))
		c := h.controller()
		if _, err := c.Gates().Open(t.Context(), store.Gate{Kind: gate.Approval, Source: gate.Agent, Task: row.ID, Thread: row.ID, Node: part[0], From: row.Head, Question: part[0],
			Action: mustJSON(map[string]any{"type": p(), "command": p(), "cwd": p(), "diff": p(), "tool": p(), "params": map[string]any{p(): p()}, "other": p()})}); err != nil {
			t.Fatal(err)
		}
		paths := []string{"/", "/tasks/" + row.ID, "/threads/" + row.ID, "/steps/" + row.Head.String() + "?thread=" + row.ID, "/tasks/" + row.ID + "?tab=events", "/tasks/" + row.ID + "?tab=evidence", "/tasks/" + row.ID + "?tab=threads"}
		if at%(4*per) == 0 {
			open, err := h.store.Gates(t.Context(), store.GateFilter{Task: row.ID, State: gate.Open})
			if err != nil {
				t.Fatal(err)
			}
			for _, g := range open {
				if g.Kind == gate.Input {
					if _, err := c.Gates().Answer(t.Context(), g.ID, words(part[0])); err != nil {
						t.Fatal(err)
					}
				}
			}
			if row, err = c.Drive(t.Context(), row.ID, resume); err != nil || row.Status == store.Completed {
				t.Fatalf("%s: %v", row.Status, err)
			}
		} else {
			paths = slices.Delete(paths, 6, 7)
		}
		for _, path := range paths {
			b.visit(path)
			if got := js[[]any](b, `(() => { for (const d of document.querySelectorAll("details")) d.open = true;
			  for (const e of document.querySelectorAll("main *")) { e.dispatchEvent(new MouseEvent("mouseover", {bubbles: true})); if (e.focus) e.focus(); }
			  return [window.xss === undefined, document.querySelectorAll("script").length, location.pathname + location.search, document.querySelectorAll("main script,main iframe,main img,main svg:not(details.map > .scroll > .lane > svg.lanes),main object,main embed,main base,main meta,main style,main link").length,
			    [...document.querySelectorAll("main *")].filter((e) => [...e.attributes].some((a) => a.name.startsWith("on") || a.name === "style")).length,
			    [...document.querySelectorAll("a[href]")].filter((a) => a.origin !== location.origin).length]; })()`); fmt.Sprint(got) != fmt.Sprint([]any{true, 1, path, 0, 0, 0}) {
				t.Errorf("%s: %v", path, got)
			}
			seen++
		}
	}
	b.do(chromedp.Navigate("about:blank"))
	b.mu.Lock()
	defer b.mu.Unlock()
	b.said = slices.DeleteFunc(b.said, func(s string) bool { return s == "request: about:blank" })
	if len(b.said) > 0 || seen < 150 {
		t.Errorf("after %d pages: %q", seen, b.said[:min(5, len(b.said))])
	}
}
