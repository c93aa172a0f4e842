package schema

import (
	"errors"
	"fmt"
	"maps"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// An Error is why a schema does not compile.
type Error struct{ Faults []Fault }

// A Fault is one thing that is wrong in a schema.
type Fault struct {
	At   []string // nil if it is unknown
	Key  string   // the key at that place which is wrong, "" for the value
	Text string
}

const maxFaults = 8

func (e *Error) Error() string {
	lines := make([]string, len(e.Faults))
	for i, f := range e.Faults {
		lines[i] = f.Text
	}
	return strings.Join(lines, "; ")
}

// explain returns an error of the compiler of schemas with what its author needs to know.
func explain(err error, doc any) error {
	var invalid *jsonschema.SchemaValidationError
	var ve *jsonschema.ValidationError
	var elsewhere *jsonschema.LoadURLError
	if errors.As(err, &elsewhere) {
		err = elsewhere.Err
	}
	if !errors.As(err, &invalid) || !errors.As(invalid.Err, &ve) {
		text := strings.NewReplacer(schemaURL, "", "flow:///", "").Replace(err.Error())
		return &Error{[]Fault{{Text: text}}}
	}
	var faults []Fault
	walkCauses(ve, func(leaf *jsonschema.ValidationError) {
		f := Fault{At: append([]string{}, leaf.InstanceLocation...), Text: "not valid at " + Faults(leaf, doc)[0]}
		if k, ok := leaf.ErrorKind.(*kind.PropertyNames); ok {
			f = Fault{Key: k.Property, Text: "not valid: " + Faults(leaf, doc)[0]}
		}
		faults = append(faults, f)
	})
	slices.SortFunc(faults, func(a, b Fault) int { return strings.Compare(a.Text, b.Text) })
	faults = slices.CompactFunc(faults, func(a, b Fault) bool {
		return a.Key == b.Key && slices.Equal(a.At, b.At)
	})
	faults = faults[:min(len(faults), maxFaults)]
	for i, f := range faults {
		if f.Key != "" {
			faults[i].At = whereKey(doc, f.Key)
		}
	}
	return &Error{faults}
}

// whereKey returns the place of the first object in doc that has a key. The validator overwrites the place
// of a key that it refuses.
func whereKey(doc any, key string) []string {
	below := func(name string, v any) []string {
		if at := whereKey(v, key); at != nil {
			return append([]string{name}, at...)
		}
		return nil
	}
	switch v := doc.(type) {
	case map[string]any:
		if _, ok := v[key]; ok {
			return []string{}
		}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if at := below(name, v[name]); at != nil {
				return at
			}
		}
	case []any:
		for i, e := range v {
			if at := below(strconv.Itoa(i), e); at != nil {
				return at
			}
		}
	}
	return nil
}

// walkCauses calls f with the innermost errors. Those of a key do not know where it is, so they count as one.
func walkCauses(e *jsonschema.ValidationError, f func(*jsonschema.ValidationError)) {
	if _, ofKey := e.ErrorKind.(*kind.PropertyNames); ofKey || len(e.Causes) == 0 {
		f(e)
		return
	}
	for _, c := range e.Causes {
		walkCauses(c, f)
	}
}

// badPattern says what is wrong with a pattern.
func badPattern(pattern string) string {
	_, err := syntax.Parse(pattern, syntax.Perl)
	var bad *syntax.Error
	switch {
	case !errors.As(err, &bad):
		return "it must be a regular expression"
	case strings.HasPrefix(bad.Expr, "(?=") || strings.HasPrefix(bad.Expr, "(?!") || strings.HasPrefix(bad.Expr, "(?<"):
		return fmt.Sprintf("a pattern cannot look ahead or behind as %s does: write it without, or exclude with "+
			"not: {pattern: …}", bad.Expr)
	}
	return fmt.Sprintf("it must be a regular expression of RE2: %s in %s", bad.Code, bad.Expr)
}
