package flow

import (
	"strings"
	"testing"
	"time"
)

// What is refused says why, and what to write.
func TestParseDuration(t *testing.T) {
	for text, want := range map[string]any{
		"2h": 2 * time.Hour, "600ms": 600 * time.Millisecond, "90": 90 * time.Second, "1e3": 1000 * time.Second,
		" +1.5h30m ": 2 * time.Hour, "0.5": 500 * time.Millisecond, "-0": time.Duration(0), "876000h": 876000 * time.Hour,
		"9999999h":      `duration "9999999h" is out of range: the most is 876000h`,
		"876001h":       `duration "876001h" is out of range: the most is 876000h`,
		"1e400":         `duration "1e400" is out of range: the most is 876000h`,
		"Infinity":      `duration "Infinity" is out of range: the most is 876000h`,
		"-9999999h":     `duration "-9999999h" is negative`,
		"-1":            `duration "-1" is negative`,
		"NaN":           `"NaN" is not a duration: write 90s, 20m, 2h or a number of seconds`,
		"2d":            `"2d" is not a duration: write 90s, 20m, 2h or a number of seconds`,
		"":              `"" is not a duration: write 90s, 20m, 2h or a number of seconds`,
		"h":             `"h" is not a duration: write 90s, 20m, 2h or a number of seconds`,
		"2 days, 3 min": `"2 days, 3 min" is not a duration: write 90s, 20m, 2h or a number of seconds`,
	} {
		d, err := ParseDuration(text)
		if err != nil && err.Error() != want || err == nil && time.Duration(d) != want {
			t.Errorf("%q: %v, %v; want %v", text, d, err, want)
		}
	}
}

func TestLimitsSayWhatToWrite(t *testing.T) {
	for pair, want := range map[string]string{
		"maxRounds=1.5":                "maxRounds must be a whole number, not 1.5",
		"maxRounds=true":               "maxRounds must be a whole number, not true or false",
		"maxRounds=.inf":               `maxRounds: .inf cannot be used: write a number below 2^53, without leading zeros, "_" and "0b"`,
		"timeout=1_000":                `timeout: 1_000 cannot be used: write a number below 2^53, without leading zeros, "_" and "0b"`,
		"maxTokens=9007199254740993":   `maxTokens: 9007199254740993 cannot be used: write a number below 2^53`,
		"maxTokens=9007199254740992":   "maxTokens must be from 0 to 2^53-1, not 9007199254740992",
		"maxOutput=100000000000000000": `maxOutput: size "100000000000000000" is out of range: it must be below 2^53 bytes`,
	} {
		if l, err := ParseLimits([]string{pair}); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %+v, %v; want %s", pair, l, err, want)
		}
	}
}
