package scripted

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/plait-run/plait/internal/flow/yamldoc"
)

// maxNesting bounds the nesting of values in a scenario.
const maxNesting = 100

// parse reads a scenario. Errors refer to it as file.
func parse(name, file string, data []byte) (*Scenario, error) {
	s := &Scenario{name: name}
	top, err := yamldoc.Parse(data)
	if err == nil && top == nil {
		return nil, fmt.Errorf("read scenario %s: it is empty", file)
	}
	if err == nil {
		err = readFields(top, &s.script)
	}
	if err == nil && len(s.Turns) == 0 {
		err = wrong(top, "turns are missing")
	}
	var bad *yamldoc.Error
	if errors.As(err, &bad) {
		return nil, fmt.Errorf("read scenario %s:%d: %s", file, bad.Line, bad.Message)
	}
	return s, nil
}

func wrong(n *yaml.Node, format string, args ...any) error { return yamldoc.Errorf(n, format, args...) }

// readFields reads a mapping into a struct. The yaml tags of its fields are the keys that there may be.
func readFields(n *yaml.Node, into any) error {
	v := reflect.ValueOf(into).Elem()
	at := map[string]int{}
	for i := range v.NumField() {
		if key := v.Type().Field(i).Tag.Get("yaml"); key != "" {
			at[key] = i
		}
	}
	known := strings.Join(slices.Sorted(maps.Keys(at)), ", ")
	if n.Kind != yaml.MappingNode {
		return wrong(n, "want keys and values: %s", known)
	}
	pairs, bad := yamldoc.Pairs(n)
	if len(bad) > 0 {
		return bad[0]
	}
	for _, p := range pairs {
		i, ok := at[p.Key.Value]
		if !ok || p.Key.Kind != yaml.ScalarNode {
			return wrong(p.Key, "unknown key %q; known are %s", p.Key.Value, known)
		}
		if err := readValue(p.Value, v.Field(i).Addr().Interface(), v.Type().Field(i).Tag); err != nil {
			return err
		}
	}
	return nil
}

// readValue reads a value. The tag of a whole number has its range.
func readValue(n *yaml.Node, into any, tag reflect.StructTag) error {
	scalar := n.Kind == yaml.ScalarNode
	switch into := into.(type) {
	case interface{ read(*yaml.Node) error }:
		return into.read(n)
	case *string:
		if !scalar || n.ShortTag() == "!!null" {
			return wrong(n, "want a text")
		}
		*into = n.Value
		return nil
	case *bool:
		if !scalar || n.Value != "true" && n.Value != "false" {
			return wrong(n, "want true or false")
		}
		*into = n.Value == "true"
		return nil
	case *int:
		var least, most int
		fmt.Sscanf(tag.Get("range"), "%d-%d", &least, &most)
		v, err := yamldoc.Scalar(n)
		i, ok := v.(int64)
		if err != nil || !ok || i < int64(least) || i > int64(most) {
			return wrong(n, "want a whole number from %d to %d", least, most)
		}
		*into = int(i)
		return nil
	case *time.Duration:
		d, err := time.ParseDuration(n.Value)
		if !scalar || err != nil || d < 0 || d > time.Hour {
			return wrong(n, "want a duration of at most an hour, like 50ms")
		}
		*into = d
		return nil
	case *any:
		v, err := yamldoc.Value(n, maxNesting)
		*into = v
		return err
	case *map[string]any:
		v, err := yamldoc.Value(n, maxNesting)
		if err != nil {
			return err
		}
		m, ok := v.(map[string]any)
		if !ok {
			return wrong(n, "want keys and values")
		}
		*into = m
		return nil
	}
	return readComposite(n, into)
}

// readComposite reads a struct, a list, or what a pointer points to.
func readComposite(n *yaml.Node, into any) error {
	v := reflect.ValueOf(into).Elem()
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return readValue(n, v.Interface(), "")
	case reflect.Slice:
		if n.Kind != yaml.SequenceNode {
			return wrong(n, "want a list")
		}
		v.Set(reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content)))
		for i, c := range n.Content {
			if err := readValue(c, v.Index(i).Addr().Interface(), ""); err != nil {
				return err
			}
		}
		return nil
	}
	return readFields(n, into)
}
