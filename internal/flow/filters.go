package flow

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/osteele/liquid/filters"
	"github.com/osteele/liquid/values"
)

// A filterSet is functions by the name of the filter.
type filterSet map[string]any

// AddFilter implements filters.FilterDictionary.
func (s filterSet) AddFilter(name string, fn any) { s[name] = fn }

// standard are the engine's filters, with those that differ from Liquid or are not safe replaced.
var standard = standardFilters()

func standardFilters() filterSet {
	s := filterSet{}
	filters.AddStandardFilters(s)
	maps.Copy(s, filterSet{
		opText: func(v any) any {
			if v == nil {
				return nil
			}
			return plainText(v)
		},
		opEqual:          equal,
		opNotEqual:       func(a, b any) bool { return !equal(a, b) },
		opLess:           values.Less,
		opGreater:        func(a, b any) bool { return values.Less(b, a) },
		opLessOrEqual:    func(a, b any) bool { return values.Less(a, b) || equal(a, b) },
		opGreaterOrEqual: func(a, b any) bool { return values.Less(b, a) || equal(a, b) },
		opContains:       contains,
		opEach:           each,
		"json":           jsonText,
		"inspect":        jsonText,
		"where":          where,
		"uniq":           uniq,
		"size":           size,
		"first":          func(v any) any { return item(v, 0) },
		"last":           func(v any) any { return item(v, -1) },
		"slice":          slice,
		"truncate":       truncate,
		"truncatewords":  truncateWords,
		"strip_html":     func(s string) string { return htmlTag.ReplaceAllString(s, "") },
		"at_least":       math.Max,
		"at_most":        math.Min,
		"ceil":           func(n float64) any { return bindable(math.Ceil(n)) },
		"floor":          func(n float64) any { return bindable(math.Floor(n)) },
		"round":          round,
		"modulo": func(a, b float64) (float64, error) {
			if b == 0 {
				return 0, errors.New("division by zero")
			}
			r := math.Mod(a, b)
			if r != 0 && (r < 0) != (b < 0) {
				r += b
			}
			return r, nil
		},
	})
	strftime := s["date"].(func(time.Time, func(string) string) (string, error))
	s["date"] = func(v any, format func(string) string) (string, error) {
		t, err := date(v)
		if v == nil || err != nil {
			return "", err
		}
		f := format("%a, %b %d, %y")
		if wide.MatchString(f) {
			return "", errors.New("a part of a date may be at most 99 wide")
		}
		return strftime(t, func(string) string { return f })
	}
	return s
}

var knownFilters = newBudget().filters()

// filters returns all filters, for one rendering.
func (b *budget) filters() filterSet {
	s := maps.Clone(standard)
	maps.Copy(s, filterSet{
		opRange: b.rangeOf,
		opRound: b.round,
		opCase: func(v any) bool {
			b.chosen = v
			return true
		},
		opWhen: func(v any) (bool, error) {
			err := b.read(b.chosen)
			return err == nil && equal(b.chosen, v), err
		},
		"join":    b.join,
		"replace": b.replace,
		"split":   b.split,
	})
	for name, fn := range s {
		s[name] = b.metered(name, fn)
	}
	return s
}

// rangeOf returns the integers from first to last.
func (b *budget) rangeOf(first, last any) ([]any, error) {
	from, ok := integer(first)
	to, ok2 := integer(last)
	switch {
	case !ok || !ok2:
		return nil, fmt.Errorf("a range needs two whole numbers, not (%s..%s)", clip(plainText(first)),
			clip(plainText(last)))
	case from > to:
		return []any{}, nil
	case uint64(to)-uint64(from) >= maxElements:
		return nil, b.more(maxElements + 1)
	}
	list := make([]any, 0, to-from+1)
	for i := from; len(list) < cap(list); i++ {
		list = append(list, i)
	}
	return list, nil
}

func integer(v any) (int, bool) {
	switch v := v.(type) {
	case int:
		return v, true
	case int64:
		return int(v), true
	case float64:
		return int(v), v == math.Trunc(v) && math.Abs(v) < 1<<63
	case string:
		n, err := strconv.Atoi(strings.TrimSpace(v))
		return n, err == nil
	}
	return 0, false
}

// A literal is one of Liquid's words that stand for a kind of value.
type literal string

const (
	emptyWord literal = "empty"
	blankWord literal = "blank"
)

func (l literal) matches(v any) bool {
	if s, ok := v.(string); ok && l == blankWord {
		return strings.TrimSpace(s) == ""
	}
	if v == nil || v == false {
		return l == blankWord
	}
	switch r := reflect.ValueOf(v); r.Kind() {
	case reflect.String, reflect.Slice, reflect.Map:
		return r.Len() == 0
	}
	return false
}

func equal(a, b any) bool {
	if l, ok := b.(literal); ok {
		return l.matches(a)
	}
	if l, ok := a.(literal); ok {
		return l.matches(b)
	}
	if m, ok := a.(object); ok {
		n, ok := b.(object)
		return ok && maps.EqualFunc(m, n, equal)
	}
	if l, ok := list(a); ok {
		m, ok := list(b)
		return ok && slices.EqualFunc(l, m, equal)
	}
	return !isComposite(b) && values.Equal(a, b)
}

func isComposite(v any) bool {
	switch reflect.ValueOf(v).Kind() {
	case reflect.Map, reflect.Slice:
		return true
	}
	return false
}

func contains(in, what any) bool {
	switch v := in.(type) {
	case string:
		return what != nil && strings.Contains(v, plainText(what))
	case object:
		key, ok := what.(string)
		_, has := v[key]
		return ok && has
	}
	l, _ := list(in)
	return slices.ContainsFunc(l, func(e any) bool { return equal(e, what) })
}

// list returns a value's elements, and whether it is a list.
func list(v any) ([]any, bool) {
	switch v := v.(type) {
	case []any:
		return v, true
	case []string:
		l := make([]any, len(v))
		for i, e := range v {
			l[i] = e
		}
		return l, true
	}
	return nil, false
}

// each returns what a loop iterates over: a text is a list of one. The entries of a map are sorted
// by key; the engine has them in random order.
func each(v any) []any {
	switch v := v.(type) {
	case object:
		return entries(v)
	case map[string]any: // forloop
		return entries(v)
	case string:
		if v != "" {
			return []any{v}
		}
	}
	l, _ := list(v)
	return l
}

func entries(m map[string]any) []any {
	l := make([]any, 0, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		l = append(l, []any{k, m[k]})
	}
	return l
}

func item(v any, i int) any {
	l := each(v)
	if _, ok := v.(string); ok || len(l) == 0 {
		return nil
	}
	return l[(i+len(l))%len(l)]
}

func size(v any) int {
	if m, ok := v.(object); ok {
		return len(m)
	}
	return values.Length(v)
}

func where(list []any, key string, want any) []any {
	out := []any{}
	text := plainText(want)
	for _, v := range list {
		m, ok := v.(object)
		if !ok || m[key] == nil {
			continue
		}
		if want == nil && m[key] != false || want != nil && plainText(m[key]) == text {
			out = append(out, v)
		}
	}
	return out
}

func uniq(list []any) []any {
	out, seen := []any{}, map[string]bool{}
	for _, v := range list {
		if k := jsonText(v); !seen[k] {
			seen[k] = true
			out = append(out, v)
		}
	}
	return out
}

func (b *budget) join(list []any, sep func(string) string) (string, error) {
	parts, n, s := make([]string, 0, len(list)), 0, sep(" ")
	for _, v := range list {
		if v == nil {
			continue
		}
		part := plainText(v)
		if n += len(part) + len(s); n-len(s) > maxText {
			return "", b.text(n)
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, s), nil
}

func (b *budget) replace(s, old, with string) (string, error) {
	if n := strings.Count(s, old); n > 0 && len(s)+n*(len(with)-len(old)) > maxText {
		return "", b.text(len(s) + n*(len(with)-len(old)))
	}
	return strings.ReplaceAll(s, old, with), nil
}

func (b *budget) split(s, sep string) ([]string, error) {
	var parts []string
	switch {
	case sep == " ":
		parts = strings.Fields(s)
	case strings.Count(s, sep) > maxElements:
		return nil, b.more(maxElements + 1)
	default:
		parts = strings.Split(s, sep)
	}
	for len(parts) > 0 && parts[len(parts)-1] == "" {
		parts = parts[:len(parts)-1]
	}
	return parts, nil
}

// slice returns n elements of a list or characters of a text, one by default. A negative start
// counts from the end.
func slice(v any, start int, n func(int) int) any {
	l, isList := list(v)
	text, size := []rune(nil), len(l)
	if !isList {
		text = []rune(plainText(v))
		size = len(text)
	}
	if start < 0 {
		start += size
	}
	if start < 0 || start > size {
		start = size
	}
	end := start + min(max(n(1), 0), size-start)
	if isList {
		return l[start:end]
	}
	return string(text[start:end])
}

func round(n float64, places func(int) int) float64 {
	exp := math.Pow10(places(0))
	if r := math.Floor(n*exp+0.5) / exp; !math.IsNaN(r) && !math.IsInf(r, 0) {
		return r
	}
	return n
}

// truncate shortens a text to n characters, of which the last are the ellipsis.
func truncate(s string, n func(int) int, ellipsis func(string) string) string {
	text, end, length := []rune(s), []rune(ellipsis("...")), n(50)
	if len(text) <= length {
		return s
	}
	return string(text[:min(max(length-len(end), 0), len(text))]) + string(end)
}

func truncateWords(s string, n func(int) int, ellipsis func(string) string) string {
	words, most := strings.Fields(s), max(n(15), 1)
	if len(words) <= most {
		return s
	}
	return strings.Join(words[:most], " ") + ellipsis("...")
}

var (
	htmlTag = regexp.MustCompile(`<.*?>`)
	wide    = regexp.MustCompile(`%[-_^#0:]*\d{3}`)
)

// date returns the time that a value stands for, the zero time for nil. It rejects "now" and "today":
// a decision must be the same when it is made again.
func date(v any) (time.Time, error) {
	text, ok := v.(string)
	if n, isInt := integer(v); isInt {
		return time.Unix(int64(n), 0).UTC(), nil
	}
	switch {
	case v == nil:
		return time.Time{}, nil
	case !ok:
		return time.Time{}, fmt.Errorf("%s is not a date", clip(plainText(v)))
	case text == "now" || text == "today":
		return time.Time{}, fmt.Errorf("%q would change between renderings", text)
	}
	for _, layout := range dateLayouts {
		if t, err := time.ParseInLocation(layout, text, time.UTC); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is not a date", clip(text))
}

// dateLayouts are how dates may be written. Those without a zone are in UTC: the machine's own would make
// decisions differ.
var dateLayouts = []string{
	time.RFC3339, "2006-01-02T15:04:05", "2006-01-02T15:04", "20060102T150405Z",
	"2006-01-02 15:04:05 Z07:00", "2006-01-02 15:04:05 -0700", "2006-01-02 15:04:05 MST", time.DateTime,
	"2006-01-02 15:04", time.DateOnly,
	time.RFC1123, time.RFC1123Z, time.RFC850, time.RFC822, time.RFC822Z, time.ANSIC, time.UnixDate, time.RubyDate,
	"2 January 2006", "2 Jan 2006", "January 2, 2006", "January 2 2006", "Jan 2, 2006", "Jan 2 2006",
}
