// Package template fills in Liquid templates within limits.
//
// In: the text of a template and its variables. Out: the text, or an error that names the part of the template. A
// rendering never reads a file or the clock, and ends when its budget is used up: it is the same on every machine.
package template

import (
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

// Render fills in the template. If strict, a variable that is not in vars is an error.
func (t *Template) Render(vars map[string]any, strict bool) (string, error) {
	return t.render(vars, strict, newBudget())
}

func (t *Template) render(vars map[string]any, strict bool, b *budget) (out string, err error) {
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
			return Text(v), nil
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
func (t *Template) explain(err liquidrender.Error) error {
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

// Text returns a value as text for a prompt.
func Text(v any) string {
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
		return text.JSON(v)
	}
	return fmt.Sprint(v)
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

// ParseExpression reports what is wrong with an expression.
func ParseExpression(src string) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("bad expression %q: %w", src, panicked(p))
		}
	}()
	_, err = expressions.Parse(src)
	return err
}
