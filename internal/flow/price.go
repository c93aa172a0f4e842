package flow

import (
	"math"
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
	return int64(math.Round(float64(input-cached)*price.Input + float64(cached)*price.Cached +
		float64(output)*price.Output))
}
