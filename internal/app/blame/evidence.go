package blame

import (
	"context"
	"slices"
	"strings"
	"unicode"
)

// What is evidence enough, in letters and digits. Git takes as many for a passage that was moved: git blame -M.
const (
	enoughOfPassage = 20
	enoughOfSteps   = 8
)

// weigh leaves as certain what there is evidence for. Two files that have nothing to do with each other share lines,
// too: braces, blank lines, "return err". A state has the work of steps if half of what they wrote in the head is in
// it. Else only passages count that have enough text which is there once.
func (h *history) weigh(ctx context.Context, s state, head *version, lines []verdict) error {
	text, err := h.read(ctx, s.blob)
	if err != nil {
		return err
	}
	arrived, times := weightOf(text.lines, lines), map[string]int{}
	for _, line := range text.lines {
		times[strings.TrimSpace(line)]++
	}
	if arrived >= enoughOfSteps/2 {
		wrote, err := h.written(ctx, head)
		if err != nil || wrote >= enoughOfSteps && 2*arrived >= wrote {
			return err
		}
	}
	for i := 0; i < len(lines); {
		end, evidence := i, 0
		for ; end < len(lines) && len(lines[end].steps) > 0; end++ {
			if line := strings.TrimSpace(text.lines[end]); times[line] == 1 {
				evidence += weight(line)
			}
		}
		for ; i < end; i++ {
			lines[i].sure = lines[i].sure && evidence >= enoughOfPassage
		}
		i++
	}
	return nil
}

// written returns how much of a version steps wrote.
func (h *history) written(ctx context.Context, v *version) (int, error) {
	if n, ok := h.wrote[v]; ok {
		return n, nil
	}
	lines, err := h.version(ctx, v)
	if err != nil {
		return 0, err
	}
	text, err := h.read(ctx, v.blob)
	if err == nil {
		h.wrote[v] = weightOf(text.lines, lines)
	}
	return h.wrote[v], err
}

// weightOf returns how much of a text steps wrote.
func weightOf(text []string, lines []verdict) (n int) {
	for i, l := range lines {
		if len(l.steps) > 0 {
			n += weight(text[i])
		}
	}
	return n
}

// weight returns how many letters and digits a text has.
func weight(text string) (n int) {
	for _, r := range text {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			n++
		}
	}
	return n
}

// promising reports whether a state may have anything of a head: texts that it has more often than all of before, and
// that a step of the head has added; of another file, as many as make something certain.
func (h *history) promising(ctx context.Context, s state, before []string, head *version) (bool, error) {
	text, err := h.read(ctx, s.blob)
	if err != nil {
		return false, err
	}
	more := map[string]bool{}
	for _, v := range append(head.ancestors(), head) {
		added, err := h.added(ctx, v)
		if err != nil {
			return false, err
		}
		for _, line := range added {
			more[line] = text.times[line] > 0
		}
	}
	for _, blob := range before {
		was, err := h.read(ctx, blob)
		if err != nil {
			return false, err
		}
		for line := range more {
			more[line] = more[line] && text.times[line] > was.times[line]
		}
	}
	lines, some := make([]verdict, len(text.lines)), false
	for i, line := range text.lines {
		if more[line] {
			lines[i], some = verdict{[]*step{head.step}, true}, true
		}
	}
	if !some || head.path == s.path || head.path == s.was {
		return some, nil
	}
	err = h.weigh(ctx, s, head, lines)
	return slices.ContainsFunc(lines, func(v verdict) bool { return v.sure }), err
}

// added returns the texts that a version has more often than the file had before its step.
func (h *history) added(ctx context.Context, v *version) ([]string, error) {
	if list, ok := h.adds[v]; ok || v.blob == "" {
		return list, nil
	}
	text, err := h.read(ctx, v.blob)
	if err != nil {
		return nil, err
	}
	was := &contents{}
	if v.old != "" {
		if was, err = h.read(ctx, v.old); err != nil {
			return nil, err
		}
	}
	var list []string
	for line, n := range text.times {
		if n > was.times[line] {
			list = append(list, line)
		}
	}
	h.adds[v] = list
	return list, nil
}
