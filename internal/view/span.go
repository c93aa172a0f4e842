package view

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Span parses a period. since and until are each a date (the whole day), a time (RFC 3339), an
// age (36h, 30d), or empty. The results are in Unix ms, 0 for empty.
func Span(since, until string, now time.Time) (from, to int64, err error) {
	if since != "" {
		at, _, err := when(since, now)
		if err != nil {
			return 0, 0, err
		}
		from = at.UnixMilli()
	}
	if until != "" {
		at, date, err := when(until, now)
		if err != nil {
			return 0, 0, err
		}
		if date {
			at = at.AddDate(0, 0, 1)
		}
		to = at.UnixMilli()
	}
	return from, to, nil
}

func when(said string, now time.Time) (at time.Time, date bool, err error) {
	if at, err := time.ParseInLocation(time.DateOnly, said, now.Location()); err == nil {
		return at, true, nil
	}
	if at, err := time.Parse(time.RFC3339, said); err == nil {
		return at, false, nil
	}
	if n, ok := strings.CutSuffix(said, "d"); ok {
		if days, err := strconv.Atoi(n); err == nil && days > 0 {
			return now.AddDate(0, 0, -days), false, nil
		}
	}
	if ago, err := time.ParseDuration(said); err == nil && ago > 0 {
		return now.Add(-ago), false, nil
	}
	return at, false, fmt.Errorf("%q is not a time: want a date (2006-01-02), a time (2006-01-02T15:04:05Z) or "+
		"how long ago (36h, 30d)", said)
}
