package flow

import (
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

func TestUnits(t *testing.T) {
	durations := map[string]time.Duration{"2h": 2 * time.Hour, "600ms": 600 * time.Millisecond, "90": 90 * time.Second,
		"0.5": 500 * time.Millisecond, "0": 0}
	for s, want := range durations {
		if got, err := ParseDuration(s); err != nil || time.Duration(got) != want {
			t.Errorf("ParseDuration(%q) = %v, %v; want %v", s, got, err, want)
		}
	}
	sizes := map[string]Size{"8MiB": 8 << 20, "512KiB": 512 << 10, "1 GiB": 1 << 30, "1.5KiB": 1536, "7": 7,
		"7B": 7}
	for s, want := range sizes {
		if got, err := ParseSize(s); err != nil || got != want {
			t.Errorf("ParseSize(%q) = %v, %v; want %v", s, got, err, want)
		}
	}
	for _, s := range []string{"", "-1", "x", "1e400", "NaN", "Inf", "99999999999999"} {
		if got, err := ParseDuration(s); err == nil {
			t.Errorf("ParseDuration(%q) = %v, want an error", s, got)
		}
	}
	for _, s := range []string{"", "-1", "8MB", "8XB", "99999999999999GiB"} {
		if got, err := ParseSize(s); err == nil {
			t.Errorf("ParseSize(%q) = %v, want an error", s, got)
		}
	}
}
