package blame

import (
	"context"
	"math"
	"slices"

	"github.com/plait-run/plait/internal/files/git"
)

// forever is the time of what is not committed yet, Unix ms.
const forever = math.MaxInt64

// A state is a file at a time.
type state struct {
	blob, path string
	was        string // its path before, "" if that is the same or none
	until      int64  // Unix ms: it has nothing of steps that began later
}

// A verdict is what is known about a line.
type verdict struct {
	steps []*step // that wrote it, or may have
	sure  bool    // there is evidence enough
}

// A history has the versions of files, and commits for them, made when they are needed.
type history struct {
	versions
	made    *git.Annotator
	byID    map[string]*version // by made-up commit
	states  map[string]*state   // by made-up commit
	commits map[*version]string
	texts   map[string]map[string]int // by blob and line: how often it is there
	known   map[state][]verdict
	wrote   map[*version]int
	heirs   map[state][]*version // the heads that a state has lines of
}

func newHistory(made *git.Annotator, all versions) *history {
	return &history{versions: all, made: made, byID: map[string]*version{}, states: map[string]*state{},
		commits: map[*version]string{}, texts: map[string]map[string]int{}, known: map[state][]verdict{},
		wrote: map[*version]int{}, heirs: map[state][]*version{}}
}

// verdicts returns what is known about each line of a file that has been in commits with the blobs of before.
func (h *history) verdicts(ctx context.Context, s state, before []string) ([]verdict, error) {
	heads, exact, err := h.heads(ctx, s, len(before) == 0)
	if err != nil {
		return nil, err
	}
	if !exact && len(heads) > 0 {
		if heads, err = h.promising(ctx, s, before, heads); err != nil {
			return nil, err
		}
	}
	var all [][]verdict
	for _, head := range heads {
		lines, err := h.follow(ctx, s, before, head)
		if err != nil {
			return nil, err
		}
		if !exact {
			if lines, err = h.weigh(ctx, head, lines); err != nil {
				return nil, err
			}
		}
		if exact || slices.ContainsFunc(lines, func(l followed) bool { return l.sure }) {
			h.heirs[s] = append(h.heirs[s], head)
		}
		all = append(all, verdictsOf(lines))
	}
	return combine(all), nil
}

// A followed line is one of a state, with the verdict on it.
type followed struct {
	text string
	verdict
}

func verdictsOf(lines []followed) []verdict {
	list := make([]verdict, len(lines))
	for i, l := range lines {
		list[i] = l.verdict
	}
	return list
}

// heads returns the versions that a state may have been made from, and whether it is exactly one of them. A file that
// is new may have been renamed: then the newest versions of all files are meant.
func (h *history) heads(ctx context.Context, s state, isNew bool) (heads []*version, exact bool, err error) {
	of := func(list []*version) (out []*version) {
		for _, v := range list {
			if v.blob != "" && v.step.began() < s.until {
				out = append(out, v)
			}
		}
		return out
	}
	if same := of(h.byBlob[s.blob]); len(same) > 0 {
		return newest(same), true, nil
	}
	list := of(h.byPath[s.path])
	if s.was != "" && s.was != s.path {
		list = append(list, of(h.byPath[s.was])...)
	}
	if len(list) == 0 && isNew {
		for _, versions := range h.byPath {
			if last := of(versions); len(last) > 0 {
				list = append(list, last[len(last)-1])
			}
		}
	}
	for _, v := range list {
		if v.outside != nil && v.through == nil {
			if _, err := h.outside(ctx, *v.outside); err != nil {
				return nil, false, err
			}
			v.through = append([]*version{}, h.heirs[*v.outside]...)
		}
	}
	return newest(list), false, nil
}

// follow asks git where the lines of a state come from: commits before it, a version, or those that it was made from.
func (h *history) follow(ctx context.Context, s state, before []string, head *version) ([]followed, error) {
	var parents []string
	for _, blob := range before {
		id, err := h.made.Commit(blob)
		if err != nil {
			return nil, err
		}
		parents = append(parents, id)
	}
	seen := map[string]bool{}
	for _, v := range append([]*version{head}, head.ancestors()...) {
		if seen[v.blob] || v.step.began() >= s.until {
			continue
		}
		seen[v.blob] = true
		id, err := h.commit(v)
		if err != nil {
			return nil, err
		}
		parents = append(parents, id)
	}
	id, err := h.made.Commit(s.blob, parents...)
	if err != nil {
		return nil, err
	}
	return h.read(ctx, id)
}

// read reads where the lines of a made-up commit come from.
func (h *history) read(ctx context.Context, id string) ([]followed, error) {
	lines, err := h.made.Blame(ctx, id)
	if err != nil {
		return nil, err
	}
	out := make([]followed, len(lines))
	for i, l := range lines {
		out[i].text = l.Text
		switch v, outside := h.byID[l.Commit], h.states[l.Commit]; {
		case v != nil:
			out[i].verdict = verdict{steps: []*step{v.step}, sure: true}
		case outside != nil:
			known, err := h.outside(ctx, *outside)
			if err != nil {
				return nil, err
			}
			if l.N <= len(known) {
				out[i].verdict = known[l.N-1]
			}
		}
	}
	return out, nil
}

// outside returns what is known about the lines of a state that no step left.
func (h *history) outside(ctx context.Context, s state) ([]verdict, error) {
	known, ok := h.known[s]
	if !ok {
		var err error
		if known, err = h.verdicts(ctx, s, nil); err != nil {
			return nil, err
		}
		h.known[s] = known
	}
	return known, nil
}

// commit makes up the commit of a version, and of what it was made from.
func (h *history) commit(v *version) (string, error) {
	if id := h.commits[v]; id != "" {
		return id, nil
	}
	var parents []string
	if v.outside != nil {
		id, err := h.made.Commit(v.outside.blob)
		if err != nil {
			return "", err
		}
		h.states[id] = v.outside
		parents = append(parents, id)
	}
	for _, p := range v.parents {
		id, err := h.commit(p)
		if err != nil {
			return "", err
		}
		parents = append(parents, id)
	}
	id, err := h.made.Commit(v.blob, parents...)
	if err != nil {
		return "", err
	}
	h.commits[v], h.byID[id] = id, v
	return id, nil
}

// combine puts together what several heads say. What is certain counts more than what is not; if several steps remain,
// none is certain.
func combine(all [][]verdict) []verdict {
	var out []verdict
	for _, lines := range all {
		for len(out) < len(lines) {
			out = append(out, verdict{})
		}
		for i, l := range lines {
			o := &out[i]
			switch {
			case len(l.steps) == 0 || o.sure && !l.sure:
			case l.sure && !o.sure:
				*o = l
			default:
				for _, s := range l.steps {
					if !slices.Contains(o.steps, s) {
						o.steps = append(slices.Clone(o.steps), s)
					}
				}
			}
		}
	}
	return out
}
