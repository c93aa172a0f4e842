package number

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// sameNumber reports whether two decimal numbers are equal, the slow way.
func sameNumber(a, b string) bool {
	x, okX := new(big.Rat).SetString(a)
	y, okY := new(big.Rat).SetString(b)
	return okX && okY && x.Cmp(y) == 0
}

// Float keeps exactly the integers whose shortest spelling has their value, and rounds nothing else but fractions
// below 2^53. Whatever the spelling is, one value has one result.
func TestFloatJudgesTheValue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		digits := rapid.StringMatching(`[1-9][0-9]{0,19}`).Draw(t, "digits")
		zeros := rapid.IntRange(0, 6).Draw(t, "zeros")
		plain := digits + strings.Repeat("0", zeros)
		f, err := strconv.ParseFloat(plain, 64)
		if err != nil {
			t.Fatal(err)
		}
		keeps := sameNumber(plain, strconv.FormatFloat(f, 'f', -1, 64))
		for _, text := range []string{plain, "-" + plain, plain + ".0", fmt.Sprintf("%se%d", digits, zeros),
			fmt.Sprintf("%s.%sE+%d", digits[:1], digits[1:]+"0", len(digits)-1+zeros)} {
			got, err := Float(text)
			if (err == nil) != keeps {
				t.Fatalf("%s: %v; kept by its value: %v", text, err, keeps)
			}
			if spelled := strconv.FormatFloat(got, 'f', -1, 64); err == nil && !sameNumber(text, spelled) {
				t.Fatalf("%s became %s", text, spelled)
			}
		}
	})
}
