package flow

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/osteele/liquid"
	"github.com/osteele/liquid/parser"
	liquidrender "github.com/osteele/liquid/render"
)

// The two engines: in one, unknown variables are errors; in the other, they are empty. They are
// set up once and only read afterwards, so templates may be parsed and rendered concurrently.
var (
	strictEngine = newEngine(true)
	laxEngine    = newEngine(false)
	plainEngine  = liquid.NewEngine()
)

// textFilter is appended to every {{ }}. It writes maps and lists as JSON, where the engine would
// use Go's format, and numbers as people write them.
const textFilter = "plait_text"

// maxRendered limits a rendered template.
const maxRendered = 8 << 20

func newEngine(strict bool) *liquid.Engine {
	e := liquid.NewEngine()
	if strict {
		e.StrictVariables()
	}
	// The engine's own include would open files.
	e.RegisterTag("include", func(liquidrender.Context) (string, error) {
		return "", errors.New("include is refused in a template")
	})
	e.RegisterFilter(textFilter, func(v any) any {
		if v == nil {
			return nil
		}
		return plainText(v)
	})
	e.RegisterFilter("join", func(list []any, sep func(string) string) string {
		parts := make([]string, 0, len(list))
		for _, v := range list {
			if v != nil {
				parts = append(parts, plainText(v))
			}
		}
		return strings.Join(parts, sep(" "))
	})
	e.RegisterFilter("json", func(v any) string { return jsonText(v) })
	e.RegisterFilter("date", dateFilter)
	e.RegisterFilter("where", func(list []any, key string, want func(any) any) []any {
		out := []any{}
		for _, v := range list {
			if m, ok := v.(object); ok && m[key] != nil && matches(m[key], want(nil)) {
				out = append(out, v)
			}
		}
		return out
	})
	e.RegisterFilter("at_least", math.Max)
	e.RegisterFilter("at_most", math.Min)
	return e
}

func matches(have, want any) bool {
	if want == nil {
		return have != false
	}
	return plainText(have) == plainText(want)
}

// dateFilter rejects "now" and "today": a decision must be the same when it is made again.
func dateFilter(v any, format func(string) string) (string, error) {
	if s, ok := v.(string); ok && (s == "now" || s == "today") {
		return "", fmt.Errorf("%q would change between renderings", s)
	}
	return plainEngine.ParseAndRenderString("{{ v | date: f }}", map[string]any{"v": v, "f": format("%a, %b %d, %y")})
}

// plainText returns a value as text for a prompt.
func plainText(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case []byte:
		return string(v)
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < maxExact {
			return strconv.FormatInt(int64(v), 10)
		}
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	switch reflect.ValueOf(v).Kind() {
	case reflect.Map, reflect.Slice, reflect.Array:
		return jsonText(v)
	}
	return fmt.Sprint(v)
}

func jsonText(v any) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Sprint(v)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// render fills in a template. If strict, a variable that is not in vars is an error.
func (d *Definition) render(src string, vars map[string]any, strict bool) (out string, err error) {
	if !strings.Contains(src, "{{") && !strings.Contains(src, "{%") {
		return src, nil
	}
	// The engine panics on some inputs, such as a number that overflows.
	defer func() {
		if p := recover(); p != nil {
			out, err = "", fmt.Errorf("render template: %v", p)
		}
	}()
	t, err := d.template(src, strict)
	if err != nil {
		return "", err
	}
	bindings := make(map[string]any, len(vars)+2)
	for k, v := range vars {
		bindings[k] = bindable(v)
	}
	b := &bounded{left: maxRendered}
	if rerr := t.FRender(b, bindings); rerr != nil {
		return "", cleanError(rerr)
	}
	return b.String(), nil
}

// template parses a template once per definition, since it is used for every step.
func (d *Definition) template(src string, strict bool) (*liquid.Template, error) {
	type key struct {
		src    string
		strict bool
	}
	if t, ok := d.templates.Load(key{src, strict}); ok {
		return t.(*liquid.Template), nil
	}
	engine := laxEngine
	if strict {
		engine = strictEngine
	}
	t, perr := engine.ParseString(withText(src))
	if perr != nil {
		return nil, cleanError(perr)
	}
	d.templates.Store(key{src, strict}, t)
	return t, nil
}

type bounded struct {
	bytes.Buffer
	left int
}

func (b *bounded) Write(p []byte) (int, error) {
	b.left -= len(p)
	if b.left < 0 {
		return 0, fmt.Errorf("the rendered text is over %d bytes", maxRendered)
	}
	return b.Buffer.Write(p)
}

// An object is a map for templates. The engine iterates over a plain map in random order; of an
// object, it reads the entries with these methods, sorted by key.
type object map[string]any

// Len returns the number of entries.
func (o object) Len() int { return len(o) }

// Index returns entry i as [key, value], sorted by key.
func (o object) Index(i int) any {
	k := slices.Sorted(maps.Keys(o))[i]
	return []any{k, o[k]}
}

// bindable converts whole numbers to integers, so that the engine compares and prints them as
// integers.
func bindable(v any) any {
	switch v := v.(type) {
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < maxExact {
			return int(v)
		}
	case json.Number:
		if i, err := v.Int64(); err == nil {
			return int(i)
		}
		if f, err := v.Float64(); err == nil {
			return f
		}
		return v.String()
	case map[string]any:
		m := make(object, len(v))
		for k, e := range v {
			m[k] = bindable(e)
		}
		return m
	case []any:
		l := make([]any, len(v))
		for i, e := range v {
			l[i] = bindable(e)
		}
		return l
	}
	return v
}

// maxRange limits a loop over a range, whose ends may come from an agent.
const maxRange = 10_000

// withText appends the text filter to each {{ }}, and limits loops over ranges.
func withText(src string) string {
	var b strings.Builder
	eachToken(src, func(t parser.Token) {
		if t.Type == parser.TagTokenType && (t.Name == "for" || t.Name == "tablerow") &&
			strings.Contains(t.Args, "..") && !strings.Contains(t.Args, "limit") {
			b.WriteString(strings.Replace(t.Source, t.Args, fmt.Sprintf("%s limit: %d", t.Args, maxRange), 1))
			return
		}
		if t.Type != parser.ObjTokenType {
			b.WriteString(t.Source)
			return
		}
		open, end := "{{", "}}"
		if strings.HasPrefix(t.Source, "{{-") {
			open = "{{-"
		}
		if strings.HasSuffix(t.Source, "-}}") {
			end = "-}}"
		}
		fmt.Fprintf(&b, "%s (%s) | %s %s", open, t.Args, textFilter, end)
	})
	return b.String()
}

// eachToken calls f with the tokens of src in order. The content of raw blocks is passed as text.
func eachToken(src string, f func(parser.Token)) {
	inside := ""
	for _, t := range parser.Scan(src, parser.SourceLoc{}, nil) {
		switch {
		case t.Source == "": // trim marks are also part of the adjacent token
			continue
		case inside != "":
			if t.Type == parser.TagTokenType && t.Name == "end"+inside {
				inside = ""
			} else {
				t = parser.Token{Type: parser.TextTokenType, SourceLoc: t.SourceLoc, Source: t.Source, Name: "raw"}
			}
		case t.Type == parser.TagTokenType && (t.Name == "raw" || t.Name == "comment"):
			inside = t.Name
		}
		f(t)
	}
}

var (
	wrapped   = regexp.MustCompile(`\((.*?)\) \| ` + textFilter + ` `)
	preface   = regexp.MustCompile(`^Liquid error(?: \(line \d+\))?: `)
	quotation = regexp.MustCompile(`"\((.*?)\) \| ` + textFilter + `"`)
)

// cleanError returns the engine's error with the template as its author wrote it.
func cleanError(err error) error {
	s := quotation.ReplaceAllString(err.Error(), `"$1"`)
	s = wrapped.ReplaceAllString(s, "$1 ")
	return errors.New(preface.ReplaceAllString(s, ""))
}
