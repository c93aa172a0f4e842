package parse

import (
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/plait-run/plait/internal/flow"
)

// DecodeLimits reads a limits mapping in a configuration file. Missing limits stay 0. The
// problems name file and use node's lines.
func DecodeLimits(node *yaml.Node, file string) (flow.Limits, []flow.Problem) {
	var l flow.Limits
	r := newReader(nil, file)
	r.normalize(node, []string{file})
	r.decode(node, "limits", &l, nil)
	return l, sorted(file, r.problems)
}

// ParseLimits reads limits written as NAME=VALUE, such as "maxRounds=10". If a name is repeated,
// the last value wins. A value that would be no limit, such as 0, is an error.
func ParseLimits(pairs []string) (flow.Limits, error) {
	var all flow.Limits
	for _, pair := range pairs {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" || value == "" || strings.ContainsAny(pair, "\n#{}[]&*!|>'\"%@`") {
			return all, fmt.Errorf("invalid limit %q: want NAME=VALUE, such as maxRounds=10", pair)
		}
		var doc yaml.Node
		if err := yaml.Unmarshal([]byte(name+": "+value), &doc); err != nil || len(doc.Content) == 0 {
			return all, fmt.Errorf("invalid limit %q: want NAME=VALUE, such as maxRounds=10", pair)
		}
		l, problems := DecodeLimits(doc.Content[0], "")
		switch {
		case strings.HasPrefix(value, "-"), len(problems) == 0 && l == flow.Limits{}:
			return all, fmt.Errorf("%s would be no limit: want more than 0", pair)
		case len(problems) > 0:
			return all, errors.New(problems[0].Message)
		}
		all = all.With(l)
	}
	return all, nil
}
