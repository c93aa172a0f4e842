package template

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
	"unicode/utf8"

	"github.com/osteele/liquid/filters"
	"github.com/osteele/liquid/values"

	"github.com/plait-run/plait/internal/sys/text"
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
		opEqual:          equal,
		opNotEqual:       func(a, b any) bool { return !equal(a, b) },
		opLess:           values.Less,
		opGreater:        func(a, b any) bool { return values.Less(b, a) },
		opLessOrEqual:    func(a, b any) bool { return values.Less(a, b) || equal(a, b) },
		opGreaterOrEqual: func(a, b any) bool { return values.Less(b, a) || equal(a, b) },
		opContains:       contains,
		"json":           text.JSON,
		"inspect":        text.JSON,
		"where":          where,
		"uniq":           uniq,
		"size":           size,
		"first":          func(v any) any { return item(v, 0) },
		"last":           func(v any) any { return item(v, -1) },
		"slice":          slice,
		"truncate":       truncate,
		"truncatewords":  truncateWords,
		"map":            mapped,
		"sort":           sortedBy(compare),
		"sort_natural":   sortedBy(compareText),
		"strip_html":     func(s string) string { return htmlTag.ReplaceAllString(s, "") },
		"strip_newlines": func(s string) string { return newline.ReplaceAllString(s, "") },
		"newline_to_br":  func(s string) string { return newline.ReplaceAllString(s, "<br />\n") },
		"escape":         escapes.Replace,
		"escape_once":    func(s string) string { return unescaped.ReplaceAllStringFunc(s, escapeOnce) },
		"plus":           func(a, b float64) float64 { return decimal(a + b) },
		"minus":          func(a, b float64) float64 { return decimal(a - b) },
		"times":          func(a, b float64) float64 { return decimal(a * b) },
		"divided_by":     dividedBy,
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
			return decimal(r), nil
		},
	})
	s["capitalize"] = capitalize
	for _, name := range []string{"downcase", "upcase"} { // the engine's take an argument
		fn := s[name].(func(string, string) string)
		s[name] = func(s string) string { return fn(s, "") }
	}
	strftime := s["date"].(func(time.Time, func(string) string) (string, error))
	s["date"] = func(v any, format func(string) string) (string, error) {
		t, err := date(v)
		if v == nil || err != nil {
			return "", err
		}
		f := format("%a, %b %d, %y")
		if f == "" {
			return Text(v), nil
		}
		if wide.MatchString(f) {
			return "", errors.New("a part of a date may be at most 99 wide")
		}
		return strftime(t, func(string) string { return f })
	}
	return s
}

var known = newBudget().filters()

// IsFilter reports whether templates have a filter.
func IsFilter(name string) bool { return known[name] != nil && !strings.HasPrefix(name, opPrefix) }

// filters returns all filters, for one rendering.
func (b *budget) filters() filterSet {
	s := maps.Clone(standard)
	maps.Copy(s, filterSet{
		opRange: b.rangeOf,
		opEach:  b.each,
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
		return nil, fmt.Errorf("a range needs two whole numbers, not (%s..%s)", clip(Text(first)),
			clip(Text(last)))
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

func (b *budget) join(list []any, sep func(string) string) (string, error) {
	parts, n, s := make([]string, 0, len(list)), 0, sep(" ")
	for _, v := range list {
		part := Text(v)
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
		text = []rune(Text(v))
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

// decimal returns a result as it would be with decimal numbers: 10.1 - 2.2 is 7.9.
func decimal(n float64) float64 {
	if short, err := strconv.ParseFloat(strconv.FormatFloat(n, 'g', 15, 64), 64); err == nil && n != math.Trunc(n) {
		return short
	}
	return n
}

// dividedBy rounds down if both numbers are whole, unless the divisor is written as 2.0.
func dividedBy(a float64, by any) (any, error) {
	number, err := fit(by, reflect.TypeFor[float64]())
	if err != nil {
		return nil, err
	}
	b, _ := number.(float64)
	_, isFloat := by.(float64)
	switch {
	case b == 0:
		return nil, errors.New("division by zero")
	case isFloat || a != math.Trunc(a) || b != math.Trunc(b):
		return a / b, nil
	}
	return bindable(math.Floor(a / b)), nil
}

func capitalize(s string) string {
	_, n := utf8.DecodeRuneInString(s)
	return strings.ToUpper(s[:n]) + strings.ToLower(s[n:])
}

func round(n float64, places func(int) int) float64 {
	exp := math.Pow10(places(0))
	if r := math.Round(n*exp) / exp; !math.IsNaN(r) && !math.IsInf(r, 0) {
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
	htmlTag   = regexp.MustCompile(`(?s)<script.*?</script>|<!--.*?-->|<style.*?</style>|<.*?>`)
	newline   = regexp.MustCompile(`\r?\n`)
	escapes   = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&#39;")
	unescaped = regexp.MustCompile(`&(?:[A-Za-z]+|#\d+);|[&<>"']`)
	wide      = regexp.MustCompile(`%[-_^#0:]*\d{3}`)
)

func escapeOnce(s string) string {
	if len(s) > 1 {
		return s
	}
	return escapes.Replace(s)
}

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
		return time.Time{}, fmt.Errorf("%s is not a date", clip(Text(v)))
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
