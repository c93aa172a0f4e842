package view

import (
	"fmt"
	"time"

	"go.yaml.in/yaml/v4"
)

// A Time is Unix milliseconds, written as such in JSON and as RFC 3339 in YAML, where
// zero is null.
type Time int64

// MarshalYAML formats t for people.
func (t Time) MarshalYAML() (any, error) {
	if t == 0 {
		return nil, nil
	}
	return t.String(), nil
}

// String returns t in UTC, to the second.
func (t Time) String() string { return time.UnixMilli(int64(t)).UTC().Format(time.RFC3339) }

// UnmarshalYAML parses what MarshalYAML writes.
func (t *Time) UnmarshalYAML(n *yaml.Node) error {
	if n.Tag == "!!null" {
		*t = 0
		return nil
	}
	at, err := time.Parse(time.RFC3339, n.Value)
	if err != nil {
		return fmt.Errorf("line %d: %w", n.Line, err)
	}
	*t = Time(at.UnixMilli())
	return nil
}
