package flow

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/plait-run/plait/internal/sys/number"
)

// A Duration is a span of time. In YAML it is text such as "2h" or "600ms", or a number of
// seconds; in JSON it is Go's text form.
type Duration time.Duration

// maxDuration keeps sums of durations far from overflow. It is 876000h.
const maxDuration = Duration(100 * 365 * 24 * time.Hour)

func (d Duration) String() string { return time.Duration(d).String() }

// MarshalJSON writes Go's text form, "2h0m0s".
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(d.String()) }

// UnmarshalJSON parses what MarshalJSON writes.
func (d *Duration) UnmarshalJSON(data []byte) error {
	var s string
	if err := json.Unmarshal(data, &s); err != nil {
		return err
	}
	t, err := time.ParseDuration(s)
	if err != nil {
		return err
	}
	*d = Duration(t)
	return nil
}

var durationText = regexp.MustCompile(`^[-+]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:ns|us|µs|μs|ms|s|m|h))+$`)

// ParseDuration reads the YAML form: "2h", "600ms", or a number of seconds such as "90" or "0.5".
func ParseDuration(s string) (Duration, error) {
	s = strings.TrimSpace(s)
	d := maxDuration + 1
	switch f, err := strconv.ParseFloat(s, 64); {
	case (err == nil || errors.Is(err, strconv.ErrRange)) && !math.IsNaN(f):
		if math.Abs(f) <= time.Duration(maxDuration).Seconds() {
			d = Duration(math.Round(f * float64(time.Second)))
		}
	default:
		if t, err := time.ParseDuration(s); err == nil {
			d = Duration(t)
		} else if !durationText.MatchString(s) { // otherwise it is too much for time.Duration
			return 0, fmt.Errorf("%q is not a duration: write 90s, 20m, 2h or a number of seconds", s)
		}
	}
	switch {
	case d != 0 && strings.HasPrefix(s, "-"):
		return 0, fmt.Errorf("duration %q is negative", s)
	case d > maxDuration:
		return 0, fmt.Errorf("duration %q is out of range: the most is 876000h", s)
	}
	return d, nil
}

// A Size is a number of bytes. In YAML it is text such as "8MiB" or a number; in JSON a number.
type Size int64

var sizeText = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?) ?(B|KiB|MiB|GiB|)$`)

// ParseSize reads the YAML form: "8MiB", "512KiB", "1GiB", "100B" or a number of bytes.
func ParseSize(s string) (Size, error) {
	m := sizeText.FindStringSubmatch(strings.TrimSpace(s))
	if m == nil {
		return 0, fmt.Errorf("%q is not a size: write 8MiB, 512KiB or a number of bytes", s)
	}
	f, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		return 0, fmt.Errorf("size %q is out of range: it must be below 2^53 bytes", s)
	}
	f *= map[string]float64{"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}[m[2]]
	if f >= number.MaxExact {
		return 0, fmt.Errorf("size %q is out of range: it must be below 2^53 bytes", s)
	}
	return Size(f), nil
}
