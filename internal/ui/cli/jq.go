package cli

import (
	"encoding/json"
	"fmt"

	"github.com/itchyny/gojq"

	"github.com/plait-run/plait/internal/sys/text"
)

// useJQ reads the expression of --jq, which implies JSON.
func (a *app) useJQ(expr string) error {
	if expr == "" {
		return nil
	}
	query, err := gojq.Parse(expr)
	if err != nil {
		return usagef("invalid value %q for --jq: %w", text.Safe(expr), err)
	}
	if a.jq, err = gojq.Compile(query); err != nil {
		return usagef("invalid value %q for --jq: %w", text.Safe(expr), err)
	}
	a.json = true
	return nil
}

// filtered prints what --jq selects from v, one result a line: texts as they are, everything else as JSON.
func (a *app) filtered(v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	var in any
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	for results := a.jq.Run(in); ; {
		out, ok := results.Next()
		if !ok {
			return nil
		}
		switch out := out.(type) {
		case error:
			return usagef("--jq: %w", out)
		case string:
			if _, err := fmt.Fprintln(a.out, out); err != nil {
				return err
			}
		default:
			text, err := gojq.Marshal(out)
			if err != nil {
				return err
			}
			if _, err := fmt.Fprintf(a.out, "%s\n", text); err != nil {
				return err
			}
		}
	}
}
