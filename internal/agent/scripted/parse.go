package scripted

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/plait-run/plait/internal/flow/yamldoc"
)

// parse reads a scenario. Errors refer to it as file.
func parse(name, file string, data []byte) (*Scenario, error) {
	s := &Scenario{name: name}
	top, err := yamldoc.Parse(data)
	if err == nil && top == nil {
		return nil, fmt.Errorf("read scenario %s: it is empty", file)
	}
	if err == nil {
		err = readScenario(s, top)
	}
	var bad *yamldoc.Error
	if errors.As(err, &bad) {
		return nil, fmt.Errorf("read scenario %s:%d: %s", file, bad.Line, bad.Message)
	}
	return s, nil
}

func readScenario(s *Scenario, top *yaml.Node) error {
	err := fields(top, map[string]reader{
		"about": textField(&s.about),
		"turns": list(&s.turns, readTurn),
	})
	if err == nil && len(s.turns) == 0 {
		err = wrong(top, "turns are missing")
	}
	return err
}

func wrong(n *yaml.Node, format string, args ...any) error { return yamldoc.Errorf(n, format, args...) }

// A reader reads a value from a node.
type reader func(*yaml.Node) error

// fields reads a mapping that has only known keys.
func fields(n *yaml.Node, known map[string]reader) error {
	if n.Kind != yaml.MappingNode {
		return wrong(n, "want keys and values: %s", names(known))
	}
	pairs, bad := yamldoc.Pairs(n)
	if len(bad) > 0 {
		return bad[0]
	}
	for _, p := range pairs {
		read, ok := known[p.Key.Value]
		if !ok || p.Key.Kind != yaml.ScalarNode {
			return wrong(p.Key, "unknown key %q; known are %s", p.Key.Value, names(known))
		}
		if err := read(p.Value); err != nil {
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

func textField(into *string) reader {
	return func(n *yaml.Node) (err error) { *into, err = readText(n); return err }
}

func number(into *int, least, most int) reader {
	return func(n *yaml.Node) error {
		v, err := yamldoc.Scalar(n)
		i, ok := v.(int64)
		if err != nil || !ok || i < int64(least) || i > int64(most) {
			return wrong(n, "want a whole number from %d to %d", least, most)
		}
		*into = int(i)
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
		var values map[string]any
		if err := anyMap(&values)(n); err != nil {
			return err
		}
		*into = make(map[string]string, len(values))
		for k, v := range values {
			(*into)[k] = fmt.Sprint(v)
		}
		return nil
	}
}

// maxNesting bounds the nesting of values in a scenario.
const maxNesting = 100

func anyMap(into *map[string]any) reader {
	return func(n *yaml.Node) error {
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
}
