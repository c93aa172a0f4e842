package flow

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/osteele/liquid/expressions"
	liquidrender "github.com/osteele/liquid/render"

	"github.com/plait-run/plait/internal/sys/number"
	"github.com/plait-run/plait/internal/sys/text"
)

// render fills in a template. If strict, a variable that is not in vars is an error.
func (d *Definition) render(src string, vars map[string]any, strict bool) (string, error) {
	if !strings.Contains(src, "{{") && !strings.Contains(src, "{%") {
		return src, nil
	}
	t, ok := d.templates.Load(src)
	if !ok {
		compiled, err := compile(src)
		if err != nil {
			return "", err
		}
		t, _ = d.templates.LoadOrStore(src, compiled)
	}
	return t.(*template).render(vars, strict, newBudget())
}

func (t *template) render(vars map[string]any, strict bool, b *budget) (out string, err error) {
	// The engine panics on some inputs.
	defer func() {
		if p := recover(); p != nil {
			out, err = "", fmt.Errorf("the template %w", panicked(p))
		}
	}()
	config := meteredGrammar
	config.Config.Config = expressions.NewConfig()
	b.evaluate = func(src string) any {
		x, err := expressions.Parse(meteredExpression("", src))
		if err != nil {
			return nil
		}
		v, _ := x.Evaluate(expressions.NewContext(b.scope, config.Config.Config))
		return v
	}
	for name, fn := range b.filters() {
		config.AddFilter(name, fn)
	}
	config.AddFilter(opText, b.metered(opText, func(v any, i int) (any, error) {
		switch {
		case v != nil:
			return plainText(v), nil
		case strict && slices.ContainsFunc(t.printed[i], b.absent):
			return nil, errors.New("undefined variable")
		}
		return nil, nil
	}))
	bindings := make(map[string]any, len(vars)+2)
	for k, v := range vars {
		bindings[k] = bindable(v)
	}
	bindings[string(emptyWord)], bindings[string(blankWord)] = emptyWord, blankWord
	bindings[budgetKey] = b
	if err := liquidrender.Render(t.root, b, bindings, config); err != nil {
		return "", t.explain(err)
	}
	return b.out.String(), b.spent
}

var preface = regexp.MustCompile(`^Liquid error(?: \(line \d+\))?: `)

// explain returns an error of the engine with the part of the template that it is about, as its
// author wrote it.
func (t *template) explain(err liquidrender.Error) error {
	text := strings.TrimSuffix(preface.ReplaceAllString(err.Error(), ""), " in "+templateName)
	if cause := err.Cause(); cause != nil {
		text = cause.Error()
		var filter expressions.FilterError
		if errors.As(cause, &filter) {
			text = filter.Err.Error()
			if !strings.HasPrefix(filter.FilterName, opPrefix) && !errors.As(filter.Err, new(overLimit)) {
				text = filter.FilterName + ": " + text
			}
		}
	}
	token := t.tokens[err.LineNumber()]
	text = fmt.Sprintf("%s in %s", clip(text), clip(token.Source))
	if t.lines > 1 {
		text = fmt.Sprintf("line %d: %s", token.SourceLoc.LineNo+1, text)
	}
	return errors.New(text)
}

// clip shortens what a message quotes to 200 characters.
func clip(s string) string { return text.Shorten(s, 201) }

// plainText returns a value as text for a prompt.
func plainText(v any) string {
	switch v := v.(type) {
	case nil, literal:
		return ""
	case string:
		return v
	case []byte:
		return string(v)
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1e21 { // as JSON has it, from there on with an exponent: RFC 8785
			return strconv.FormatFloat(v, 'f', -1, 64)
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

// An object is a map for templates.
type object map[string]any

// bindable converts whole numbers to integers, so that the engine compares and prints them as
// integers.
func bindable(v any) any {
	switch v := v.(type) {
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < number.MaxExact {
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
