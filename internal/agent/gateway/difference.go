package gateway

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/plait-run/plait/internal/sys/text"
)

// How much is shown of a difference and of the text before it, in bytes.
const (
	maxShown  = 80
	maxBefore = 20
)

// difference returns where two values first differ, and how. They must not be equal.
func difference(then, now any) Drift {
	below := func(name string, d Drift) Drift {
		d.Where = "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name) + d.Where
		return d
	}
	switch a := then.(type) {
	case map[string]any:
		b, ok := now.(map[string]any)
		if !ok {
			break
		}
		names := slices.Sorted(maps.Keys(merged(a, b)))
		slices.SortStableFunc(names, func(x, y string) int { return cmp.Compare(rank(x), rank(y)) })
		for _, name := range names {
			if x, y := a[name], b[name]; !bytes.Equal(encoded(x), encoded(y)) {
				return below(name, difference(x, y))
			}
		}
	case []any:
		b, ok := now.([]any)
		if !ok {
			break
		}
		for i := range max(len(a), len(b)) {
			var x, y any
			if i < len(a) {
				x = a[i]
			}
			if i < len(b) {
				y = b[i]
			}
			if !bytes.Equal(encoded(x), encoded(y)) {
				return below(strconv.Itoa(i), difference(x, y))
			}
		}
	case string:
		if b, ok := now.(string); ok {
			from := max(0, common(a, b)-maxBefore)
			return Drift{Then: shown(a, from), Now: shown(b, from)}
		}
	}
	return Drift{Then: text.Clip(string(encoded(then)), maxShown), Now: text.Clip(string(encoded(now)), maxShown)}
}

// rank sorts fields that determine others first: another model has other limits too.
func rank(name string) int {
	if name == "model" {
		return 0
	}
	return 1
}

// Compare returns the first difference between two texts, or reports that they are the same.
func Compare(then, now string) (d Drift, same bool) {
	if then == now {
		return d, true
	}
	return difference(then, now), false
}

// shown returns a part of a text, quoted.
func shown(s string, from int) string {
	before := ""
	if from > 0 {
		before = "…"
	}
	return strconv.Quote(before + text.Clip(s[from:], maxShown))
}

// likeness returns the length of the common prefix of two encoded values.
func likeness(a, b any) int { return common(string(encoded(a)), string(encoded(b))) }

// common returns the length of the common prefix of two texts, in bytes.
func common(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// merged returns a map with the keys of both.
func merged(a, b map[string]any) map[string]any {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}
