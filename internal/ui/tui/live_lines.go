package tui

import (
	"fmt"
	"slices"

	"github.com/plait-run/plait/internal/view"
)

// lines renders the live view. It always has fewer lines than the terminal.
func (l *live) lines() []string {
	if l.talks {
		return l.talkLines()
	}
	if l.task == nil {
		return []string{dim.Render("starting …")}
	}
	var foot []string
	switch {
	case l.leaving:
		foot = []string{asks.Render(fit(leaveQuestion(1, l.detaches), l.width))}
	case l.q != nil:
		foot = l.q.lines()
		if n := len(l.task.asked) - 1; n > 0 {
			foot = append(foot, dim.Render(fit(fmt.Sprintf("Tab shows the next of %d more", n), l.width)))
		}
	default:
		foot = l.waiting()
	}
	if l.note != "" {
		foot = append(foot, asks.Render(fit(l.note, l.width)))
	}
	head := l.task.head(l.now, l.width)
	room := max(l.height-2-len(head)-len(foot), 0)
	all := append(append(head, l.tree(room)...), foot...)
	return all[max(len(all)-l.height+1, 0):]
}

// waiting renders the open questions, one per line, with the key that opens the first.
func (l *live) waiting() []string {
	var out []string
	for _, a := range l.task.asked {
		out = append(out, askLine(a, l.width))
	}
	if most := max(l.height/3, 2); len(out) > most {
		out = append(out[:most-1], asks.Render(fmt.Sprintf("  + %d more questions", len(l.task.asked)-most+1)))
	}
	if len(out) > 0 {
		out = append(out, dim.Render(fit("Tab opens the question", l.width)))
	}
	return out
}

// tree renders the task in at most n lines. Agents that are done or cancelled are folded first.
func (l *live) tree(n int) []string {
	all := tree(l.task.task, l.task.doing)
	folded := 0
	for i := 0; i < len(all) && len(all)+min(folded, 1) > n; {
		if s := all[i].state; s == view.DisplayDone || s == view.DisplayCancelled {
			all = slices.Delete(all, i, i+1)
			folded++
			continue
		}
		i++
	}
	if more := len(all) + min(folded, 1) - n; more > 0 {
		out := treeLines(all[:max(len(all)-more-1, 0)], l.task.record.Times(l.now), l.width)
		return append(out, dim.Render(fit(fmt.Sprintf("  + %d more", more+1+folded), l.width)))[:min(n, len(out)+1)]
	}
	out := treeLines(all, l.task.record.Times(l.now), l.width)
	if folded > 0 {
		out = append(out, dim.Render(fit(fmt.Sprintf("  + %d done", folded), l.width)))
	}
	return out
}

// talkLines renders a conversation: its activity, and the input line.
func (l *live) talkLines() []string {
	var out []string
	switch {
	case l.leaving:
		return []string{asks.Render(fit(leaveQuestion(1, l.detaches), l.width))}
	case l.q != nil:
		return l.q.lines()
	case l.working && l.task != nil:
		out = treeLines(tree(l.task.task, l.task.doing), l.task.record.Times(l.now), l.width)
		out = out[:min(len(out), l.height/3)]
		out = append(out, l.waiting()...)
	case l.working:
		out = []string{dim.Render("starting …")}
	}
	if l.note != "" {
		out = append(out, asks.Render(fit(l.note, l.width)))
	}
	return append(out, l.talk.View())
}
