package text

import (
	"testing"
	"time"
)

func TestNumbers(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{Number(0), "0"},
		{Number(999), "999"},
		{Number(1080), "1,080"},
		{Number(12_345_678), "12,345,678"},
		{Count(0, "step"), "0 steps"},
		{Count(1, "step"), "1 step"},
		{Count(3, "step"), "3 steps"},
		{Count(1080, "step"), "1,080 steps"},
		{Size(0), "0 B"},
		{Size(1023), "1023 B"},
		{Size(1536), "1.5 KiB"},
		{Size(5 << 20), "5.0 MiB"},
		{Size(3 << 30), "3.0 GiB"},
		{Dollars(1_234_500), "$1.23"},
		{Dollars(12_300), "$0.0123"},
		{Dollars(0), "$0.0000"},
		{Dollars(49), "<$0.0001"},
	} {
		if c.got != c.want {
			t.Errorf("got %s, want %s", c.got, c.want)
		}
	}
}

func TestTook(t *testing.T) {
	for ms, want := range map[int64]string{
		-1: "0s", 0: "0s", 45: "45ms", 149: "100ms", 1240: "1.2s", 9960: "10s", 12_499: "12s", 59_999: "1m0s",
		184_000: "3m4s", 7_203_000: "2h0m3s",
	} {
		if got := Took(ms); got != want {
			t.Errorf("%d ms is %s, want %s", ms, got, want)
		}
	}
}

func TestAgo(t *testing.T) {
	now := time.Date(2026, 3, 5, 14, 30, 0, 0, time.Local)
	for age, want := range map[time.Duration]string{
		-time.Second: "just now", 59 * time.Second: "just now", time.Minute: "1 min ago",
		time.Hour - time.Second: "59 min ago",
		time.Hour:               "1 h ago", 24*time.Hour - time.Second: "23 h ago", 48 * time.Hour: "2026-03-03 14:30",
	} {
		if got := Ago(now.Add(-age).UnixMilli(), now); got != want {
			t.Errorf("%s before now is %s, want %s", age, got, want)
		}
	}
}

func TestIn(t *testing.T) {
	now := time.UnixMilli(1_800_000_000_000)
	for want, left := range map[string]time.Duration{
		"now": -time.Hour, "in 0s": time.Millisecond, "in 59s": time.Minute - 1, "in 1m": 119 * time.Second,
		"in 1h 0m": time.Hour, "in 23h 59m": 24*time.Hour - time.Second, "in 1d 0h": 24 * time.Hour,
		"in 2d 23h": 72*time.Hour - time.Minute,
	} {
		if got := In(now.Add(left).UnixMilli(), now); got != want {
			t.Errorf("%s is %q, want %q", left, got, want)
		}
	}
}
