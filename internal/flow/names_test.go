package flow

import (
	"regexp"
	"testing"

	"pgregory.net/rapid"
)

// Names are what these expressions match; a program that starts often cannot afford to compile them.
func TestNames(t *testing.T) {
	flows := regexp.MustCompile(`^[\p{L}\p{N}][\p{L}\p{N}._-]{0,63}$`)
	roles := regexp.MustCompile(`^[\p{L}\p{N}_][\p{L}\p{N}._-]{0,63}$`)
	name := rapid.OneOf(
		rapid.String(),
		rapid.StringMatching(`[a-zé٣Ⅷ_.-][a-z0-9é٣Ⅷ._-]{0,5}[\n /]?`),
		rapid.StringMatching(`[a-zé]{62,66}`),
		rapid.SampledFrom([]string{"", "a\xff", "\xff", "\uFFFD", "a\u0301", "_", "__end__"}),
	)
	rapid.Check(t, func(t *rapid.T) {
		name := name.Draw(t, "name")
		if got, want := IsName(name), flows.MatchString(name); got != want {
			t.Errorf("flow %q: %v, want %v", name, got, want)
		}
		if got, want := IsRoleName(name), roles.MatchString(name); got != want {
			t.Errorf("role %q: %v, want %v", name, got, want)
		}
	})
}
