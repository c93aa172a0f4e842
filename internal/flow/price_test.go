package flow

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

func TestPriceOf(t *testing.T) {
	own := Prices{"claude-opus-5": {Input: 1}, "my-model-20260101": {Input: 2}}
	for model, want := range map[string]float64{
		"claude-opus-5":              1, // a person's comes first
		"my-model-20260101":          2,
		"claude-haiku-4-5":           1,
		"claude-haiku-4-5-20251001":  1,
		"claude-opus-5-5[1m]":        4,
		"gpt-5.4-2026-03-05":         2.50,
		"gpt-5.4-mini":               0.75,
		"gpt-5.4-pro":                0, // another model, not a snapshot of gpt-5.4
		"gpt-5.4-":                   0,
		"my-model":                   0,
		"my-model-20260102":          0,
		"-20251001":                  0,
		"":                           0,
		"claude-haiku-4-5-2025-1001": 0,
	} {
		got, known := own.Of(model)
		if got.Input != want || known != (want > 0) {
			t.Errorf("%q costs %v (%v), want %v", model, got.Input, known, want)
		}
	}
}

// TestPublicPrices tests that every price can be looked up, and says where and when it was read.
func TestPublicPrices(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range PublicPrices() {
		got, known := Prices(nil).Of(p.Model)
		if !known || got != p.Price || seen[p.Model] {
			t.Errorf("%s: %+v, %v", p.Model, got, known)
		}
		seen[p.Model] = true
		if p.Cached <= 0 || p.Cached >= p.Input || p.Input >= p.Output {
			t.Errorf("%s: %+v", p.Model, p.Price)
		}
		if _, err := time.Parse(time.DateOnly, p.Read); err != nil || !strings.HasPrefix(p.Source, "https://") {
			t.Errorf("%s: %q, %q", p.Model, p.Read, p.Source)
		}
	}
}

// TestPricesInDocs tests that the table of docs/prices.md is the one that ships.
func TestPricesInDocs(t *testing.T) {
	page, err := os.ReadFile("../../docs/prices.md")
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	for _, p := range PublicPrices() {
		fmt.Fprintf(&want, "| `%s` | %.2f | %.3f | %.2f | [%s](%s) |\n", p.Model, p.Input, p.Cached, p.Output, p.Read, p.Source)
	}
	if !strings.Contains(string(page), "|---|---|---|---|---|\n"+want.String()) {
		t.Errorf("docs/prices.md lacks this table:\n%s", want.String())
	}
}
