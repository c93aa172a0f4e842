package schema

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/plait-run/plait/internal/sys/text"
)

// Faults lists the innermost errors, each with its place in doc and what is there. Of a oneOf it
// keeps those of the variant that $status selects: errors of other variants do not help, nor do
// properties that are only disallowed because no variant matches.
func Faults(e *jsonschema.ValidationError, doc any) []string {
	at := "/" + strings.Join(e.InstanceLocation, "/")
	var out []string
	if k, ok := e.ErrorKind.(*kind.PropertyNames); ok { // the place is not reliable: the validator overwrites it
		for _, c := range e.Causes {
			for _, line := range Faults(c, k.Property) {
				out = append(out, "key "+strings.TrimPrefix(line, "/: "))
			}
		}
		if len(out) == 0 {
			out = []string{"key " + Brief(k.Property) + " is not allowed"}
		}
		return out
	}
	if len(e.Causes) == 0 {
		return []string{at + ": " + misfit(e, doc)}
	}
	if choice(e) {
		for _, c := range e.Causes {
			if !wrongStatus(c) {
				out = append(out, Faults(c, doc)...)
			}
		}
		return out
	}
	chosen := slices.ContainsFunc(e.Causes, choice)
	for _, c := range e.Causes {
		if _, never := c.ErrorKind.(*kind.FalseSchema); !never || !chosen {
			out = append(out, Faults(c, doc)...)
		}
	}
	return out
}

// choice reports whether e says that no variant matches.
func choice(e *jsonschema.ValidationError) bool {
	switch e.ErrorKind.(type) {
	case *kind.OneOf, *kind.AnyOf:
		return len(e.Causes) > 0
	}
	return false
}

func wrongStatus(e *jsonschema.ValidationError) bool {
	if len(e.Causes) == 0 {
		return len(e.InstanceLocation) == 1 && e.InstanceLocation[0] == "$status"
	}
	return slices.ContainsFunc(e.Causes, wrongStatus)
}

// misfit says what is wrong with the value at an innermost error, and what the value is unless
// that is said anyway.
func misfit(e *jsonschema.ValidationError, doc any) string {
	got := Brief(valueAt(doc, e.InstanceLocation))
	switch what := e.ErrorKind.(type) {
	case *kind.OneOf:
		if len(what.Subschemas) > 1 {
			return "it fits more than one variant"
		}
	case *kind.FalseSchema:
		return got + " is not allowed"
	case *kind.Enum:
		return got + MustBe(what.Want)
	case *kind.Const:
		return got + MustBe([]any{what.Want})
	case *kind.Type:
		return fmt.Sprintf("%s; it must be of type %s", got, orList(what.Want))
	case *kind.Pattern:
		return fmt.Sprintf("%s; it must match the pattern %s", got, what.Want)
	case *kind.Format:
		if pattern, ok := what.Got.(string); ok && what.Want == "regex" {
			return got + "; " + badPattern(pattern)
		}
		return fmt.Sprintf("%s; it must be a valid %s", got, what.Want)
	}
	_, msg, ok := strings.Cut(e.Error(), "': ")
	if !ok {
		msg = e.Error()
	}
	if strings.HasPrefix(got, "{") || strings.HasPrefix(got, "[") {
		return msg
	}
	return got + "; " + msg
}

// valueAt returns the value at a place in a JSON document, which it has.
func valueAt(doc any, at []string) any {
	for _, key := range at {
		switch v := doc.(type) {
		case map[string]any:
			doc = v[key]
		case []any:
			if i, err := strconv.Atoi(key); err == nil && i < len(v) {
				doc = v[i]
			}
		}
	}
	return doc
}

// Brief returns the beginning of the JSON of a value.
func Brief(v any) string { return text.Shorten(text.JSON(v), 80) }

// MustBe returns "; it must be …" with the wanted values.
func MustBe(want []any) string {
	const most = 20
	var list []string
	for _, v := range want[:min(len(want), most)] {
		list = append(list, Brief(v))
	}
	if over := len(want) - most; over > 0 {
		list = append(list, fmt.Sprintf("one of %d others", over))
	}
	return "; it must be " + orList(list)
}

// orList joins words: "a, b or c".
func orList(list []string) string {
	if n := len(list); n > 1 {
		return strings.Join(list[:n-1], ", ") + " or " + list[n-1]
	}
	return strings.Join(list, "")
}
