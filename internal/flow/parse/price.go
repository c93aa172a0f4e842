package parse

import (
	"go.yaml.in/yaml/v4"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/flow/yamldoc"
)

// DecodePrice reads the price of a model in a configuration file.
func DecodePrice(node *yaml.Node, file string) (flow.Price, []flow.Problem) {
	r := newReader(nil, file)
	r.normalize(node, []string{file})
	var p flow.Price
	cached := false
	r.decode(node, "a price", &struct{}{}, map[string]func(entry){
		"input":  func(e entry) { p.Input = r.dollars(e.val, "input") },
		"cached": func(e entry) { p.Cached, cached = r.dollars(e.val, "cached"), true },
		"output": func(e entry) { p.Output = r.dollars(e.val, "output") },
	})
	if !cached {
		p.Cached = p.Input
	}
	if len(r.problems) == 0 && p.Input == 0 && p.Output == 0 {
		r.report(node, codeMissingKey, "a price needs input and output: US dollars per million tokens")
	}
	return p, sorted(file, r.problems)
}

func (r *reader) dollars(n *yaml.Node, what string) float64 {
	number, _ := yamldoc.Scalar(resolve(n))
	v, ok := number.(float64)
	if i, whole := number.(int64); whole {
		v, ok = float64(i), true
	}
	if !ok || v < 0 || v > 1e6 {
		r.report(n, codeBadLimit, "%s must be US dollars per million tokens, from 0 to 1000000", what)
		return 0
	}
	return v
}
