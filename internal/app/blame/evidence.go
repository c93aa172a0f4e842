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
func (h *history) weigh(ctx context.Context, head *version, lines []followed) ([]followed, error) {
	arrived, times := 0, map[string]int{}
	for _, l := range lines {
		times[strings.TrimSpace(l.text)]++
		if len(l.steps) > 0 {
			arrived += weight(l.text)
		}
	}
	if arrived >= enoughOfSteps/2 {
		wrote, err := h.written(ctx, head)
		if err != nil || wrote >= enoughOfSteps && 2*arrived >= wrote {
			return lines, err
		}
	}
	for i := 0; i < len(lines); {
		end, evidence := i, 0
		for ; end < len(lines) && len(lines[end].steps) > 0; end++ {
			if text := strings.TrimSpace(lines[end].text); times[text] == 1 {
				evidence += weight(text)
			}
		}
		for ; i < end; i++ {
			lines[i].sure = lines[i].sure && evidence >= enoughOfPassage
		}
		i++
	}
	return lines, nil
}

// written returns how much of a version steps wrote.
func (h *history) written(ctx context.Context, v *version) (int, error) {
	if n, ok := h.wrote[v]; ok {
		return n, nil
	}
	id, err := h.commit(v)
	if err != nil {
		return 0, err
	}
	lines, err := h.read(ctx, id)
	if err != nil {
		return 0, err
	}
	n := 0
	for _, l := range lines {
		if len(l.steps) > 0 {
			n += weight(l.text)
		}
	}
	h.wrote[v] = n
	return n, nil
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

// promising leaves the heads from which a state may have anything: texts that it has more often than all of before,
// and that a step of the head has added.
func (h *history) promising(ctx context.Context, s state, before []string, heads []*version) ([]*version, error) {
	blobs := append([]string{s.blob}, before...)
	for _, head := range heads {
		for _, v := range append(head.ancestors(), head) {
			if blobs = append(blobs, v.blob); v.old != "" {
				blobs = append(blobs, v.old)
			}
		}
	}
	if err := h.readTexts(ctx, blobs); err != nil {
		return nil, err
	}
	var out []*version
	for _, head := range heads {
		if slices.ContainsFunc(append(head.ancestors(), head), func(v *version) bool {
			for line, n := range h.texts[v.blob] {
				if n > h.texts[v.old][line] && h.more(line, s.blob, before) {
					return true
				}
			}
			return false
		}) {
			out = append(out, head)
		}
	}
	return out, nil
}

// more reports whether a blob has a line more often than each of others.
func (h *history) more(line, blob string, others []string) bool {
	n := h.texts[blob][line]
	return n > 0 && !slices.ContainsFunc(others, func(o string) bool { return h.texts[o][line] >= n })
}

// readTexts reads how often blobs have each line.
func (h *history) readTexts(ctx context.Context, blobs []string) error {
	slices.Sort(blobs)
	blobs = slices.DeleteFunc(slices.Compact(blobs), func(blob string) bool { return h.texts[blob] != nil })
	if len(blobs) == 0 {
		return nil
	}
	contents, err := h.made.Contents(ctx, blobs)
	if err != nil {
		return err
	}
	for i, text := range contents {
		times := map[string]int{}
		for line := range strings.Lines(text) {
			times[strings.TrimSuffix(line, "\n")]++
		}
		h.texts[blobs[i]] = times
	}
	return nil
}
