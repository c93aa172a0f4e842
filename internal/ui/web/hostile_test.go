package web

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/testing/soak"
)

func words(text string) gate.Answer    { return gate.Answer{Text: text, By: "bob", Via: store.ViaCLI} }
func all(task string) store.GateFilter { return store.GateFilter{Task: task} }

// payloads returns texts that would do something if a page took them for markup: all in CI, a sample elsewhere.
func payloads(t testing.TB) (some []string) {
	all := everyPayload()
	for i := 0; i < len(all); i += len(all) / soak.Rounds(t, soak.Tries(len(all), len(all))) {
		some = append(some, all[i])
	}
	return some
}

func everyPayload() []string {
	const js = "window.xss=1;alert(1)"
	var out []string
	for _, tag := range []string{"script", "ScRiPt", "script/x", "script\n", "script\t", "svg><script", "math><script",
		"noscript><script", "textarea><script", "title><script", "style><script", "template><script", "iframe><script",
		"xmp><script", "pre></pre><script", "summary></details><script"} {
		out = append(out, "<"+tag+">"+js+"</script>", "</"+tag+"><"+tag+">"+js+"</script>")
	}
	for _, tag := range []string{"img src=x", "svg", "body", "iframe", "video><source", "audio src=x", "input autofocus",
		"details open", "marquee", "object data=x", "embed src=x", "select autofocus", "textarea autofocus",
		"a href=# autofocus", "link rel=stylesheet href=x", "div style=animation:x", "svg><animate attributeName=x dur=1s",
		"button popovertarget=x"} {
		for _, on := range []string{"onerror", "onload", "onfocus", "ontoggle"} {
			out = append(out, "<"+tag+" "+on+"="+js+">")
		}
		out = append(out, `"><`+tag+` onerror="`+js+`">`)
	}
	for _, url := range []string{"javascript:" + js, "JaVaScRiPt:" + js, "java\tscript:" + js, " javascript:" + js,
		"javascript&colon;" + js, "&#106;avascript:" + js, "data:text/html,<script>" + js + "</script>",
		"data:image/svg+xml,<svg onload='" + js + "'>", "vbscript:" + js, "//evil.example/x", "https://evil.example/x",
		"blob:x", "file:///etc/passwd"} {
		out = append(out, url, `<a href="`+url+`">x</a>`, `[x](`+url+`)`, `<iframe src="`+url+`">`,
			`<form action="`+url+`"><button>x`, `![x](`+url+`)`)
	}
	return append(out,
		`" onmouseover="`+js, `' onmouseover='`+js, "`onmouseover="+js, `x" autofocus onfocus="`+js, "{{.}}", `{{"<script>"}}`, "{{template \"gate\" .}}", "${"+js+"}", "#{"+js+"}", "<%= 1 %>", "</pre><script>"+js+"</script>", "</title><script>"+js+"</script>", "-->"+"<script>"+js+"</script>", "]]><script>"+js+"</script>", "<!--", "<![CDATA[", "<plaintext>",
		"<style>*{display:none}</style>", "<style>@import 'https://evil.example/x.css';</style>", "<div style=\"background:url(https://evil.example/x)\">", "expression("+js+")", `<meta http-equiv=refresh content="0;url=https://evil.example">`, `<meta http-equiv=refresh content="0;url=javascript:`+js+`">`, `<base href="https://evil.example/">`,
		"<link rel=prefetch href=https://evil.example/x>", "<img src=https://evil.example/x.png>", "<img srcset=https://evil.example/x.png>", "<video poster=https://evil.example/x>", "<svg><use href=https://evil.example/x#x>", "<svg><image href=https://evil.example/x>", "<math href=javascript:"+js+">x", "<form id=main><input name=dataset>", "<img name=getElementById>", "<a id=live>", "<main>", "<dialog open>x",
		"\u202e<script>"+js+"</script>", "\u2066x\u2069", "\u200b<\u200bscript>", "\x1b[31mred\x1b]8;;https://evil.example\x07x\x1b]8;;\x07", "\x1b]52;c;eA==\x07", "\u0085\u2028\u2029", "\ufeff", "＜script＞"+js+"＜/script＞", "+ADw-script+AD4-"+js, "%3Cscript%3E"+js+"%3C/script%3E", "&lt;script&gt;"+js+"&lt;/script&gt;", "\\u003cscript\\u003e"+js, "\x00<script>"+js+"</script>", "```mermaid\ngraph TD; a-->b; click a \""+"javascript:"+js+"\"\n```\n", "$$\\href{javascript:"+js+"}{x}$$")
}

// A spray is a part of the payloads, to be put into every field. Each is marked with the field
// and its number, so that tests can tell which were shown.
type spray struct {
	at   int
	part []string
}

// sprays splits all payloads into sprays of at most the given number of payloads and bytes.
func sprays(t *testing.T, most, bytes int) (out []spray) {
	t.Helper()
	all, size := payloads(t), 0
	if n := len(everyPayload()); n < 200 {
		t.Fatalf("only %d payloads", n)
	}
	for i, p := range all {
		if len(p) > 150 {
			t.Fatalf("payload %d is too long for a title", i)
		}
		if size += len(p) + 20; len(out) == 0 || len(out[len(out)-1].part) == most || size > bytes {
			out, size = append(out, spray{at: i}), len(p)+20
		}
		out[len(out)-1].part = append(out[len(out)-1].part, p)
	}
	return out
}

// each returns the payloads, marked for a field.
func (s spray) each(field string) (out []string) {
	for i, p := range s.part {
		out = append(out, fmt.Sprintf("%s ;%s_%d_", strings.ToValidUTF8(p, ""), field, s.at+i))
	}
	return out
}

// all returns the payloads as one text.
func (s spray) all(field string) string { return strings.Join(s.each(field), "\n\n") }

// said returns the payloads as a text that a person can say: one with a NUL is refused.
func (s spray) said(field string) string { return store.Text(s.all(field)) }

// names returns the payloads as file names.
func (s spray) names(field string) (out []string) {
	for _, name := range s.each(field) {
		out = append(out, strings.NewReplacer("/", "∕", "\x00", "").Replace(name))
	}
	return out
}

func mustJSON(v any) json.RawMessage {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return data
}

// shown records what pages have shown: by field, the numbers of the payloads.
type shown map[string]map[string]bool

// lacks lists the payloads of fields that were not shown.
func (s shown) lacks(t testing.TB, fields ...string) (out []string) {
	for _, f := range fields {
		for i, p := range payloads(t) {
			if !s[f][fmt.Sprint(i)] {
				out = append(out, fmt.Sprintf("%s: %q", f, p))
			}
		}
	}
	return out
}

// harmlessPage inspects the open page: no payload may have run or navigated away, and all
// markup must be the page's own.
const harmlessPage = `(() => {
  for (const d of document.querySelectorAll("details")) d.open = true;
  for (const e of document.querySelectorAll("main *")) e.dispatchEvent(new MouseEvent("mouseover", {bubbles: true}));
  for (const e of document.querySelectorAll("main :is(a,input,button,textarea,select,summary,[tabindex],[autofocus],[contenteditable])")) e.focus({preventScroll: true});
  const count = (q) => document.querySelectorAll(q).length, wrong = [];
  const none = (what, n) => { if (n) wrong.push(n + " " + what); };
  if (window.xss !== undefined) wrong.push("a script ran");
  none("scripts", count("script") - 4);
  none("elements", count("main :is(script,iframe,img,image,use,foreignObject,object,embed,base,meta,style,link,video,audio,source,math,template,dialog,plaintext,marquee,animate,set)"));
  none("drawings", count("main svg:not(.plot > svg.timeline):not(svg.timeline svg):not(.flowmap > svg.graph):not(.costs svg)"));
  none("elements in drawings", count("svg.timeline *:not(svg,a,path,rect,circle,line,title,text)") + count(".costs svg *:not(rect)") +
	count("svg.graph *:not(g,path,polygon,title,text,rect,a)"));
  none("names in prose", count(".prose :is([id],[name],[class]:not(span.failed),form,input,button,svg)"));
  for (const e of document.querySelectorAll("body *")) for (const a of e.attributes)
    if (a.name.startsWith("on") ||
	["style", "srcset", "srcdoc", "background", "formaction", "ping", "autofocus",
	"http-equiv"].includes(a.name)) wrong.push(e.nodeName + " " + a.name);
  for (const a of document.querySelectorAll("a[href], form[action]")) {
    const to = new URL(a.getAttribute("href") || a.getAttribute("action"), location.href);
    if (to.origin === location.origin && (to.protocol === "http:")) continue;
    if (a.matches("main .prose a") && a.attributes.length === 2 && a.rel === "noopener noreferrer nofollow" &&
	["http:", "https:", "mailto:"].includes(to.protocol)) continue;
    wrong.push(a.outerHTML.slice(0, 200));
  }
  const seen = new Set((document.documentElement.outerHTML.match(/;[a-z]+_\d+_/g) || []));
  return JSON.stringify([location.pathname + location.search, wrong, [...seen]]);
})()`

// harmless visits pages and checks each with harmlessPage; what they show is added to seen.
func (b *browser) harmless(seen shown, paths ...string) {
	b.t.Helper()
	for _, path := range paths {
		b.visit(path)

		var at string
		var wrong, marks []string
		if err := json.Unmarshal([]byte(js[string](b, harmlessPage)), &[]any{&at, &wrong, &marks}); err != nil {
			b.t.Fatal(err)
		}
		if at != path || len(wrong) > 0 {
			b.t.Errorf("%s: at %s there are %q", path, at, wrong[:min(len(wrong), 5)])
		}
		for _, m := range marks {
			field, i, _ := strings.Cut(strings.Trim(m, ";_"), "_")
			if seen[field] == nil {
				seen[field] = map[string]bool{}
			}
			seen[field][i] = true
		}
	}
}

// silent checks that there were no dialogs, requests or violations while pages were open.
func (b *browser) silent() {
	b.t.Helper()
	b.do(chromedp.Navigate("about:blank"))
	b.mu.Lock()
	defer b.mu.Unlock()
	b.said = slices.DeleteFunc(b.said, func(s string) bool { return s == "request: about:blank" })
	if len(b.said) > 0 {
		b.t.Errorf("%q", b.said[:min(5, len(b.said))])
	}
}
