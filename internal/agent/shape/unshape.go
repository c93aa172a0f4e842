package shape

import (
	"encoding/json"
	"slices"

	"github.com/plait-run/plait/internal/agent"
)

// Unshape converts an answer in the form of Strict to front matter and text. An
// answer that is not one JSON object is returned unchanged.
func Unshape(schema json.RawMessage, answer []byte) ([]byte, error) {
	s, err := shapeOf(schema)
	if err != nil {
		return nil, err
	}
	v, err := shapeParse(answer)
	if err != nil {
		return answer, nil //nolint:nilerr // what it is, is the engine's to say
	}
	o, ok := v.(shapeObject)
	if !ok {
		return answer, nil
	}
	var body string
	if at := slices.IndexFunc(o, func(m shapeMember) bool { return m.key == agent.Body }); at >= 0 {
		text, isText := o[at].value.(string)
		if isText || o[at].value == nil {
			body = text
			o = slices.Delete(o, at, at+1)
		}
	}
	if s.suspends() {
		status, _ := o.get(shapeStatus)
		if status == shapeSuspend {
			o = slices.DeleteFunc(o, func(m shapeMember) bool {
				return m.key != shapeStatus && m.key != shapeReason || m.value == nil
			})
		} else if s.index(shapeReason) < 0 {
			o = slices.DeleteFunc(o, func(m shapeMember) bool { return m.key == shapeReason })
		}
	}
	out := append([]byte("---\n"), shapeAppend(nil, s.prune(o))...)
	out = append(out, "\n---\n\n"...)
	return append(out, body...), nil
}

// prune removes the nulls that stand for omitted properties.
func (s *shape) prune(v any) any {
	if s.any != nil {
		if i := slices.IndexFunc(s.any, func(a *shape) bool { return a.fits(v) }); i >= 0 {
			return s.any[i].prune(v)
		}
		return v
	}
	switch v := v.(type) {
	case shapeObject:
		kept := make(shapeObject, 0, len(v))
		for _, m := range v {
			i := s.index(m.key)
			switch {
			case i < 0:
				kept = append(kept, m)
			case m.value == nil && !s.fields[i].required && !s.fields[i].nullable():
			default:
				kept = append(kept, shapeMember{m.key, s.fields[i].prune(m.value)})
			}
		}
		return kept
	case []any:
		if s.items == nil {
			return v
		}
		list := make([]any, len(v))
		for i := range v {
			list[i] = s.items.prune(v[i])
		}
		return list
	}
	return v
}

// fits reports whether a value has the strict form.
func (s *shape) fits(v any) bool {
	if s.any != nil {
		return slices.ContainsFunc(s.any, func(a *shape) bool { return a.fits(v) })
	}
	of := shapeTypeOf(v)
	if !slices.Contains(s.types, of) && !(of == "integer" && slices.Contains(s.types, "number")) &&
		!(of == "number" && slices.Contains(s.types, "integer")) {
		return false
	}
	if s.enum != nil && !slices.ContainsFunc(s.enum, func(e any) bool { return shapeEqual(e, v) }) {
		return false
	}
	switch v := v.(type) {
	case shapeObject:
		for _, m := range v {
			if s.index(m.key) < 0 {
				return false
			}
		}
		for _, f := range s.fields {
			value, ok := v.get(f.name)
			switch {
			case !ok:
				return false
			case value == nil && !f.required:
			case !f.fits(value):
				return false
			}
		}
	case []any:
		return !slices.ContainsFunc(v, func(e any) bool { return !s.items.fits(e) })
	}
	return true
}
