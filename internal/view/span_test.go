package view

import (
	"testing"
	"time"
)

func TestSpan(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	at := func(text string) int64 {
		v, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		return v.UnixMilli()
	}
	for _, tt := range []struct {
		since, until string
		from, to     int64
	}{
		{"", "", 0, 0},
		{"2026-11-20", "2026-11-20", at("2026-11-20T00:00:00Z"), at("2026-11-21T00:00:00Z")},
		{"36h", "1h", at("2026-11-21T00:00:00Z"), at("2026-11-22T11:00:00Z")},
		{"2026-11-20T10:00:00+02:00", "", at("2026-11-20T08:00:00Z"), 0},
	} {
		from, to, err := Span(tt.since, tt.until, now)
		if err != nil || from != tt.from || to != tt.to {
			t.Errorf("%q to %q: %d to %d, %v", tt.since, tt.until, from, to, err)
		}
	}
	for _, wrong := range []string{"yesterday", "-3h", "2026-13-01", "5"} {
		if _, _, err := Span(wrong, "", now); err == nil {
			t.Errorf("since %q was read", wrong)
		}
		if _, _, err := Span("", wrong, now); err == nil {
			t.Errorf("until %q was read", wrong)
		}
	}
}
