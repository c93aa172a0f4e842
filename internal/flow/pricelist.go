package flow

import "slices"

// A PublicPrice is the price of a model as its vendor publishes it: of the standard tier, for prompts below the length
// from which the vendor charges more. Writing to a cache counts as input.
type PublicPrice struct {
	Model string
	Price
	Read   string // when it was read, YYYY-MM-DD
	Source string // the address of the page
}

// PublicPrices returns the prices that ship with this release. Models that are not among them have no price.
func PublicPrices() []PublicPrice { return slices.Clone(publicPrices) }

// Where prices were read, and when.
const (
	pricesRead      = "2026-11-27"
	anthropicPrices = "https://platform.claude.com/docs/en/about-claude/pricing"
	openAIModels    = "https://developers.openai.com/api/docs/models"
	copilotPrices   = "https://docs.github.com/en/copilot/reference/copilot-billing/models-and-pricing"
)

var publicPrices = []PublicPrice{
	{"claude-fable-5-1", Price{10, 0.25, 50}, pricesRead, anthropicPrices},
	{"claude-fable-5", Price{10, 1, 50}, pricesRead, anthropicPrices},
	{"claude-opus-5-5", Price{4, 0.20, 20}, pricesRead, anthropicPrices},
	{"claude-opus-5", Price{5, 0.50, 25}, pricesRead, anthropicPrices},
	{"claude-opus-4-8", Price{5, 0.50, 25}, pricesRead, anthropicPrices},
	{"claude-opus-4-7", Price{5, 0.50, 25}, pricesRead, anthropicPrices},
	{"claude-opus-4-6", Price{5, 0.50, 25}, pricesRead, anthropicPrices},
	{"claude-opus-4-5", Price{5, 0.50, 25}, pricesRead, anthropicPrices},
	{"claude-opus-4-1", Price{15, 1.50, 75}, pricesRead, anthropicPrices},
	{"claude-sonnet-5-5", Price{2, 0.10, 10}, pricesRead, anthropicPrices},
	{"claude-sonnet-5", Price{2, 0.20, 10}, pricesRead, anthropicPrices},
	{"claude-sonnet-4-6", Price{3, 0.30, 15}, pricesRead, anthropicPrices},
	{"claude-sonnet-4-5", Price{3, 0.30, 15}, pricesRead, anthropicPrices},
	{"claude-sonnet-4", Price{3, 0.30, 15}, pricesRead, anthropicPrices},
	{"claude-haiku-5-5", Price{0.10, 0.01, 0.50}, pricesRead, anthropicPrices},
	{"claude-haiku-4-5", Price{1, 0.10, 5}, pricesRead, anthropicPrices},
	{"gpt-6.2-sol", Price{2, 0.10, 10}, pricesRead, openAIModels},
	{"gpt-6.1-sol", Price{2, 0.10, 10}, pricesRead, openAIModels},
	{"gpt-6-sol", Price{2, 0.20, 10}, pricesRead, openAIModels},
	{"gpt-5.6-sol", Price{5, 0.50, 30}, pricesRead, copilotPrices},
	{"gpt-5.6-terra", Price{2, 0.20, 12}, pricesRead, copilotPrices},
	{"gpt-5.6-luna", Price{0.20, 0.02, 1.20}, pricesRead, copilotPrices},
	{"gpt-5.5", Price{5, 0.50, 30}, pricesRead, copilotPrices},
	{"gpt-5.4", Price{2.50, 0.25, 15}, pricesRead, copilotPrices},
	{"gpt-5.4-mini", Price{0.75, 0.075, 4.50}, pricesRead, copilotPrices},
	{"gpt-5.4-nano", Price{0.20, 0.02, 1.25}, pricesRead, copilotPrices},
	{"gpt-5.3-codex", Price{1.75, 0.175, 14}, pricesRead, copilotPrices},
	{"gpt-5.2-codex", Price{1.75, 0.175, 14}, pricesRead, copilotPrices},
	{"gpt-5.2", Price{1.75, 0.175, 14}, pricesRead, copilotPrices},
	{"gpt-5-codex", Price{1.25, 0.125, 10}, pricesRead, openAIModels},
	{"gpt-5-mini", Price{0.25, 0.025, 2}, pricesRead, copilotPrices},
	{"gpt-4.1", Price{2, 0.50, 8}, pricesRead, openAIModels},
	{"gpt-4o", Price{2.50, 1.25, 10}, pricesRead, openAIModels},
	{"gemini-3.1-pro-preview", Price{2, 0.20, 12}, pricesRead, copilotPrices},
	{"gemini-3.5-flash", Price{1.50, 0.15, 9}, pricesRead, copilotPrices},
}
