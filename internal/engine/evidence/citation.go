package evidence

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/thread"
)

// citations lists the ids that an answer cites, in its text and in the texts of its meta. A program's output and an
// agent's words in a chat are never sent back, so citations skips them unless citations are required. In a plan the
// inputs of actions do not count: passing something on claims nothing.
func (a Answer) citations() []string {
	if !a.Strict && (a.Chat || a.Plain) {
		return nil
	}
	text := a.Text
	var meta map[string]any
	_ = json.Unmarshal(a.Meta, &meta) // it is canonical
	if a.Plan {
		if json.Valid([]byte(text)) {
			text = "" // the plan itself
		}
		actions, _ := meta["actions"].([]any)
		for _, a := range actions {
			if a, ok := a.(map[string]any); ok {
				delete(a, "inputs")
			}
		}
	}
	ids := flow.Citations(text)
	eachText(meta, func(s string) { ids = append(ids, flow.Citations(s)...) })
	return ids
}

func eachText(v any, do func(string)) {
	switch v := v.(type) {
	case string:
		do(v)
	case []any:
		for _, item := range v {
			eachText(item, do)
		}
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			eachText(v[k], do)
		}
	}
}

// check returns a line for each citation that does not hold: it names a command or tool call that had no result, or no
// entry. Unless citations are required, the latter counts only for what is meant as an id, see means. accepted says
// that the answer was accepted with its citations when it was recorded.
func (r *recorder) check(ctx context.Context, cited []string, accepted bool) ([]string, error) {
	var lines []string
	missing := -1 // the first line about an id that names nothing
	slices.Sort(cited)
	for _, id := range slices.Compact(cited) {
		ev, found, err := r.find(ctx, id)
		switch {
		case err != nil:
			return nil, err
		case !found && (r.Strict || r.means(id) && !accepted):
			if missing < 0 {
				missing = len(lines)
			}
			lines = append(lines, fmt.Sprintf("evidence:%s is cited, but there is no such entry", event.Brief(id)))
		case ev != nil && ev.Unfinished():
			lines = append(lines, fmt.Sprintf("evidence:%s proves nothing: %s; say so without citing it",
				event.Brief(id), ev.Summary))
		}
	}
	if missing >= 0 {
		choices, err := r.choices(ctx)
		if err != nil {
			return nil, err
		}
		lines[missing] += "; " + choices
	}
	return lines, nil
}

// means reports whether what follows "evidence:" is meant as an id: it has the form of those that Plait gives, or names
// an agent that has evidence. Anyone can write "evidence:" before another word.
func (r *recorder) means(id string) bool {
	by, local, whole := strings.Cut(id, ".")
	if !whole {
		return numbered.MatchString(id)
	}
	return numbered.MatchString(local) || by == r.Attempt.Instance ||
		slices.ContainsFunc(r.known.names(), func(full string) bool { return strings.HasPrefix(full, by+".") })
}

// find returns the entry that an id means in this answer, and whether it exists. The entry is nil if only its
// existence matters.
func (r *recorder) find(ctx context.Context, id string) (*thread.Evidence, bool, error) {
	full := id
	if by, local, whole := strings.Cut(id, "."); !whole || by == r.Attempt.Instance {
		if !whole {
			local = id
		}
		if ev, own := r.own[local]; own {
			return ev, true, nil
		}
		full = thread.FullID(r.Attempt.Instance, local)
	}
	a, ok := r.known.Get(full)
	if !ok && !r.Strict && !strings.Contains(id, ".") {
		a, ok = r.known.only(id) // as readers resolve it
	}
	if !ok || a.Kind == thread.FileAnchor {
		return nil, ok, nil
	}
	ev, err := r.read(ctx, a.Hash)
	return ev, true, err
}

// choices lists ids that could be cited in place of a wrong one.
func (r *recorder) choices(ctx context.Context) (string, error) {
	const most = 12
	var ids []string
	for _, id := range append(slices.Sorted(maps.Keys(r.own)), r.known.names()...) {
		ev, _, err := r.find(ctx, id)
		if err != nil {
			return "", err
		}
		if ev != nil && ev.Unfinished() {
			continue
		}
		if len(ids) == most {
			return "there are " + strings.Join(ids, ", ") + " and others", nil
		}
		ids = append(ids, strings.TrimPrefix(id, r.Attempt.Instance+"."))
	}
	if len(ids) == 0 && !r.Strict {
		return "there is none: cite nothing", nil
	}
	if len(ids) == 0 {
		return "there is none yet: hand it in, in evidence, or cite nothing", nil
	}
	return "there is " + strings.Join(ids, ", "), nil
}
