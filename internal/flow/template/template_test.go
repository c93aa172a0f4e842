package template

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// rendered renders a template that may not use more than b.
func rendered(src string, b *budget) (string, error) {
	t, err := Compile(src)
	if err != nil {
		return "", err
	}
	return t.render(templateData, true, b)
}

var templateData = map[string]any{
	"n": 9e15, "limit": 9e15, "neg": -3.0, "half": 1.5, "huge": 1e300, "text": "hello", "seven": "7", "null": nil,
	"key": "due", "nulls": map[string]any{"due": nil, "list": []any{nil, nil, nil}},
	"files": []any{}, "none": map[string]any{}, "yes": true, "map": map[string]any{"b": 2.0, "a": 1.0},
	"big":  strings.Repeat("abcdefg ", 1<<17),
	"list": []any{map[string]any{"k": "x"}, map[string]any{"k": "y"}, map[string]any{"k": "x"}},
}

// Whatever a template does, it ends, and its error says what ran out.
func TestTemplatesAreBounded(t *testing.T) {
	const rounds, elements, one, all, steps = "rounds of loops", "elements of lists", "bytes in one text",
		"bytes in all texts", "steps"
	loop := func(body string) string { return "{% for i in (1..999) %}" + body + "{% endfor %}" }
	grow := func(body string) string { return "{% assign s = 'ab' %}{% for i in (1..60) %}" + body + "{% endfor %}" }
	tests := []struct{ template, want string }{
		{"{% for i in (1..n) %}{% endfor %}", elements},
		{"{% for i in (1..limit) %}{% endfor %}", elements},
		{"{% for i in (1..n) limit: limit offset: 1 %}{% endfor %}", elements},
		{"{% assign r = (1..n) %}{% for i in r %}{% endfor %}", elements},
		{"{% tablerow i in (1..n) cols: 2 %}{% endtablerow %}", elements},
		{"{{ (1..n) | join }}", elements},
		{"{{ (1..n).size }}", elements},
		{"{{ (1..n) | size }}", elements},
		{"{{ 'a' | append: (1..n) }}", elements},
		{"{% if (1..n) contains 5 %}{% endif %}", elements},
		{"{% case 1 %}{% when (1..n) %}{% endcase %}", elements},
		{"{% for i in (-9223372036854775808..9223372036854775807) %}{% endfor %}", elements},
		{loop("{% for j in (1..999) %}{% endfor %}"), rounds},
		{loop("{% assign r = (1..9999) %}"), elements},
		{loop("{% for j in list %}{% endfor %}"), rounds},
		{loop("{% for j in map %}{% endfor %}"), rounds},
		{"{% for i in (1..1001) %}{% endfor %}", rounds},
		{"{% tablerow i in (1..1001) %}{% endtablerow %}", rounds},
		{"{% for i in (1..1001) reversed %}{% endfor %}", rounds},
		{grow("{% assign s = s | append: s %}"), one},
		{grow("{% assign s = s | prepend: s %}"), one},
		{grow("{% capture s %}{{ s }}{{ s }}{% endcapture %}"), one},
		{grow("{% assign s = s | replace: 'b', s %}"), one},
		{grow("{% assign s = s | split: '' | join: s %}"), one},
		{grow("{% assign s = s | append: '<' | escape | url_encode | append: s %}"), one},
		{"{{ big | replace: '', big }}", one},
		{"{{ big | replace: 'a', big }}", one},
		{"{{ (1..999) | join: big }}", one},
		{"{{ big | split: '' | size }}", elements},
		{"{{ big | split: ' ' | size }}", elements},
		{"{% assign l = list %}" + grow("{% assign l = l | concat: l %}"), elements},
		{"{% assign l = big | split: '#' %}" + grow("{% assign l = l | concat: l %}"), "bytes in one value"},
		{loop("{% assign s = big | upcase %}"), all},
		{loop("{% assign s = big | strip_html %}"), all},
		{"{% capture s %}" + loop(strings.Repeat("y", 90_000)) + "{% endcapture %}", all},
		{"{% for i in (1..500) %}" + strings.Repeat("y", 18_000) + "{% endfor %}", "bytes in the rendered text"},
		{loop("{{ big | size }}"), steps},
		{loop("{% if big contains 'zzz' %}{% endif %}"), steps},
		{loop("{% if big == big %}{% endif %}"), steps},
		{loop("{% case big %}{% when text, big %}{% endcase %}"), steps},
		{loop("{% assign r = (1..9) | sort_natural | sort %}{% assign q = big | split: 'h' | first %}"), steps},
		{loop(strings.Repeat("{% if null %}{% endif %}", 300)), steps},
		{loop(strings.Repeat("{% if text < text or text > text %}{% endif %}", 20)), steps},
		{loop(strings.Repeat("{% assign r = list | uniq | map: 'k' | sort | reverse | where: 'k' | compact %}", 20)), steps},
		{strings.Repeat("{% if text %}", 200_000), "blocks are nested more than 100 deep"},
		{strings.Repeat("{% for i in list %}", 101) + strings.Repeat("{% endfor %}", 101), "nested more than 100 deep"},
		{"{{ text" + strings.Repeat(" | upcase", 100_000) + " }}", "an expression has more than 65536 bytes"},
		{"{% if text" + strings.Repeat(" and text", 100_000) + " %}{% endif %}", "an expression has more than"},
		{"{{ map" + strings.Repeat("[map", 13_000) + strings.Repeat("]", 13_000) + " }}", "undefined variable"},
		{"{{ text | plait_range: n }}", "hello..9000000000000000"},
		{"{{ 0 | date: '%999999999d' }}", "a part of a date may be at most 99 wide"},
	}
	for _, tt := range tests {
		t.Run(clip(tt.template), func(t *testing.T) {
			b := newBudget()
			switch tt.want { // a small budget runs out at once
			case rounds:
				b.rounds = 1000
			case elements:
				b.elements = 100_000
			case steps:
				b.steps = 1 << 20
			}
			out, err := rendered(tt.template, b)
			if err == nil || !strings.Contains(err.Error(), tt.want) || len(err.Error()) > 700 {
				t.Errorf("got %d bytes, %v; want %q", len(out), err, tt.want)
			}
		})
	}
}

// An error names its line, and what the author wrote there.
func TestTemplateErrors(t *testing.T) {
	tests := []struct{ template, want string }{
		{"{{ nope }}", "undefined variable in {{ nope }}"},
		{"a\n{% if yes %}\n{{- nope | append: 'x' }}{{ nope -}}\n{% endif %}", "line 3: undefined variable in {{ nope -}}"},
		{"a\n{% for i in (1..3) %}\n\nb {{ i }}\n{% for j in (1..n) %}\n{% endfor %}{% endfor %}",
			"line 5: over the limit of 1000000 elements of lists in {% for j in (1..n) %}"},
		{"{% for i in list %}\n{{ i.k | abs }}{% endfor %}", `line 2: abs: "x" is not a number in {{ i.k | abs }}`},
		{"{{ ('hello' | abs) }}", `abs: "hello" is not a number in {{ ('hello' | abs) }}`},
		{"{{ 'hello' | join }}", `join: "hello" is not a list in {{ 'hello' | join }}`},
		{"{{ list | sort }}", "sort: the list has values that cannot be compared in {{ list | sort }}"},
		{"{{ '1,a' | split: ',' | concat: map | sort }}",
			"sort: the list has values that cannot be compared in {{ '1,a' | split: ',' | concat: map | sort }}"},
		{"{{ (1..2) | map: 'x' }}", "map: 1 has no fields in {{ (1..2) | map: 'x' }}"},
		{"{{ 5 | times }}", "times: wrong number of arguments (given 0, expected 1) in {{ 5 | times }}"},
		{"{{ text | split }}", "split: wrong number of arguments (given 0, expected 1) in {{ text | split }}"},
		{"{{ text | upcase: 1 }}", "upcase: wrong number of arguments (given 1, expected 0) in {{ text | upcase: 1 }}"},
		{"{{ text | slice: half }}", "slice: 1.5 is not a whole number in {{ text | slice: half }}"},
		{"{{ text | slice: null }}", "slice: null is not a whole number in {{ text | slice: null }}"},
		{"{{ 5 | divided_by: text }}", `divided_by: "hello" is not a number in {{ 5 | divided_by: text }}`},
		{"{{ 5 | modulo: 0 }}", "modulo: division by zero in {{ 5 | modulo: 0 }}"},
		{"{{ 5 | divided_by: 0 }}", "divided_by: division by zero in {{ 5 | divided_by: 0 }}"},
		{"{{ 5 | plus: 1, 2 }}", "plus: wrong number of arguments (given 2, expected 1) in {{ 5 | plus: 1, 2 }}"},
		{"{{ (1..half) }}", "a range needs two whole numbers, not (1..1.5) in {{ (1..half) }}"},
		{"{{ (text..2) }}", "a range needs two whole numbers, not (hello..2) in {{ (text..2) }}"},
		{"{{ (1..huge) }}", "a range needs two whole numbers, not (1..1e+300) in {{ (1..huge) }}"},
		{"{{ 'now' | date }}", `date: "now" would change between renderings in {{ 'now' | date }}`},
		{"{{ yes | date }}", `date: true is not a date in {{ yes | date }}`},
		{"{% for i in list limit: half %}{% endfor %}",
			"limit: 1.5 is not a whole number in {% for i in list limit: half %}"},
		{"{% for i in list offset: text %}{% endfor %}",
			`offset: "hello" is not a whole number in {% for i in list offset: text %}`},
		{"{% for i in list offset: continue %}{% endfor %}",
			"offset: null is not a whole number in {% for i in list offset: continue %}"},
		{"{{ map.nope }}", "undefined variable in {{ map.nope }}"},
		{"{{ null.nope }}", "undefined variable in {{ null.nope }}"},
		{"{{ map[text] }}", "undefined variable in {{ map[text] }}"},
		{"{{ nulls.list[2] }}{{ nulls.list[3] }}", "undefined variable in {{ nulls.list[3] }}"},
		{"{{ list[5] }}", "undefined variable in {{ list[5] }}"},
		{"{{ files[0] }}", "undefined variable in {{ files[0] }}"},
		{"{{ nope | default: null }}", "undefined variable in {{ nope | default: null }}"},
		{"{% break %}", "break outside a loop in {% break %}"},
		{"{% assign forloop = 1 %}{% cycle 'a' %}", "the template cannot be applied to these values"},
		{"{{ 99999999999999999999 }}", "the number 99999999999999999999 is out of range"},
	}
	for _, tt := range tests {
		if out, err := rendered(tt.template, newBudget()); err == nil || err.Error() != tt.want {
			t.Errorf("%s\n got %q, %v\nwant %s", tt.template, out, err, tt.want)
		}
	}
}

// Templates say what they say in Liquid, where the engine alone would not.
func TestTemplatesAreLiquid(t *testing.T) {
	tests := []struct{ template, want string }{
		{"{% if files == empty %}a{% endif %}{% if none == empty %}b{% endif %}{% if list != empty %}c{% endif %}", "abc"},
		{"{% if files == blank %}a{% endif %}{% if blank == null %}b{% endif %}{% if '  ' == blank %}c{% endif %}", "abc"},
		{"{% if null == empty %}no{% endif %}{% if text == blank %}no{% endif %}{{ empty }}{{ blank }}.", "."},
		{"{% case files %}{% when 'x', empty %}a{% else %}b{% endcase %}", "a"},
		{"{% case map %}{% when none %}a{% when map %}b{% endcase %}{% case 5 %}{% when 1, 5 %}c{% endcase %}", "bc"},
		{"{% case 1 %}{% when 1 %}{% case 2 %}{% when 1 %}a{% when 2 %}b{% endcase %}{% endcase %}", "b"},
		{"{% if map == map and list contains map %}no{% elsif list contains list[0] %}yes{% endif %}", "yes"},
		{"{% if map contains 'a' and text contains 'ell' and list != files %}yes{% endif %}", "yes"},
		{"{% if text contains null %}no{% endif %}", ""},
		{"{% assign l = list | map: 'nope' %}{% if l contains null or l contains false %}no{% endif %}{{ l | join: '-' }}", "--"},
		{"{{ files | map: 'k' }}{{ null | compact }}{{ null | sort }}", "[][][]"},
		{"{{ map | last | default: 'none' }} {{ map | first | join: '=' }}", "none a=1"},
		{"{{ 10.1 | minus: 2.2 }} {{ 0.1 | plus: 0.2 }} {{ 0.1 | times: 3 }} {{ 10.1 | modulo: 7 }}", "7.9 0.3 0.3 3.1"},
		{"{{ 9.5 | divided_by: 2 }} {{ -7 | divided_by: 2 }} {{ 7 | divided_by: seven }} {{ 9 | divided_by: 2.0 }}",
			"4.75 -4 1 4.5"},
		{"{{ '<a title=\"x\">&amp;&</a>' | escape }} {{ '&lt;\"&' | escape_once }}",
			"&lt;a title=&quot;x&quot;&gt;&amp;amp;&amp;&lt;/a&gt; &lt;&quot;&amp;"},
		{"{% capture t %}a\nb{% endcapture %}{{ t | newline_to_br }} {{ t | strip_newlines }}", "a<br />\nb ab"},
		{"{{ '<script>x</script>a<!-- <b> -->b<i>c</i>' | strip_html }}", "abc"},
		{"{{ list | sort: 'nope' | map: 'k' | join }} {{ 'b,A,c' | split: ',' | sort_natural | join }}", "x y x A b c"},
		{"{% assign l = '3,20,1' | split: ',' | sort %}{{ l | join }} {{ (1..3) | sort | last }}", "1 20 3 3"},
		{"{{ text | truncate: 4, null }} {{ list | map: 'k' | join: null }} {{ '2024-05-06' | date: null }}", "hell xyx 2024-05-06"},
		{"({{ null | date: '%F' }}) {{ 0 | date: '%F' }} {{ '86400' | date: '%F' }}", "() 1970-01-01 1970-01-02"},
		{"{{ '2024-05-06 07:08' | date: '%FT%T%z' }} {{ '2024-05-06T07:08:09+02:00' | date: '%T%z' }}",
			"2024-05-06T07:08:00+0000 07:08:09+0200"},
		{"{{ map | size }} {{ map.size }} {{ map | first | join }} {{ map | map: 'b' | join }}", "2 2 a 1 2"},
		{"{% for e in map %}{{ e[0] }}={{ e[1] }};{% endfor %}", "a=1;b=2;"},
		{"{{ 'one two' | truncatewords: 5 }}, {{ 'one  two' | truncatewords: 1 }}", "one two, one..."},
		{"{% capture c %}one\ntwo{% endcapture %}{{ c | truncate: 6 }} {{ 'hello' | truncate: 1 }} " +
			"{{ 'hello' | truncate: 4, '' }}", "one... ... hell"},
		{"{% if true and false and false or true %}yes{% else %}no{% endif %}", "no"},
		{"{% if true or false and false %}yes{% else %}no{% endif %}{% if (true and false) or true %}yes{% endif %}",
			"yesyes"},
		{"{{ (1..-3) | join }}{{ (3..1) | size }}{% for i in (5..1) %}no{% else %}none{% endfor %}", "0none"},
		{"{{ (-1..2) | join: ',' }} {{ (1..seven) | last }} {{ (1..3) }}", "-1,0,1,2 7 [1,2,3]"},
		{"{% for i in text %}{{ i }}{% endfor %}{% for i in null %}{% else %}none{% endfor %}", "hellonone"},
		{"{{ 5 | modulo: 3 }} {{ -5 | modulo: 3 }}", "2 1"},
		{"{% for i in (1..9) reversed limit: 2 offset: 1 %}{{ i }}{% endfor %}", "32"},
		{"{% for i in (1..9) limit: 2 reversed offset: 7 %}{{ i }}{% endfor %}", "98"},
		{"{% for i in (1..9) offset: 1 reversed %}{{ i }}{{ forloop.index }} {% endfor %}", "91 82 73 64 55 46 37 28 "},
		{"{% for i in (1..9) reversed limit: neg %}{{ i }}{% else %}none{% endfor %}", "none"},
		{"{% for i in (1..9) offset: -1 limit: 3 %}{{ i }}{% endfor %}{% for i in (1..3) offset: 9 %}no{% endfor %}", "12"},
		{"{% for i in (1..3) offset: limit limit: '2' %}{{ i }}{% else %}none{% endfor %}", "none"},
		{"{% assign reversed = 2 %}{% for i in (1..3) limit: reversed %}{{ i }}{% endfor %}", "12"},
		{"{% for i in text limit: 0 offset: 1 %}{{ i }}{% endfor %}", "hello"},
		{"{% for e in map reversed %}{{ e[0] }}{% endfor %}{% for e in map limit: map.a %}{{ e[0] }}{% endfor %}", "baa"},
		{"{% tablerow i in (1..3) cols: 2 reversed limit: 2 %}{{ i }}{% endtablerow %}",
			`<tr class="row1"><td class="col1">2</td><td class="col2">1</td></tr>`},
		{"{{ null }}{{ nulls.due }}{{ nulls['due'] }}{{ nulls[key] }}{{ nulls.list[0] }}{{ nulls.list.first }}.", "."},
		{"{% for n in nulls.list %}{{ n }}{{ forloop.index }}{% endfor %}{% assign due = null %}{{ due }}.", "123."},
		{"{{ files | first }}{{ files.last }}{{ null | default: nulls.due }}{{ list | map: 'no' | first }}{{ nil }}.", "."},
		{"{% for i in list | map: 'k' limit: 2 %}{{ i }}{% endfor %}{% for c in 'a b' | split: ' ' %}{{ c }}{% endfor %}",
			"xyab"},
		{"{% assign e = files == empty %}{{ e }} {{ 1 == 1.0 }} {{ '1' == 1 }} {{ 2 >= 2 }}", "true true false true"},
		{"{{ 'hello' | slice: -3, 2 }} {{ 'hello' | slice: 1, 99 }} {{ 'hello' | slice: 2, -1 }}{{ 'hi' | slice: 9 }}" +
			"{{ (1..4) | slice: 1, 2 | join }}", "ll ello 2 3"},
		{"{{ list | map: 'k' | uniq | join }} {{ list | append: '!' }}", `x y [{"k":"x"},{"k":"y"},{"k":"x"}]!`},
		{"{{ 1.5 | round: 5000 }} {{ 2.4 | ceil }} {{ -2.4 | floor }} {{ 3.14159 | round: 2 }}", "1.5 3 -3 3.14"},
		{"a {%- for i in (1..2) -%} {{- i -}} , {%- endfor -%} b", "a1,2,b"},
		{"{% raw %}{{ a..b }}{% if %}{% endraw %}{% comment %}{% for %}{{ x == {% endcomment %}", "{{ a..b }}{% if %}"},
		{"{{ 'a..b == c and d' }} {% cycle 'x..y', 'z' %}", ""},
		{"{% for i in (1..3) %}{% cycle 'x..y', 'and' %}{% endfor %}", "x..yandx..y"},
	}
	for _, tt := range tests {
		out, err := rendered(tt.template, newBudget())
		if tt.want == "" && strings.Contains(tt.template, "cycle") {
			if err == nil || !strings.Contains(err.Error(), "cycle must be within a forloop") {
				t.Errorf("%s: %q, %v", tt.template, out, err)
			}
			continue
		}
		if err != nil || out != tt.want {
			t.Errorf("%s\n got %q, %v\nwant %q", tt.template, out, err, tt.want)
		}
	}
}

// Nested loops use up one budget, in whatever order and with whatever breaks.
func TestLoopsShareTheirBudget(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		outer, inner, after := rapid.IntRange(0, 20).Draw(t, "outer"), rapid.IntRange(0, 20).Draw(t, "inner"),
			rapid.IntRange(0, 20).Draw(t, "after")
		stop := rapid.IntRange(1, 20).Draw(t, "stop")
		most := rapid.IntRange(0, 300).Draw(t, "most")
		tpl, err := Compile(fmt.Sprintf("{%% for i in (1..%d) %%}{%% for j in (1..%d) %%}{%% if j == %d %%}{%% break %%}"+
			"{%% endif %%}{%% endfor %%}{%% endfor %%}{%% for i in (1..%d) %%}{%% endfor %%}", outer, inner, stop, after))
		if err != nil {
			t.Fatal(err)
		}
		b := newBudget()
		b.rounds = most
		_, rerr := tpl.render(nil, true, b)
		used := outer + outer*min(inner, stop) + after
		if (rerr != nil) != (used > most) {
			t.Errorf("%d rounds of %d: %v", used, most, rerr)
		}
		if rerr == nil && b.rounds != most-used {
			t.Errorf("%d rounds counted, want %d", most-b.rounds, used)
		}
	})
}

// Whatever the template and the data are, rendering ends without a panic, below its bounds, and
// does the same when it is repeated.
func FuzzRender(f *testing.F) {
	for _, s := range []string{
		"{{ a }}", "{% for i in (1..a) %}{{ i | append: b }}{% endfor %}", "{{ a | slice: b, a | date: b }}",
		"{% if a == b and a contains b or a.b[0] < b %}x{% else %}y{% endif %}", "{%- assign x = a | split: b -%}{{x}}",
		"{% case a %}{% when b, 'x' %}{% when empty %}y{% endcase %}", "{{ a | truncate: b | json | uniq }}",
		"{% tablerow i in a cols: b %}{% cycle 'a', 'b' %}{% endtablerow %}", "{% capture x %}{{ a }}{% endcapture %}{{ x }}",
		"{{ a | sort: b | map: b | where: b, a | concat: a | first }}",
		"{% for i in b reversed limit: a %}{{ forloop }}{% endfor %}",
		"{{ a | times: b | round: a | modulo: b | ceil }}", "{% raw %}{{ a }}{% endraw %}{% comment %}{% endcomment %}",
	} {
		f.Add(s, "hello", 3.0)
		f.Add(s, "-1", 1e300)
	}
	f.Fuzz(func(t *testing.T, src, text string, number float64) {
		foreign := func(err error) bool { // its author did not write that
			return err != nil && strings.Contains(err.Error(), opPrefix) && !strings.Contains(src+text, opPrefix)
		}
		tpl, err := Compile(src)
		if err != nil {
			if foreign(err) {
				t.Error(err)
			}
			return
		}
		values := []any{text, number, nil, []any{text, number, map[string]any{text: number}}, map[string]any{"b": text}}
		for i, a := range values {
			vars := map[string]any{"a": a, "b": values[(i+1)%len(values)]}
			b := budget{rounds: 100, elements: 1000, bytes: 1 << 20, steps: 1 << 20}
			first, second := b, b
			out, err := tpl.render(vars, i%2 == 0, &first)
			if len(out) > maxText || err != nil && out != "" || foreign(err) {
				t.Errorf("%d bytes, %v", len(out), err)
			}
			again, err2 := tpl.render(vars, i%2 == 0, &second)
			if out != again || fmt.Sprint(err) != fmt.Sprint(err2) {
				t.Errorf("got %q, %v, then %q, %v", out, err, again, err2)
			}
		}
	})
}
