package scripted

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"
)

// parse reads a scenario. file is what errors call it.
func parse(name, file string, data []byte) (*Scenario, error) {
	s := &Scenario{name: name}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc yaml.Node
	err := dec.Decode(&doc)
	switch {
	case errors.Is(err, io.EOF):
		err = errors.New("it is empty")
	case err == nil:
		if !errors.Is(dec.Decode(new(yaml.Node)), io.EOF) {
			err = errors.New("only one document is wanted")
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read scenario %s: %w", file, err)
	}
	top := &doc
	if len(doc.Content) > 0 {
		top = doc.Content[0]
	}
	err = fields(top, map[string]reader{
		"about": text1(&s.about),
		"turns": list(&s.turns, readTurn),
	})
	if err == nil && len(s.turns) == 0 {
		err = wrong(top, "turns are missing")
	}
	var bad *lineError
	if errors.As(err, &bad) {
		return nil, fmt.Errorf("read scenario %s:%d: %s", file, bad.line, bad.what)
	}
	return s, nil
}

// A lineError says what is wrong on a line.
type lineError struct {
	line int
	what string
}

func (e *lineError) Error() string { return fmt.Sprintf("line %d: %s", e.line, e.what) }

func wrong(n *yaml.Node, format string, args ...any) error {
	return &lineError{max(n.Line, 1), fmt.Sprintf(format, args...)}
}

// A reader takes a value from a node.
type reader func(*yaml.Node) error

// fields reads a mapping that has no other keys than those known.
func fields(n *yaml.Node, known map[string]reader) error {
	if n.Kind != yaml.MappingNode {
		return wrong(n, "want keys and values: %s", names(known))
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		read, ok := known[key.Value]
		if !ok || key.Kind != yaml.ScalarNode {
			return wrong(key, "unknown key %q; known are %s", key.Value, names(known))
		}
		if seen[key.Value] {
			return wrong(key, "key %s stands twice", key.Value)
		}
		seen[key.Value] = true
		if err := read(n.Content[i+1]); err != nil {
			return err
		}
	}
	return nil
}

func names(known map[string]reader) string {
	return strings.Join(slices.Sorted(maps.Keys(known)), ", ")
}

func list[T any](into *[]T, read func(*yaml.Node) (T, error)) reader {
	return func(n *yaml.Node) error {
		if n.Kind != yaml.SequenceNode {
			return wrong(n, "want a list")
		}
		for _, c := range n.Content {
			v, err := read(c)
			if err != nil {
				return err
			}
			*into = append(*into, v)
		}
		return nil
	}
}

func readText(n *yaml.Node) (string, error) {
	if n.Kind != yaml.ScalarNode || n.ShortTag() == "!!null" {
		return "", wrong(n, "want a text")
	}
	return n.Value, nil
}

func text1(into *string) reader {
	return func(n *yaml.Node) (err error) { *into, err = readText(n); return err }
}

func number(into *int, least, most int) reader {
	return func(n *yaml.Node) error {
		v, err := strconv.Atoi(n.Value)
		if n.Kind != yaml.ScalarNode || err != nil || v < least || v > most {
			return wrong(n, "want a whole number from %d to %d", least, most)
		}
		*into = v
		return nil
	}
}

func boolean(into *bool) reader {
	return func(n *yaml.Node) error {
		if n.Kind != yaml.ScalarNode || n.Value != "true" && n.Value != "false" {
			return wrong(n, "want true or false")
		}
		*into = n.Value == "true"
		return nil
	}
}

func duration(into *time.Duration) reader {
	return func(n *yaml.Node) error {
		d, err := time.ParseDuration(n.Value)
		if n.Kind != yaml.ScalarNode || err != nil || d < 0 || d > time.Hour {
			return wrong(n, "want a duration of at most an hour, like 50ms")
		}
		*into = d
		return nil
	}
}

func textMap(into *map[string]string) reader {
	return func(n *yaml.Node) error {
		v, err := jsonValue(n, 0)
		if err != nil {
			return err
		}
		m, ok := v.(map[string]any)
		if !ok {
			return wrong(n, "want keys and texts")
		}
		*into = make(map[string]string, len(m))
		for k, v := range m {
			(*into)[k] = fmt.Sprint(v)
		}
		return nil
	}
}

func anyMap(into *map[string]any) reader {
	return func(n *yaml.Node) error {
		v, err := jsonValue(n, 0)
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
}

// jsonValue reads a value that JSON can hold: no references, no tags, only texts as keys.
func jsonValue(n *yaml.Node, depth int) (any, error) {
	if depth > 100 {
		return nil, wrong(n, "nested too deep")
	}
	switch n.Kind {
	case yaml.MappingNode:
		m := make(map[string]any, len(n.Content)/2)
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			if key.Kind != yaml.ScalarNode {
				return nil, wrong(key, "keys must be texts")
			}
			if _, twice := m[key.Value]; twice {
				return nil, wrong(key, "key %s stands twice", key.Value)
			}
			v, err := jsonValue(n.Content[i+1], depth+1)
			if err != nil {
				return nil, err
			}
			m[key.Value] = v
		}
		return m, nil
	case yaml.SequenceNode:
		items := make([]any, 0, len(n.Content))
		for _, c := range n.Content {
			v, err := jsonValue(c, depth+1)
			if err != nil {
				return nil, err
			}
			items = append(items, v)
		}
		return items, nil
	case yaml.ScalarNode:
		return scalar(n)
	}
	return nil, wrong(n, "references to other values are not allowed")
}

func scalar(n *yaml.Node) (any, error) {
	switch n.ShortTag() {
	case "!!null":
		return nil, nil
	case "!!bool":
		return strings.EqualFold(n.Value, "true"), nil
	case "!!int", "!!float":
		v, err := strconv.ParseFloat(n.Value, 64)
		if err != nil || math.IsInf(v, 0) || math.IsNaN(v) {
			return nil, wrong(n, "%s is not a number that JSON has; put it in quotes if it is a text", n.Value)
		}
		return v, nil
	}
	return n.Value, nil
}
