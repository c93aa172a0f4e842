package web

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestProse(t *testing.T) {
	cite := func(id string) (string, bool) {
		if id == "b" {
			return "", false
		}
		return "/evidence#" + id, id == "a.x-1"
	}
	for text, want := range map[string]string{
		"# One\n\ntwo *three* **four** `five`": "<h2>One</h2>\n<p>two <em>three</em> <strong>four</strong> <code>five</code></p>\n",
		"a\nb\n\nc":                            "<p>a<br>\nb</p>\n<p>c</p>\n",
		"- [ ] a\n- [x] b":                     "<ul>\n<li>☐ a</li>\n<li>☑ b</li>\n</ul>\n",
		"[x](javascript:alert(1))":             "<p>x (javascript:alert(1))</p>\n",
		"![x](http://a/b.png)":                 "<p>x (image: http://a/b.png)</p>\n",
		"<script>x</script>":                   "<pre>&lt;script&gt;x&lt;/script&gt;</pre>\n",
		"a <b onclick=x>b</b>":                 "<p>a &lt;b onclick=x&gt;b&lt;/b&gt;</p>\n",
		"[x](https://a.b/c)": `<p><a href="https://a.b/c" rel="noopener noreferrer nofollow">x</a></p>` +
			"\n",
		"> ```go\n> a<b>\n> ```":     "<blockquote>\n<pre><code>a&lt;b&gt;\n</code></pre>\n</blockquote>\n",
		"by evidence:a.x-1.":         `<p>by <a href="/evidence#a.x-1">evidence:a.x-1</a>.</p>` + "\n",
		"`evidence:a.x-1`":           `<p><code><a href="/evidence#a.x-1">evidence:a.x-1</a></code></p>` + "\n",
		"evidence:b":                 `<p><span class="failed" title="there is no such entry">evidence:b (not there)</span></p>` + "\n",
		"evidence:a.cmd-1":           `<p><a href="/evidence#a.cmd-1">evidence:a.cmd-1</a> <span class="failed" title="the command was declined or interrupted">(proves nothing)</span></p>` + "\n",
		"[evidence:a.x-1](http://a)": `<p><a href="http://a" rel="noopener noreferrer nofollow">evidence:a.x-1</a></p>` + "\n",
		"[x](http://a\"b)":           "<p>x (http://a&#34;b)</p>\n",
		"":                           "",
	} {
		got, err := prose([]byte(text), cite)
		if err != nil || string(got) != want {
			t.Errorf("%q:\n got %q\nwant %q: %v", text, got, want, err)
		}
	}
	if got, _ := prose([]byte("evidence:a.x-1"), nil); got != "<p>evidence:a.x-1</p>\n" {
		t.Errorf("without a resolver: %q", got)
	}
}

// TestProseBounds checks that text that would take long to parse is shown as plain text.
func TestProseBounds(t *testing.T) {
	rep := strings.Repeat
	for name, text := range map[string]string{
		"long": rep("a\n\n", maxProse), "quotations": rep("> ", 1000), "quotations close": rep(">", 1000) + "a",
		"lists": rep("- ", 1000) + "a", "numbers": rep("1. ", 1000) + "a",
		"indented": rep(" ", 2000) + "- a", "brackets": rep("[", 4000), "links": rep("[a](", 2000), "marks": rep("**a_ ", 2000), "code": rep("`a``", 2000), "tags": rep("<a ", 5000),
		"table": "|" + rep("a|", 2000) + "\n|" + rep("-|", 2000) + "\n" + rep("|a\n", 2000),
	} {
		got, err := prose([]byte(text), nil)
		if err != nil || !strings.HasPrefix(string(got), "<pre>") || strings.Count(string(got), "<p") != 1 {
			t.Errorf("%s is drawn: %.80q: %v", name, got, err)
		}
	}
	for name, text := range map[string]string{
		"a report": rep("# A\n\nSee [x](http://a) and `b` and *c*.\n\n- one\n- two\n  - three\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n", 100), "a rule": rep("-", 200), "a rule of stars": rep("* ", 100), "deep enough": rep("> ", 20) + "a",
	} {
		if got, err := prose([]byte(text), nil); err != nil || strings.HasPrefix(string(got), "<pre>") {
			t.Errorf("%s is not drawn: %.80q: %v", name, got, err)
		}
	}
}

var (
	tags    = regexp.MustCompile(`<[^>]*>?`)
	allowed = regexp.MustCompile(`^</?(p|br|hr|h[1-6]|em|strong|del|code|pre|blockquote|ul|ol|li|table|thead|tbody|tr|th|td|a|span)>$|^<(br|hr)/>$|^<ol start="[0-9]+">$|^<t[hd] align="(left|right|center)">$` +
		`|^<a href="(https?:|mailto:)[^"<>]*" rel="noopener noreferrer nofollow">$|^<a href="/evidence#[a-z0-9.-]+">$|^<span class="failed" title="(there is no such entry|the command was declined or interrupted)">$`)
)

// TestClean checks HTML regardless of what rendered it.
func TestClean(t *testing.T) {
	for html, want := range map[string]bool{
		"":                              true,
		"a > b &amp; \"c\"":             true,
		"<p>a<br>b</p>":                 true,
		`<ol start="3"><li>a</li></ol>`: true,
		`<td align="right">`:            true,
		`<a href="mailto:a@b.c" rel="noopener noreferrer nofollow">`:         true,
		`<a href="http://a?b&amp;c" rel="noopener noreferrer nofollow">`:     true,
		`<a href="javascript:alert(1)" rel="noopener noreferrer nofollow">`:  false,
		`<a href="/a" rel="noopener noreferrer nofollow">`:                   false,
		`<a href="http://a" rel="nofollow">`:                                 false,
		`<a href="http://a" onclick="x" rel="noopener noreferrer nofollow">`: false,
		`<a href="http://a<" rel="noopener noreferrer nofollow">`:            false,
		"<p onclick=x>": false, `<p class="a">`: false, `<code class="language-go">`: false, "<P>": false, "<p >": false, "<p\n>": false, "<br/>": false,
		"<script>": false, "</script>": false, "<!-- a -->": false, "<img src=x>": false, "<p": false, "<": false, "a < b": false, "<<p>": false, "<svg/onload=x>": false,
		"<p>a</p><style>": false, `<ol start="x">`: false, `<td align="a">`: false,
	} {
		if got := clean(html); got != want {
			t.Errorf("%s: %t", html, got)
		}
	}
}

// FuzzProse checks that rendered text has only what is allowed.
func FuzzProse(f *testing.F) {
	for _, p := range payloads(f) {
		f.Add(p)
	}
	for _, p := range []string{"|a|b|\n|:-|-:|\n|1|2|", "3. a\n4. b", "<a@b.c> <HTTP://x> evidence:a.b", "[](http://00a0A\"000000)", "[a](http://%zz) [b](http:///c) <http://[> <mailto:a%zz@b.c>", "[evidence:a](http://x \"y\") `<`", "> - # a\n\n~~b~~", "[a]: http://x\n\n[a][]", "a\\\nb  \nc"} {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, text string) {
		cite := func(id string) (string, bool) {
			if len(id)%3 == 0 {
				return "", false
			}
			return "/evidence#" + id, len(id)%2 == 0
		}
		got, err := prose([]byte(text), cite)
		if err != nil {
			t.Fatal(err)
		}
		for _, tag := range tags.FindAllString(string(got), -1) {
			if !allowed.MatchString(tag) {
				t.Fatalf("%q: there is %q in %q", text, tag, got)
			}
		}
		var drawn strings.Builder
		if err := markdown().Convert([]byte(text), &drawn); err != nil || readable([]byte(text)) && !clean(drawn.String()) {
			t.Fatalf("%q is drawn as %q, of which not all may stand: %v", text, drawn.String(), err)
		}
	})
}

// TestPretty checks that deeply nested JSON is not blown up.
func TestPretty(t *testing.T) {
	deep := strings.Repeat("[", 5000) + strings.Repeat("]", 5000)
	if got := pretty(deep); got != deep {
		t.Errorf("it has %d bytes", len(got))
	}
	if got := pretty(`{"a":{"b\"[":[1]}}`); !slices.Contains(strings.Split(got, "\n"), "      1") {
		t.Errorf("%s", got)
	}
}

// Text between backticks is code, and nothing else becomes a tag.
func TestTicked(t *testing.T) {
	for text, want := range map[string]string{
		"fix wants to run `sh <a>`": "fix wants to run <code>sh &lt;a&gt;</code>",
		"one ` alone <b>":           "one ` alone &lt;b&gt;",
		"plain":                     "plain",
	} {
		if got := string(withCode(text)); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
