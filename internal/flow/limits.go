package flow

import (
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v4"
)

// DecodeLimits reads a limits mapping in a configuration file. Missing limits stay 0. The
// problems name file and use node's lines.
func DecodeLimits(node *yaml.Node, file string) (Limits, []Problem) {
	d := &draft{reader: newReader(nil, file), def: &Definition{}}
	d.normalize(node, []string{file})
	d.limits(node)
	return d.def.Limits, sorted(file, d.problems)
}

// ParseLimits reads limits written as NAME=VALUE, such as "maxRounds=10". If a name is repeated,
// the last value wins. A value that would be no limit, such as 0, is an error.
func ParseLimits(pairs []string) (Limits, error) {
	var all Limits
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
		case strings.HasPrefix(value, "-"), len(problems) == 0 && l == Limits{}:
			return all, fmt.Errorf("%s would be no limit: want more than 0", pair)
		case len(problems) > 0:
			return all, errors.New(problems[0].Message)
		}
		all = all.With(l)
	}
	return all, nil
}

// With returns l overridden by the limits that over sets.
func (l Limits) With(over Limits) Limits {
	return l.each(over, func(base, over int64) int64 {
		if over != 0 {
			return over
		}
		return base
	})
}

// Cap returns the lower of each limit of l and by; zero means no limit.
func (l Limits) Cap(by Limits) Limits {
	return l.each(by, func(a, b int64) int64 {
		if a == 0 || b != 0 && b < a {
			return b
		}
		return a
	})
}

// Max returns the higher of each limit of l and by.
func (l Limits) Max(by Limits) Limits {
	return l.each(by, func(a, b int64) int64 { return max(a, b) })
}

// Above returns the limits of l that are higher than those of by.
func (l Limits) Above(by Limits) Limits {
	return l.each(by, func(a, b int64) int64 {
		if b == 0 || a <= b {
			return 0
		}
		return a
	})
}

func (l Limits) each(b Limits, pick func(a, b int64) int64) Limits {
	return Limits{
		MaxRounds:       int(pick(int64(l.MaxRounds), int64(b.MaxRounds))),
		MaxDepth:        int(pick(int64(l.MaxDepth), int64(b.MaxDepth))),
		Timeout:         Duration(pick(int64(l.Timeout), int64(b.Timeout))),
		MaxConcurrent:   int(pick(int64(l.MaxConcurrent), int64(b.MaxConcurrent))),
		MaxTokens:       pick(l.MaxTokens, b.MaxTokens),
		MaxCostMicroUSD: pick(l.MaxCostMicroUSD, b.MaxCostMicroUSD),
		MaxActions:      int(pick(int64(l.MaxActions), int64(b.MaxActions))),
		MaxTaskActions:  int(pick(int64(l.MaxTaskActions), int64(b.MaxTaskActions))),
		MaxOutput:       Size(pick(int64(l.MaxOutput), int64(b.MaxOutput))),
		MaxAttempts:     int(pick(int64(l.MaxAttempts), int64(b.MaxAttempts))),
	}
}
