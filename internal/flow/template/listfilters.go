package template

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/osteele/liquid/values"

	"github.com/plait-run/plait/internal/sys/text"
)

func contains(in, what any) bool {
	if what == nil || what == false {
		return false
	}
	switch v := in.(type) {
	case string:
		return strings.Contains(v, Text(what))
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

// each is the filter of what a loop iterates over, with the loop's modifiers. As in Liquid, "reversed" applies to what
// offset and limit leave, and these do not apply to a text.
func (b *budget) each(v, offset, limit any, reversed bool) ([]any, error) {
	l := each(v)
	from, err := modifier("offset", offset, len(l))
	if err != nil {
		return nil, err
	}
	n, err := modifier("limit", limit, len(l))
	if err != nil {
		return nil, err
	}
	if _, isText := v.(string); !isText {
		begin := max(from, 0)
		l = l[begin:max(begin, min(from+n, len(l)))]
	}
	if !reversed {
		return l, nil
	}
	if err := b.step(len(l) * elementSteps); err != nil {
		return nil, err
	}
	l = slices.Clone(l)
	slices.Reverse(l)
	return l, nil
}

// modifier returns the value of a loop's modifier, at most the given number either way.
func modifier(name string, v any, most int) (int, error) {
	n, ok := integer(v)
	if !ok {
		return 0, fmt.Errorf("%s: %s is not a whole number", name, clip(text.JSON(v)))
	}
	return max(min(n, most), -most), nil
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
	_, isText := v.(string)
	if _, isMap := v.(object); isText || isMap && i < 0 || len(l) == 0 {
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
	text := Text(want)
	for _, v := range list {
		m, ok := v.(object)
		if !ok || m[key] == nil {
			continue
		}
		if want == nil && m[key] != false || want != nil && Text(m[key]) == text {
			out = append(out, v)
		}
	}
	return out
}

func uniq(list []any) []any {
	out, seen := []any{}, map[string]bool{}
	for _, v := range list {
		if k := text.JSON(v); !seen[k] {
			seen[k] = true
			out = append(out, v)
		}
	}
	return out
}

// mapped returns a field of each object.
func mapped(list []any, key string) ([]any, error) {
	out := make([]any, len(list))
	for i, v := range list {
		m, ok := v.(object)
		if !ok && v != nil {
			return nil, fmt.Errorf("%s has no fields", clip(text.JSON(v)))
		}
		out[i] = m[key]
	}
	return out, nil
}

// sortedBy returns a filter that sorts a list, by a field if it has an argument. What is null comes last.
func sortedBy(compare func(a, b any) (order int, ok bool)) any {
	return func(list []any, field any) ([]any, error) {
		of := func(v any) any {
			if field == nil {
				return v
			}
			m, _ := v.(object)
			return m[Text(field)]
		}
		list, ordered := slices.Clone(list), true
		slices.SortStableFunc(list, func(a, b any) int {
			a, b = of(a), of(b)
			switch {
			case a == nil && b == nil:
				return 0
			case a == nil:
				return 1
			case b == nil:
				return -1
			}
			order, ok := compare(a, b)
			ordered = ordered && ok
			return order
		})
		if !ordered {
			return nil, errors.New("the list has values that cannot be compared")
		}
		return list, nil
	}
}

func compare(a, b any) (order int, ok bool) {
	s, isText := a.(string)
	t, isText2 := b.(string)
	if isText || isText2 {
		return strings.Compare(s, t), isText && isText2
	}
	less, more := values.Less(a, b), values.Less(b, a)
	switch {
	case less:
		return -1, true
	case more:
		return 1, true
	}
	return 0, equal(a, b) && !isComposite(a)
}

func compareText(a, b any) (order int, ok bool) {
	return strings.Compare(strings.ToLower(Text(a)), strings.ToLower(Text(b))), true
}
