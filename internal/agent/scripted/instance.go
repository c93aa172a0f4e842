package scripted

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// statuses are the preferred answers, best first.
var statuses = []string{"done", "ok", "approved", "passed", "success", "finished", "complete", "completed"}

const (
	maxValues  = 2000    // made for one schema, since some schemas have no end
	maxLetters = 1 << 16 // of a text
)

// instance makes a small value for a schema. It has the required fields, the fields of with that the schema defines,
// and said as "$body"; if with does not fit, it has none of its fields. Of alternatives the likeliest is made, and of
// restrictions only bounds are kept: the error says where the value does not fit.
func instance(schema json.RawMessage, with map[string]any, said string) (any, error) {
	var root any
	if err := json.Unmarshal(schema, &root); err != nil {
		return nil, err
	}
	value := func(with map[string]any) any {
		b := builder{root: root, with: with, said: said, left: maxValues}
		return b.value(root, "", true)
	}
	check := validator(schema)
	v := value(with)
	err := check(v)
	if err != nil {
		if bare := value(nil); check(bare) == nil {
			return bare, nil
		}
	}
	return v, err
}

// validator returns a function that says where a value does not fit the schema. Any value fits a schema that cannot
// be read.
func validator(schema json.RawMessage) func(any) error {
	const url = "mem:///schema"
	anything := func(any) error { return nil }
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		return anything
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(jsonschema.SchemeURLLoader{}) // a schema cannot refer to other documents
	if c.AddResource(url, doc) != nil {
		return anything
	}
	s, err := c.Compile(url)
	if err != nil {
		return anything
	}
	return func(v any) error {
		err := s.Validate(v)
		if err == nil {
			return nil
		}
		var places []string
		for _, line := range strings.Split(err.Error(), "\n")[1:] { // the first one only names the schema
			places = append(places, strings.TrimLeft(line, " -"))
		}
		return errors.New("the scripted model cannot make an answer for this schema: " + strings.Join(places, "; "))
	}
}

// A builder makes one value.
type builder struct {
	root any
	with map[string]any
	said string
	left int // how many more values it may make
}

// value makes a value for the schema of the property name. top is the whole answer.
func (b *builder) value(schema any, name string, top bool) any {
	if b.left--; b.left < 0 {
		return nil
	}
	s, _ := schema.(map[string]any)
	if ref, ok := s["$ref"].(string); ok {
		return b.value(b.resolve(ref), name, top)
	}
	for _, key := range []string{"oneOf", "anyOf"} {
		if ways, _ := s[key].([]any); len(ways) > 0 {
			return b.value(b.likeliest(s, key, ways), name, top)
		}
	}
	if v, ok := s["const"]; ok {
		return v
	}
	if list, _ := s["enum"].([]any); len(list) > 0 {
		if name == "$status" {
			return slices.MinFunc(list, func(x, y any) int { return cmp.Compare(rank(x), rank(y)) })
		}
		return list[0]
	}
	switch typeOf(s, name) {
	case "null":
		return nil
	case "boolean":
		return true
	case "integer":
		return math.Ceil(bounded(s))
	case "number":
		return bounded(s)
	case "array":
		return b.array(s, name)
	case "object":
		return b.object(s, top)
	}
	switch name {
	case "$body":
		return b.said
	case "$status":
		return fitText(s, statuses[0])
	}
	return fitText(s, sentence(name))
}

// resolve follows a reference within the document.
func (b *builder) resolve(ref string) any {
	rest, ok := strings.CutPrefix(ref, "#")
	if !ok {
		return nil
	}
	at := b.root
	for _, p := range strings.Split(rest, "/")[1:] {
		fields, _ := at.(map[string]any)
		at = fields[strings.NewReplacer("~1", "/", "~0", "~").Replace(p)]
	}
	return at
}

// likeliest returns the schema with the best alternative of key, whose keywords replace those beside it: null, which
// means no value, or the one with the best status.
func (b *builder) likeliest(s map[string]any, key string, ways []any) any {
	rankOf := func(way any) int {
		s, _ := way.(map[string]any)
		if ref, ok := s["$ref"].(string); ok {
			s, _ = b.resolve(ref).(map[string]any)
		}
		if s["type"] == "null" {
			return -1
		}
		properties, _ := s["properties"].(map[string]any)
		status, _ := properties["$status"].(map[string]any)
		best := rank(status["const"])
		list, _ := status["enum"].([]any)
		for _, v := range list {
			best = min(best, rank(v))
		}
		return best
	}
	way, _ := slices.MinFunc(ways, func(x, y any) int { return cmp.Compare(rankOf(x), rankOf(y)) }).(map[string]any)
	whole := maps.Clone(s)
	delete(whole, key)
	maps.Copy(whole, way)
	return whole
}

// typeOf returns the type of a schema's values, null if it may be: in a required field, null means no value.
func typeOf(s map[string]any, name string) string {
	switch t := s["type"].(type) {
	case string:
		return t
	case []any:
		if slices.Contains(t, any("null")) && !strings.HasPrefix(name, "$") {
			return "null"
		}
		for _, x := range t {
			if x, ok := x.(string); ok && x != "null" {
				return x
			}
		}
	}
	for _, hint := range []struct{ key, is string }{
		{"properties", "object"}, {"required", "object"}, {"items", "array"}, {"minItems", "array"},
		{"minimum", "number"}, {"maximum", "number"},
	} {
		if _, ok := s[hint.key]; ok {
			return hint.is
		}
	}
	return "string"
}

// rank orders statuses: those that mean success come first.
func rank(v any) int {
	if s, ok := v.(string); ok {
		if i := slices.Index(statuses, s); i >= 0 {
			return i
		}
	}
	return len(statuses)
}

func (b *builder) object(s map[string]any, top bool) any {
	properties, _ := s["properties"].(map[string]any)
	names, _ := s["required"].([]any)
	if top {
		for _, name := range slices.Sorted(maps.Keys(properties)) {
			if _, given := b.with[name]; given || name == "$status" || name == "$body" {
				names = append(slices.Clip(names), name)
			}
		}
	}
	out := map[string]any{}
	for _, name := range names {
		name, _ := name.(string)
		if v, given := b.with[name]; given && top {
			out[name] = v
			continue
		}
		schema, declared := properties[name]
		if !declared {
			schema = s["additionalProperties"]
		}
		out[name] = b.value(schema, name, false)
	}
	return out
}

func (b *builder) array(s map[string]any, name string) any {
	out := []any{}
	least, _ := s["minItems"].(float64)
	for float64(len(out)) < least && b.left > 0 {
		out = append(out, b.value(s["items"], name, false))
	}
	return out
}

// bounded returns the number nearest to 0 within the bounds of a schema.
func bounded(s map[string]any) float64 {
	v := 0.0
	if low, ok := s["minimum"].(float64); ok {
		v = max(v, low)
	}
	if high, ok := s["maximum"].(float64); ok {
		v = min(v, high)
	}
	return v
}

// fitText gives a text a length that a schema allows.
func fitText(s map[string]any, text string) string {
	if least, ok := s["minLength"].(float64); ok {
		short := int(min(least, maxLetters)) - utf8.RuneCountInString(text)
		text += strings.Repeat(".", max(short, 0))
	}
	if most, ok := s["maxLength"].(float64); ok && most >= 0 && most < float64(utf8.RuneCountInString(text)) {
		text = string([]rune(text)[:int(most)])
	}
	return text
}

// sentence returns a text for the named field.
func sentence(name string) string {
	words := strings.Join(strings.FieldsFunc(name, func(c rune) bool { return strings.ContainsRune("_-$.", c) }), " ")
	return "Scripted " + cmp.Or(words, "text") + "."
}
