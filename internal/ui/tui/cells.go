package tui

import (
	"fmt"
	"strings"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/plait-run/plait/internal/sys/text"
	"github.com/plait-run/plait/internal/view"
)

// Styles. Bubble Tea drops the colors if NO_COLOR is set.
var (
	bold   = lipgloss.NewStyle().Bold(true)
	dim    = lipgloss.NewStyle().Faint(true)
	marked = lipgloss.NewStyle().Reverse(true)
	asks   = lipgloss.NewStyle().Foreground(lipgloss.Yellow)
	good   = lipgloss.NewStyle().Foreground(lipgloss.Green)
	bad    = lipgloss.NewStyle().Foreground(lipgloss.Red)
	busy   = lipgloss.NewStyle().Foreground(lipgloss.Cyan)
)

// stateStyle returns the style of a state. The state is always shown as a word too.
func stateStyle(s view.DisplayState) lipgloss.Style {
	switch s {
	case view.DisplayNeedsYou:
		return asks
	case view.DisplayDone:
		return good
	case view.DisplayFailed, view.DisplayCancelled:
		return bad
	case view.DisplayRunning:
		return busy
	}
	return dim
}

// mark returns a one-column symbol of a state.
func mark(s view.DisplayState) string {
	switch s {
	case view.DisplayNeedsYou:
		return asks.Render("?")
	case view.DisplayDone:
		return good.Render("✓")
	case view.DisplayFailed:
		return bad.Render("✗")
	case view.DisplayCancelled:
		return bad.Render("–")
	case view.DisplayRunning:
		return busy.Render("●")
	}
	return dim.Render("·")
}

// fit truncates a line to n columns, with a mark.
func fit(s string, n int) string { return ansi.Truncate(s, max(n, 0), "…") }

// pad makes a line n columns wide.
func pad(s string, n int) string {
	s = fit(s, n)
	return s + strings.Repeat(" ", max(n-ansi.StringWidth(s), 0))
}

// wrapText wraps an agent's text or a file to n columns, made safe for a terminal.
func wrapText(s string, n int) []string {
	s = strings.ReplaceAll(text.Safe(strings.TrimRight(s, "\n")), "\t", "    ")
	if s == "" {
		return nil
	}
	return strings.Split(ansi.Wrap(s, max(n, 8), " "), "\n")
}

// line returns an agent's text on one line.
func line(s string, n int) string { return fit(text.OneLine(s, max(n, 1)), n) }

// elapsed formats a duration in ms: 0:07, 12:30, 1:02:03.
func elapsed(ms int64) string {
	s := max(ms/1000, 0)
	if s < 3600 {
		return fmt.Sprintf("%d:%02d", s/60, s%60)
	}
	return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
}

// age formats how long ago something was, in few columns: now, 5m, 3h, 2d.
func age(d time.Duration) string {
	switch {
	case d < time.Minute:
		return "now"
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

// cost formats usage: dollars if known, otherwise tokens.
func cost(tokens, micro int64) string {
	switch {
	case micro >= 10_000:
		return fmt.Sprintf("$%.2f", float64(micro)/1e6)
	case micro > 0:
		return "<$0.01"
	case tokens == 0:
		return ""
	case tokens < 1000:
		return fmt.Sprintf("%d tok", tokens)
	case tokens < 9_950:
		return fmt.Sprintf("%.1fk tok", float64(tokens)/1000)
	case tokens < 999_500:
		return fmt.Sprintf("%.0fk tok", float64(tokens)/1000)
	}
	return fmt.Sprintf("%.1fM tok", float64(tokens)/1e6)
}
