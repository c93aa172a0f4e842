package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/plait-run/plait/internal/store"
)

// frame is what moves, as lines that fit a terminal: none is as wide as it, and they
// are fewer than its rows.
func (l *liveView) frame(cols, rows int) []string {
	cols = max(cols-1, 1)
	room := max(rows-2, 1)
	lines := []string{l.header(cols)}
	rest := l.waits()
	room--
	if rest != "" && room > 2 {
		room--
	} else {
		rest = ""
	}
	gates := min(len(l.gates), max((room+1)/2, room-len(l.working)))
	agents := min(len(l.working), room-gates)
	lines = append(lines, folded(gates, len(l.gates), "waiting: plait gate list",
		func(i int) string { return l.gateLine(l.gates[i], cols) }, l.style, cols)...)
	names, who := 0, 0
	for _, d := range l.working[:agents] {
		names, who = max(names, cells(d.name)), max(who, cells(d.agent))
	}
	names, who = min(names, 24, cols/3), min(who, 12)
	lines = append(lines, folded(agents, len(l.working), "at work",
		func(i int) string { return l.agentLine(l.working[i], names, who, cols) }, l.style, cols)...)
	if rest != "" {
		lines = append(lines, l.style.dim(fit(rest, cols)))
	}
	return lines
}

// folded are n lines of all that there are; the last one says how many do not fit.
func folded(n, all int, what string, line func(i int) string, st style, cols int) []string {
	var lines []string
	for i := range n {
		if i == n-1 && n < all {
			return append(lines, st.dim(fit(fmt.Sprintf("+ %d more %s", all-i, what), cols)))
		}
		lines = append(lines, line(i))
	}
	return lines
}

// header says how the task stands. Where there is no room for all of it, the least
// important part goes first.
func (l *liveView) header(cols int) string {
	type part struct {
		text string
		rank int // the lowest goes last
	}
	var parts []part
	add := func(rank int, format string, args ...any) {
		parts = append(parts, part{fmt.Sprintf(format, args...), rank})
	}
	state := l.state
	switch {
	case state != "":
	case len(l.working) == 0 && len(l.gates) > 0:
		state = "waiting"
	default:
		state = "running"
	}
	add(0, "%s", state)
	if l.plans > 1 {
		add(6, "plan %d", l.plans)
	}
	if n := len(l.actions); n > 0 {
		done, failed := 0, 0
		for _, d := range l.actions {
			switch d.status {
			case store.Completed:
				done++
			case store.Failed, store.Cancelled:
				failed++
			}
		}
		add(1, "%d/%d actions done", done, n)
		if failed > 0 {
			add(2, "%d not", failed)
		}
	}
	if n := len(l.gates); n > 0 {
		add(1, "%s for you", plural(n, "gate waits", "gates wait"))
	}
	if l.most > 0 {
		add(4, "%d/%d at work", len(l.working), l.most)
	} else {
		add(4, "%d at work", len(l.working))
	}
	tokens := l.tokens
	for _, d := range l.working {
		tokens += d.tokens
	}
	if tokens > 0 {
		add(5, "%s tokens", thousands(tokens))
	}
	add(3, "%s", elapsed(l.now().Sub(l.began)))
	text := func() string {
		var all []string
		for _, p := range parts {
			all = append(all, p.text)
		}
		return strings.Join(all, " · ")
	}
	for cells(text()) > cols && len(parts) > 1 {
		least := slices.MaxFunc(parts, func(a, b part) int { return cmp.Compare(a.rank, b.rank) })
		parts = slices.DeleteFunc(parts, func(p part) bool { return p == least })
	}
	return l.style.bold(fit(text(), cols))
}

// waits says how many actions have not begun, and why.
func (l *liveView) waits() string {
	done := map[string]bool{}
	for _, d := range l.actions {
		done[d.id] = d.status == store.Completed
	}
	pending, after := 0, 0
	for _, d := range l.actions {
		if d.status != store.Pending {
			continue
		}
		pending++
		if slices.ContainsFunc(d.after, func(id string) bool { return !done[id] }) {
			after++
		}
	}
	switch {
	case pending == 0:
		return ""
	case after == 0:
		return plural(pending, "action waits", "actions wait") + " for a free place"
	case after == pending:
		return plural(pending, "action waits", "actions wait") + " for others"
	}
	return fmt.Sprintf("%d actions wait, %d of them for others", pending, after)
}

// gateLine is what waits for a person. The command is not cut where anything else can be.
func (l *liveView) gateLine(g gateLine, cols int) string {
	head := "? " + g.who + ": "
	room := cols - cells(head) - cells(g.command) - 2
	switch {
	case room >= min(cells(g.question), 12):
		return l.style.paint("33", head+pad(g.question, min(room, cells(g.question)))+"  ") + g.command
	case cells(g.command)+2 <= cols:
		return l.style.paint("33", "? ") + g.command
	}
	return fit("? "+g.command, cols)
}

// agentLine is what an agent does: who, with what, the newest thing, tokens and time.
func (l *liveView) agentLine(d *agentLine, names, who, cols int) string {
	head := pad(d.name, names)
	tail, tokens := fmt.Sprintf("%5s", elapsed(l.now().Sub(d.since))), ""
	if d.tokens > 0 {
		tokens = thousands(d.tokens) + " tokens"
	}
	if cols >= 50 {
		tail = fmt.Sprintf("%12s  %s", tokens, tail)
	}
	agent := ""
	if cols >= 70 && who > 0 {
		agent = "  " + pad(d.agent, who)
	}
	room := cols - cells(head) - cells(agent) - cells(tail) - 4
	if room < 8 {
		return fit(head+"  "+tail, cols)
	}
	return head + l.style.dim(agent) + "  " + pad(d.last, room) + "  " + l.style.dim(tail)
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// thousands spells a number so that it stays short: 950, 1.2k, 34k, 1.2M.
func thousands(n int64) string {
	switch {
	case n < 1000:
		return fmt.Sprint(n)
	case n < 9_950:
		return fmt.Sprintf("%.1fk", float64(n)/1000)
	case n < 999_500:
		return fmt.Sprintf("%.0fk", float64(n)/1000)
	}
	return fmt.Sprintf("%.1fM", float64(n)/1e6)
}

// elapsed spells how long something has taken: 0:07, 12:30, 1:02:03.
func elapsed(d time.Duration) string {
	s := max(int(d.Seconds()), 0)
	if s < 3600 {
		return fmt.Sprintf("%d:%02d", s/60, s%60)
	}
	return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
}

// lasted spells how long something took that has ended.
func lasted(d time.Duration) string { return max(d, 0).Round(10 * time.Millisecond).String() }

// cells is how many columns a text takes on a terminal, at the most.
func cells(s string) (n int) {
	for _, r := range s {
		n += cellsOf(r)
	}
	return n
}

// wide are the characters that take two columns, on some terminals at least.
var wide = []struct{ from, to rune }{
	{0x1100, 0x115f}, {0x231a, 0x23ff}, {0x25fd, 0x27bf}, {0x2b1b, 0x2b55}, {0x2e80, 0xa4cf}, {0xa960, 0xa97c},
	{0xac00, 0xd7a3}, {0xf900, 0xfaff},
	{0xfe10, 0xfe19}, {0xfe30, 0xfe6f}, {0xff00, 0xff60}, {0xffe0, 0xffe6}, {0x16fe0, 0x18cff}, {0x1b000, 0x1b2ff},
	{0x1f000, 0x1faff}, {0x20000, 0x3fffd},
}

func cellsOf(r rune) int {
	if r < wide[0].from {
		return 1
	}
	for _, w := range wide {
		if r >= w.from && r <= w.to {
			return 2
		}
	}
	return 1
}

// fit keeps a text to n columns, with a mark where some of it is left out.
func fit(s string, n int) string {
	if cells(s) <= n {
		return s
	}
	used := 0
	for i, r := range s {
		if used += cellsOf(r); used > n-1 {
			return s[:i] + "…"
		}
	}
	return s
}

// pad makes a text n columns wide.
func pad(s string, n int) string {
	s = fit(s, n)
	return s + strings.Repeat(" ", max(n-cells(s), 0))
}

// covered is how many rows lines take on a terminal that is cols wide now: it may have
// become narrower since they were drawn.
func covered(lines []string, cols int) (rows int) {
	for _, line := range lines {
		rows += max((cells(unstyled(line))+cols-1)/max(cols, 1), 1)
	}
	return rows
}

// unstyled is a line without the colours of ours.
func unstyled(s string) string {
	if !strings.Contains(s, "\x1b") {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		if rest, ok := strings.CutPrefix(s, "\x1b["); ok {
			if i := strings.IndexFunc(rest, unicode.IsLetter); i >= 0 {
				s = rest[i+1:]
				continue
			}
		}
		_, n := utf8.DecodeRuneInString(s)
		b.WriteString(s[:n])
		s = s[n:]
	}
	return b.String()
}
