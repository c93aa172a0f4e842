package scripted

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// statuses are the preferred answers, best first.
var statuses = []string{"done", "ok", "approved", "passed", "success", "finished", "complete", "completed"}

const (
	maxTries = 200    // ways through the alternatives of a schema
	maxWork  = 20_000 // values made for one request
	maxDeep  = 40
	maxItems = 64
)

// instance makes a small value that fits a schema. It has the required fields, the fields of with that the schema
// defines, and said as "$body". If no attempt yields a value that fits, instance returns the first one.
func instance(schema json.RawMessage, with map[string]any, said string) any {
	var root any
	if json.Unmarshal(schema, &root) != nil {
		return nil
	}
	fits := validator(schema)
	work := maxWork
	var first any
	for i, fields := range []map[string]any{with, nil} {
		c := &chooser{}
		for try := range maxTries {
			b := &builder{root: root, with: fields, said: said, choose: c, work: &work}
			v := b.value(root, "", 0)
			if try == 0 && i == 0 {
				first = v
			}
			if fits(v) {
				return v
			}
			if !c.next() || work <= 0 {
				break
			}
		}
	}
	return first
}

// validator returns a function that reports whether a value fits the schema. Any value
// fits a schema that cannot be read.
func validator(schema json.RawMessage) func(any) bool {
	const url = "mem:///schema"
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		return func(any) bool { return true }
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(noLoader{})
	if c.AddResource(url, doc) != nil {
		return func(any) bool { return true }
	}
	s, err := c.Compile(url)
	if err != nil {
		return func(any) bool { return true }
	}
	return func(v any) bool { return s.Validate(v) == nil }
}

// noLoader loads nothing, since a schema must not refer to other documents.
type noLoader struct{}

func (noLoader) Load(string) (any, error) {
	return nil, errors.New("a schema may not refer to another document")
}

// A chooser picks alternatives, different ones in each round.
type chooser struct {
	at   int
	took []int // at each place, the alternative taken
	of   []int // and the number of alternatives
}

func (c *chooser) pick(n int) int {
	if n < 2 {
		return 0
	}
	if c.at == len(c.took) {
		c.took, c.of = append(c.took, 0), append(c.of, n)
	}
	c.at++
	return min(c.took[c.at-1], n-1)
}

// next moves to the next combination, and reports whether there was one.
func (c *chooser) next() bool {
	c.took, c.of, c.at = c.took[:c.at], c.of[:c.at], 0
	for i := len(c.took) - 1; i >= 0; i-- {
		if c.took[i]+1 < c.of[i] {
			c.took[i]++
			c.took, c.of = c.took[:i+1], c.of[:i+1]
			return true
		}
	}
	return false
}

// A builder makes one value.
type builder struct {
	root   any
	with   map[string]any
	said   string
	choose *chooser
	work   *int
}

// value makes a value for the schema of the property name.
func (b *builder) value(schema any, name string, depth int) any {
	*b.work--
	if *b.work <= 0 || depth > maxDeep {
		return nil
	}
	s := b.flat(schema)
	if v, ok := s["const"]; ok {
		return v
	}
	if list, ok := s["enum"].([]any); ok && len(list) > 0 {
		list = slices.Clone(list)
		if name == "$status" {
			slices.SortStableFunc(list, func(x, y any) int { return cmp.Compare(rank(x), rank(y)) })
		}
		return list[b.choose.pick(len(list))]
	}
	switch b.typeOf(s, name) {
	case "null":
		return nil
	case "boolean":
		return []any{true, false}[b.choose.pick(2)]
	case "integer":
		return numeric(s, true)
	case "number":
		return numeric(s, false)
	case "array":
		return b.array(s, name, depth)
	case "object":
		return b.object(s, depth)
	}
	if name == "$body" {
		return b.said
	}
	if name == "$status" {
		return fitText(s, statuses[0])
	}
	return fitText(s, sentence(name))
}

// typeOf chooses a type, null first: in a required field, null means no value.
func (b *builder) typeOf(s map[string]any, name string) string {
	switch t := s["type"].(type) {
	case string:
		return t
	case []any:
		var types []string
		for _, x := range t {
			if x, ok := x.(string); ok {
				types = append(types, x)
			}
		}
		slices.SortStableFunc(types, func(x, y string) int { return cmp.Compare(nullRank(x, name), nullRank(y, name)) })
		if len(types) > 0 {
			return types[b.choose.pick(len(types))]
		}
	}
	for _, hint := range []struct{ key, is string }{
		{"properties", "object"}, {"required", "object"}, {"items", "array"}, {"prefixItems", "array"},
		{"minItems", "array"},
		{"minimum", "number"}, {"exclusiveMinimum", "number"}, {"multipleOf", "number"}, {"maximum", "number"},
	} {
		if _, ok := s[hint.key]; ok {
			return hint.is
		}
	}
	return "string"
}

func nullRank(t, name string) int {
	switch {
	case t != "null":
		return 1
	case strings.HasPrefix(name, "$"):
		return 2
	}
	return 0
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

func (b *builder) object(s map[string]any, depth int) any {
	properties, _ := s["properties"].(map[string]any)
	out := map[string]any{}
	put := func(name string) {
		if _, there := out[name]; there {
			return
		}
		if v, ok := b.with[name]; ok && depth == 0 {
			out[name] = v
			return
		}
		schema, declared := properties[name]
		if !declared {
			schema = s["additionalProperties"]
		}
		out[name] = b.value(schema, name, depth+1)
	}
	names := slices.Sorted(maps.Keys(properties))
	if depth == 0 {
		for _, name := range names {
			if _, given := b.with[name]; given || name == "$status" || name == "$body" {
				put(name)
			}
		}
	}
	required, _ := s["required"].([]any)
	for _, name := range required {
		if name, ok := name.(string); ok {
			put(name)
		}
	}
	least := count(s["minProperties"])
	for _, name := range names {
		if len(out) < least {
			put(name)
		}
	}
	for i := 1; len(out) < least && i <= maxItems; i++ {
		put("field" + strconv.Itoa(i))
	}
	return out
}

func (b *builder) array(s map[string]any, name string, depth int) any {
	out := []any{}
	least := count(s["minItems"])
	if _, ok := s["contains"]; ok {
		least = max(least, 1)
	}
	prefix, _ := s["prefixItems"].([]any)
	for i := range least {
		schema := s["items"]
		if i < len(prefix) {
			schema = prefix[i]
		} else if c, ok := s["contains"]; ok && i == len(prefix) {
			schema = c
		}
		v := b.value(schema, name, depth+1)
		if s["uniqueItems"] == true &&
			slices.ContainsFunc(out, func(x any) bool { return bytes.Equal(encode(x), encode(v)) }) {
			v = b.distinct(schema, v, i)
		}
		out = append(out, v)
	}
	return out
}

// distinct changes a value so that it differs from those already in a list.
func (b *builder) distinct(schema, v any, i int) any {
	switch v := v.(type) {
	case float64:
		return v + float64(i)
	case bool:
		return !v
	case string:
		if list, ok := b.flat(schema)["enum"].([]any); ok && i < len(list) {
			return list[i]
		}
		return v + " " + strconv.Itoa(i+1)
	}
	return v
}

// count reads a lower bound, limited to maxItems.
func count(v any) int {
	n, _ := v.(float64)
	return int(min(max(n, 0), maxItems))
}

// numeric returns the number nearest to 0 that simple bounds allow.
func numeric(s map[string]any, integer bool) any {
	v, unit := 0.0, 1.0
	multiple, _ := s["multipleOf"].(float64)
	if multiple > 0 {
		unit = multiple
	}
	if low, ok := s["minimum"].(float64); ok && v < low {
		v = math.Ceil(low/unit) * unit
		if !integer && multiple <= 0 {
			v = low
		}
	}
	if low, ok := s["exclusiveMinimum"].(float64); ok && v <= low {
		v = (math.Floor(low/unit) + 1) * unit
	}
	if high, ok := s["maximum"].(float64); ok && v > high {
		v = math.Floor(high/unit) * unit
		if !integer && multiple <= 0 {
			v = high
		}
	}
	if high, ok := s["exclusiveMaximum"].(float64); ok && v >= high {
		v = (math.Ceil(high/unit) - 1) * unit
		if low, ok := s["exclusiveMinimum"].(float64); ok && v <= low && !integer {
			v = (low + high) / 2
		}
	}
	return v
}

// sentence returns a text for the named field.
func sentence(name string) string {
	words := strings.Join(strings.FieldsFunc(name, func(c rune) bool {
		return c == '_' || c == '-' || c == '$' ||
			c == '.'
	}), " ")
	if words == "" {
		words = "text"
	}
	return "Scripted " + words + "."
}
