package parse

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/sys/text"
)

// decode reads mapping n into a struct by the names that its fields have in JSON: a definition is written as it is
// stored. own reads the keys that have another form, or no field. A key that nothing reads is reported. decode returns
// the entries that it read.
func (r *reader) decode(n *yaml.Node, what string, into any, own map[string]func(entry)) map[string]entry {
	read := map[string]entry{}
	fields := reflect.ValueOf(into).Elem()
	for _, e := range r.mapping(n, what) {
		k := resolve(e.key).Value
		if f, ok := own[k]; ok {
			f(e)
		} else if field, ok := fieldNamed(fields, k); ok {
			r.value(e.val, k, field.Addr().Interface())
		} else {
			hint := ""
			if near := text.Nearest(k, keysOf(fields, own)); near != "" {
				hint, r.meant[near] = "; did you mean "+near+"?", true
			}
			r.report(e.key, codeUnknownKey, "%s has no key %q%s", what, k, hint)
			continue
		}
		read[k] = e
	}
	return read
}

// fieldNamed returns the field of a struct, or of one embedded in it, with a name in JSON.
func fieldNamed(v reflect.Value, name string) (reflect.Value, bool) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if f.Anonymous {
			if field, ok := fieldNamed(v.Field(i), name); ok {
				return field, true
			}
		} else if nameOf(f) == name && name != "" {
			return v.Field(i), true
		}
	}
	return reflect.Value{}, false
}

func nameOf(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// keysOf returns all keys that decode knows, sorted.
func keysOf(v reflect.Value, own map[string]func(entry)) (keys []string) {
	keys = slices.Collect(maps.Keys(own))
	for _, f := range reflect.VisibleFields(v.Type()) {
		if name := nameOf(f); name != "" {
			keys = append(keys, name)
		}
	}
	slices.Sort(keys)
	return keys
}

// old reports the keys of a mapping that are of an older format, and returns what skips them.
func (r *reader) old(n *yaml.Node, formats map[string]string) map[string]func(entry) {
	skip := map[string]func(entry){}
	for _, e := range r.entries(n) {
		k := resolve(e.key).Value
		if why, ok := formats[k]; ok {
			r.report(e.key, codeOldFormat, "%q is of an older format: %s", k, why)
			skip[k] = func(entry) {}
		}
	}
	return skip
}

// value reads n as the type of what to points to. What is missing or wrong leaves it as it is.
func (r *reader) value(n *yaml.Node, what string, to any) {
	switch to := to.(type) {
	case *string:
		*to = r.text(n, what)
	case *int:
		if v, ok := r.count(n, what); ok {
			*to = int(v)
		}
	case *int64:
		if v, ok := r.count(n, what); ok {
			*to = v
		}
	case *bool:
		if v, ok := r.boolean(n, what); ok {
			*to = v
		}
	case **bool:
		if v, ok := r.boolean(n, what); ok {
			*to = &v
		}
	case *[]string:
		*to = r.list(n, what, r.text)
	case *map[string]string:
		*to = r.variables(n, what)
	case *map[string]any:
		*to = r.config(n, what)
	case *flow.Duration:
		*to = r.duration(n, what)
	case *flow.Size:
		*to = r.size(n, what)
	case *flow.Access:
		*to = r.access(n)
	case **flow.AgentRef:
		*to = r.agentRef(n)
	case **flow.Sandbox:
		*to = r.sandbox(n)
	case **yaml.Node:
		if !isNull(resolve(n)) {
			*to = n
		}
	default: // a struct
		r.decode(n, what, to, nil)
	}
}
