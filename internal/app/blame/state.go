package blame

import (
	"context"
	"math"
	"slices"
	"strings"

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

// A history has the versions of files, and what is known about their lines, found when it is needed.
type history struct {
	versions
	made  *git.Annotator
	texts map[string]*contents // by blob
	of    map[*version][]verdict
	known map[state][]verdict
	adds  map[*version][]string // texts
	wrote map[*version]int
	heirs map[state][]*version // the heads that a state has lines of
}

func newHistory(made *git.Annotator, all versions) *history {
	return &history{versions: all, made: made, texts: map[string]*contents{}, of: map[*version][]verdict{},
		known: map[state][]verdict{}, adds: map[*version][]string{}, wrote: map[*version]int{}, heirs: map[state][]*version{}}
}

// A contents is the lines of a blob, and how often each is there.
type contents struct {
	lines []string
	times map[string]int
}

// read reads a blob.
func (h *history) read(ctx context.Context, blob string) (*contents, error) {
	if c := h.texts[blob]; c != nil {
		return c, nil
	}
	text, err := h.made.Contents(ctx, blob)
	if err != nil {
		return nil, err
	}
	c := &contents{times: map[string]int{}}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		c.lines = append(c.lines, line)
		c.times[line]++
	}
	h.texts[blob] = c
	return c, nil
}

// verdicts returns what is known about each line of a file that has been in commits with the blobs of before.
func (h *history) verdicts(ctx context.Context, s state, before []string) ([]verdict, error) {
	heads, exact, err := h.heads(ctx, s, len(before) == 0)
	if err != nil {
		return nil, err
	}
	var all [][]verdict
	for _, head := range heads {
		may := exact
		if !exact {
			if may, err = h.promising(ctx, s, before, head); err != nil {
				return nil, err
			}
		}
		if !may {
			continue
		}
		lines, err := h.follow(ctx, s, before, head)
		if err == nil && !exact {
			err = h.weigh(ctx, s, head, lines)
		}
		if err != nil {
			return nil, err
		}
		if exact || slices.ContainsFunc(lines, func(v verdict) bool { return v.sure }) {
			h.heirs[s] = append(h.heirs[s], head)
		}
		all = append(all, lines)
	}
	return combine(all), nil
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

// A giver is what lines may come from.
type giver struct {
	blob  string
	lines func(context.Context) ([]verdict, error) // what is known about them, nil for commits, of which nothing is
}

// follow says where the lines of a state come from: commits before it, a version, or those that it was made from.
func (h *history) follow(ctx context.Context, s state, before []string, head *version) ([]verdict, error) {
	var from []giver
	for _, blob := range before {
		from = append(from, giver{blob, nil})
	}
	seen := map[string]bool{}
	for _, v := range append([]*version{head}, head.ancestors()...) {
		if !seen[v.blob] && v.step.began() < s.until {
			seen[v.blob] = true
			from = append(from, giver{v.blob, func(ctx context.Context) ([]verdict, error) { return h.version(ctx, v) }})
		}
	}
	return h.pass(ctx, s.blob, verdict{}, from)
}

// pass says where the lines of a blob come from, as git blame does: a giver that is the same has all of them, else
// each in turn has those that it shares, and the rest is the blob's own.
func (h *history) pass(ctx context.Context, blob string, own verdict, from []giver) ([]verdict, error) {
	text, err := h.read(ctx, blob)
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(from, func(s giver) bool { return s.blob == blob }); i >= 0 {
		from = from[i : i+1]
	}
	out, passed := slices.Repeat([]verdict{own}, len(text.lines)), make([]bool, len(text.lines))
	for _, s := range from {
		shared, err := h.shared(ctx, text, passed, s.blob, blob)
		if err != nil {
			return nil, err
		}
		var known []verdict
		if len(shared) > 0 && s.lines != nil {
			if known, err = s.lines(ctx); err != nil {
				return nil, err
			}
		}
		for _, l := range shared {
			if out[l[1]], passed[l[1]] = (verdict{}), true; l[0] < len(known) {
				out[l[1]] = known[l[0]]
			}
		}
	}
	return out, nil
}

// shared returns the lines that a blob has of an older one, of those that have not been passed on: their places there
// and here, from 0.
func (h *history) shared(ctx context.Context, text *contents, passed []bool, old, blob string) (list [][2]int, err error) {
	was, err := h.read(ctx, old)
	if err != nil {
		return nil, err
	}
	may := false
	for i, line := range text.lines {
		may = may || !passed[i] && was.times[line] > 0
	}
	if !may {
		return nil, nil
	}
	var hunks []git.Hunk
	if old != blob {
		if hunks, err = h.made.Diff(ctx, old, blob); err != nil {
			return nil, err
		}
	}
	at, from := 0, 0
	for _, d := range append(hunks, git.Hunk{New: len(text.lines) + 1}) {
		for ; at < d.New-1; at, from = at+1, from+1 {
			if !passed[at] {
				list = append(list, [2]int{from, at})
			}
		}
		at, from = at+d.News, d.Old-1+d.Olds
	}
	return list, nil
}

// version returns what is known about the lines of a version.
func (h *history) version(ctx context.Context, v *version) ([]verdict, error) {
	if lines, ok := h.of[v]; ok {
		return lines, nil
	}
	var from []giver
	if v.outside != nil {
		from = append(from, giver{v.outside.blob, func(ctx context.Context) ([]verdict, error) {
			return h.outside(ctx, *v.outside)
		}})
	}
	for _, p := range v.parents {
		from = append(from, giver{p.blob, func(ctx context.Context) ([]verdict, error) { return h.version(ctx, p) }})
	}
	lines, err := h.pass(ctx, v.blob, verdict{steps: []*step{v.step}, sure: true}, from)
	if err == nil {
		h.of[v] = lines
	}
	return lines, err
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
