// Package number says which numbers of a JSON or YAML text can be kept exactly, and as what. It judges them by their
// value, never by their spelling.
package number

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/plait-run/plait/internal/sys/text"
)

// MaxExact is where float64 begins to leave out integers.
const MaxExact = 1 << 53

// maxShown is how many bytes of a number an error shows.
const maxShown = 80

// ErrInexact is wrapped by the error for a number that would change in value.
var ErrInexact = errors.New("cannot be kept exactly; write it as a text")

// Float returns the float64 that a JSON number becomes in canonical form. What counts is the value, not the
// spelling: 1e16 and 10000000000000000 are one number. Below 2^53, fractions are rounded as everywhere in
// JSON. From there on, where rounding would change whole digits, the canonical form must have exactly the value
// of s. Otherwise the error wraps ErrInexact, as it does for a number so small that it would become 0.
func Float(s string) (float64, error) {
	f, err := strconv.ParseFloat(s, 64)
	if size := math.Abs(f); err == nil && size > 0 && size < MaxExact {
		return f, nil
	}
	if err == nil {
		digits, exponent := decimal(s)
		kept, keptExponent := decimal(strconv.FormatFloat(f, 'e', -1, 64))
		if digits == kept && exponent == keptExponent {
			return f, nil
		}
	}
	return 0, fmt.Errorf("number %s %w", text.Clip(s, maxShown), ErrInexact)
}

// decimal returns the digits of a number without sign, leading and trailing zeros, and the exponent of the last
// one. Equal numbers have equal results, and those of 0 are zero values. It takes time in proportion to the text,
// whatever the exponent is.
func decimal(text string) (digits string, exponent int) {
	text = strings.TrimLeft(text, "+-")
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		exponent, _ = strconv.Atoi(text[i+1:]) // the largest int if it has no int; then no float64 has its value
		text = text[:i]
	}
	whole, fraction, _ := strings.Cut(text, ".")
	exponent -= len(fraction)
	digits = strings.TrimLeft(whole+fraction, "0")
	short := strings.TrimRight(digits, "0")
	if short == "" {
		return "", 0
	}
	return short, exponent + len(digits) - len(short)
}
