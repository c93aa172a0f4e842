package text

import (
	"fmt"
	"strconv"
	"time"
)

// Number formats a number that is not negative: 1,080.
func Number(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Count formats a number of things, whose plural ends with s: 1 step, 1,080 steps.
func Count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return Number(int64(n)) + " " + noun
}

// Size formats a number of bytes: 512 B, 1.5 KiB.
func Size(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d B", n)
}

// Dollars formats millionths of a dollar: to a cent from one dollar on, $12.35, and below to a hundredth of it, $0.0123.
func Dollars(micro int64) string {
	switch {
	case micro >= 1e6:
		return fmt.Sprintf("$%.2f", float64(micro)/1e6)
	case 0 < micro && micro < 100:
		return "<$0.0001"
	}
	return fmt.Sprintf("$%.4f", float64(micro)/1e6)
}

// Took says how long something took, given in ms: 45ms, 1.2s, 12s, 3m4s.
func Took(ms int64) string {
	d := time.Duration(max(ms, 0)) * time.Millisecond
	switch {
	case d < 100*time.Millisecond:
		return d.String()
	case d < 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// Ago says when a time was, in Unix ms: 5 min ago, or the local date and time if it is a day ago or more.
func Ago(at int64, now time.Time) string {
	t := time.UnixMilli(at)
	switch d := now.Sub(t); {
	case d < time.Minute:
		return "just now"
	case d < time.Hour:
		return fmt.Sprintf("%d min ago", int(d.Minutes()))
	case d < 24*time.Hour:
		return fmt.Sprintf("%d h ago", int(d.Hours()))
	}
	return t.Format("2006-01-02 15:04")
}

// In says how long it is until a time in the future, in Unix ms: in 2d 23h.
func In(at int64, now time.Time) string {
	left := time.UnixMilli(at).Sub(now)
	days, hours, minutes := int(left.Hours())/24, int(left.Hours())%24, int(left.Minutes())%60
	switch {
	case left <= 0:
		return "now"
	case days > 0:
		return fmt.Sprintf("in %dd %dh", days, hours)
	case hours > 0:
		return fmt.Sprintf("in %dh %dm", hours, minutes)
	case minutes > 0:
		return fmt.Sprintf("in %dm", minutes)
	}
	return fmt.Sprintf("in %ds", int(left.Seconds()))
}
