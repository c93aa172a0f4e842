package flow

import (
	"math"

	"go.yaml.in/yaml/v4"

	"github.com/plait-run/plait/internal/flow/yamldoc"
)

// A Price is what a model's tokens cost, in US dollars per million tokens, which is millionths of
// a dollar per token.
type Price struct {
	Input  float64 // of uncached input
	Cached float64
	Output float64
}

// Prices maps model names to prices.
type Prices map[string]Price

// Cost returns the cost of using a model in millionths of a dollar, 0 if its price is unknown.
// input includes the cached tokens.
func (p Prices) Cost(model string, input, cached, output int64) int64 {
	price := p[model]
	return int64(math.Round(float64(input-cached)*price.Input + float64(cached)*price.Cached + float64(output)*price.Output))
}

// DecodePrice reads the price of a model in a configuration file.
func DecodePrice(node *yaml.Node, file string) (Price, []Problem) {
	r := newReader(nil, file)
	r.normalize(node, []string{file})
	var p Price
	cached := false
	r.object(node, "a price", map[string]func(entry){
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
