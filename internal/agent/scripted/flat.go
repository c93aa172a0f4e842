package scripted

import (
	"maps"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// flat follows references and picks alternatives until the schema describes its values
// directly.
func (b *builder) flat(schema any) map[string]any {
	s, _ := schema.(map[string]any)
	for range maxDeep {
		*b.work--
		if *b.work <= 0 {
			break
		}
		var more any
		without := ""
		switch {
		case s["$ref"] != nil:
			without, more = "$ref", b.resolveRef(s["$ref"])
		case s["allOf"] != nil:
			without = "allOf"
			all, _ := s["allOf"].([]any)
			merged := map[string]any{}
			for _, part := range all {
				p, _ := part.(map[string]any)
				merged = merge(merged, p)
			}
			more = merged
		case s["oneOf"] != nil:
			without, more = "oneOf", b.oneOf(s["oneOf"])
		case s["anyOf"] != nil:
			without, more = "anyOf", b.oneOf(s["anyOf"])
		case s["if"] != nil:
			without = "if"
			yes, _ := s["if"].(map[string]any)
			then, _ := s["then"].(map[string]any)
			ways := []any{merge(yes, then), s["else"]}
			more = ways[b.choose.pick(len(ways))]
		default:
			return s
		}
		rest := maps.Clone(s)
		delete(rest, without)
		m, _ := more.(map[string]any)
		s = merge(rest, m)
	}
	return s
}

// oneOf picks one of several schemas: those with a preferred status first.
func (b *builder) oneOf(list any) any {
	ways, _ := list.([]any)
	if len(ways) == 0 {
		return nil
	}
	ways = slices.Clone(ways)
	slices.SortStableFunc(ways, func(x, y any) int { return b.alternativeRank(x) - b.alternativeRank(y) })
	return ways[b.choose.pick(len(ways))]
}

func (b *builder) alternativeRank(way any) int {
	s, _ := way.(map[string]any)
	if ref, ok := s["$ref"]; ok {
		s, _ = b.resolveRef(ref).(map[string]any)
	}
	if s["type"] == "null" {
		return -1
	}
	properties, _ := s["properties"].(map[string]any)
	status, _ := properties["$status"].(map[string]any)
	best := rank(status["const"])
	if list, ok := status["enum"].([]any); ok {
		for _, v := range list {
			best = min(best, rank(v))
		}
	}
	return best
}

// resolveRef follows a reference within the document.
func (b *builder) resolveRef(ref any) any {
	to, _ := ref.(string)
	if to == "#" {
		return b.root
	}
	rest, ok := strings.CutPrefix(to, "#/")
	if !ok {
		return nil
	}
	at := b.root
	for _, p := range strings.Split(rest, "/") {
		p = strings.NewReplacer("~1", "/", "~0", "~").Replace(p)
		switch v := at.(type) {
		case map[string]any:
			at = v[p]
		case []any:
			i, err := strconv.Atoi(p)
			if err != nil || i < 0 || i >= len(v) {
				return nil
			}
			at = v[i]
		default:
			return nil
		}
	}
	return at
}

// merge combines two schemas: it takes all fields and requirements of both, the enum values that are in both, the
// larger minimums, y's const, type, pattern and format, and x's value of any other keyword that both have.
func merge(x, y map[string]any) map[string]any {
	out := maps.Clone(x)
	if out == nil {
		out = map[string]any{}
	}
	for key, v := range y {
		have, there := out[key]
		switch {
		case !there:
			out[key] = v
		case key == "properties":
			out[key] = mergeFields(have, v)
		case key == "required" || key == "allOf":
			a, _ := have.([]any)
			b, _ := v.([]any)
			out[key] = slices.Concat(a, b)
		case key == "enum":
			out[key] = intersect(have, v)
		case key == "minLength" || key == "minItems" || key == "minimum" || key == "minProperties":
			a, _ := have.(float64)
			b, _ := v.(float64)
			out[key] = max(a, b)
		case key == "const" || key == "type" || key == "pattern" || key == "format":
			out[key] = v
		}
	}
	return out
}

func mergeFields(x, y any) any {
	a, _ := x.(map[string]any)
	b, _ := y.(map[string]any)
	out := maps.Clone(a)
	if out == nil {
		out = map[string]any{}
	}
	for name, schema := range b {
		first, _ := out[name].(map[string]any)
		second, _ := schema.(map[string]any)
		if _, there := out[name]; there {
			out[name] = merge(first, second)
		} else {
			out[name] = schema
		}
	}
	return out
}

// intersect returns the values that are in both lists.
func intersect(x, y any) any {
	a, _ := x.([]any)
	b, _ := y.([]any)
	var out []any
	for _, v := range a {
		if slices.ContainsFunc(b, func(w any) bool { return string(encode(v)) == string(encode(w)) }) {
			out = append(out, v)
		}
	}
	return out
}

// formats has an example of each named format.
var formats = map[string]string{
	"date-time": "2026-01-01T00:00:00Z", "date": "2026-01-01", "time": "00:00:00Z", "duration": "PT1S",
	"email": "scripted@example.com", "hostname": "example.com", "ipv4": "127.0.0.1", "ipv6": "::1",
	"uri": "https://example.com/", "uri-reference": "/", "uuid": "00000000-0000-4000-8000-000000000000",
	"json-pointer": "/", "regex": "a",
}

// fitText adapts a text to the simple bounds of a schema.
func fitText(s map[string]any, text string) string {
	if format, ok := s["format"].(string); ok && formats[format] != "" {
		text = formats[format]
	}
	if pattern, ok := s["pattern"].(string); ok {
		if re, err := syntax.Parse(pattern, syntax.Perl); err == nil {
			var b strings.Builder
			match(&b, re, 0)
			text = b.String()
		}
	}
	if n, ok := s["minLength"].(float64); ok {
		if short := min(int(min(n, 1<<16)), 1<<16) - utf8.RuneCountInString(text); short > 0 {
			last := "."
			if text != "" {
				r, _ := utf8.DecodeLastRuneInString(text)
				last = string(r)
			}
			text += strings.Repeat(last, short)
		}
	}
	if n, ok := s["maxLength"].(float64); ok && n >= 0 && n < float64(utf8.RuneCountInString(text)) {
		text = string([]rune(text)[:int(n)])
	}
	return text
}

// match writes a short text that matches a pattern.
func match(b *strings.Builder, re *syntax.Regexp, depth int) {
	if depth > maxDeep || b.Len() > 1<<12 {
		return
	}
	times := 1
	switch re.Op {
	case syntax.OpLiteral:
		b.WriteString(string(re.Rune))
		return
	case syntax.OpCharClass:
		b.WriteRune(niceLetter(re.Rune))
		return
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		b.WriteByte('x')
		return
	case syntax.OpStar, syntax.OpQuest:
		return
	case syntax.OpRepeat:
		times = re.Min
	case syntax.OpAlternate:
		match(b, re.Sub[0], depth+1)
		return
	}
	for range times {
		for _, sub := range re.Sub {
			match(b, sub, depth+1)
		}
	}
}

// niceLetter picks a readable character from the ranges of a class.
func niceLetter(ranges []rune) rune {
	for _, nice := range []rune{'a', 'A', '1', '0', 'x', '-'} {
		for i := 0; i+1 < len(ranges); i += 2 {
			if ranges[i] <= nice && nice <= ranges[i+1] {
				return nice
			}
		}
	}
	if len(ranges) == 0 {
		return 'a'
	}
	return ranges[0]
}
