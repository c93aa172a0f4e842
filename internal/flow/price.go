package flow

import (
	"math"
	"strings"
)

// A Price is what a model's tokens cost, in US dollars per million tokens, which is millionths of
// a dollar per token.
type Price struct {
	Input  float64 // of uncached input
	Cached float64
	Output float64
}

// Prices maps model names to prices that are used instead of the [PublicPrices].
type Prices map[string]Price

// Of returns the price of a model, if it is known. Of a public price, the model may be named with the date of a snapshot
// (-20251001, -2026-03-05), or with [1m], which Claude Code appends for a long context.
func (p Prices) Of(model string) (price Price, known bool) {
	if price, known = p[model]; known {
		return price, true
	}
	model = strings.TrimSuffix(model, "[1m]")
	for _, date := range []string{"-00000000", "-0000-00-00"} {
		if n := len(model) - len(date); n > 0 && strings.Map(zeroDigit, model[n:]) == date {
			model = model[:n]
			break
		}
	}
	for _, m := range publicPrices {
		if m.Model == model {
			return m.Price, true
		}
	}
	return Price{}, false
}

func zeroDigit(r rune) rune {
	if '0' <= r && r <= '9' {
		return '0'
	}
	return r
}

// Cost returns the cost of using a model in millionths of a dollar, 0 if its price is unknown.
// input includes the cached tokens.
func (p Prices) Cost(model string, input, cached, output int64) int64 {
	price, _ := p.Of(model)
	return int64(math.Round(float64(input-cached)*price.Input + float64(cached)*price.Cached +
		float64(output)*price.Output))
}
