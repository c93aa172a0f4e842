package thread

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/text"
)

// pointer replaces the text of the path that a join follows: in prompts, which have it in the step
// before, and in joins of versions before schema 9.
const pointer = "(main path: see the step before)"

// text returns the text of a join that follows the step after: a section for each path that was
// not cancelled.
func (d JoinDraft) text(after, fork dag.Hash) string {
	var b strings.Builder
	for _, p := range d.Paths {
		if p.Row.Status == store.Cancelled {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(d.section(p, p.Row.Head == after && after != fork))
	}
	return b.String()
}

// section returns what the text of a join says about a path. The summary of an action is stored
// nowhere else, so it is always included.
func (d JoinDraft) section(p PathEnd, follows bool) string {
	text := "## " + p.Row.Path.ID + "\n"
	switch f := p.failure(); {
	case f == nil:
	case d.Older:
		text += "\n(failed)\n"
	default:
		text += "\n(failed: " + string(f.Kind) + ")\n"
	}
	body := strings.TrimSpace(p.Text)
	if follows && d.Pointing && d.Node != RoleJoin {
		body = cmp.Or(d.instead, pointer)
	}
	if body != "" {
		text += "\n" + body + "\n"
	}
	return text
}

// Said returns the text of a step for a reader that may not have the step before it: the recorded one,
// but where a join, or a call that returned one, was recorded with a pointer, it has the words that
// this points to.
func (r *Reader) Said(ctx context.Context, s *State) (string, error) {
	text, err := r.Text(ctx, s.Content)
	if err != nil || !strings.Contains(text, pointer) {
		return text, err
	}
	switch {
	case s.Paths != nil && s.Role != RoleJoin:
		d, err := r.joinDraft(ctx, s, r.Said)
		return d.text(s.Previous(), s.Fork), err
	case !s.ChildThread.IsZero():
		last, err := LastRouted(r.Walk(ctx, s.ChildThread), dag.Hash{})
		if err != nil || last.State == nil {
			return text, err
		}
		return r.Said(ctx, last.State)
	}
	return text, nil
}

// Shown returns the text of a step for people, and reports whether it is plain text rather than Markdown. plain reports
// that of a single step of an agent. A call shows the text that it returned, and a join shows plain texts as code
// blocks.
func (r *Reader) Shown(ctx context.Context, s *State, plain func(*Detail, json.RawMessage) bool) (
	shown string, asIs bool, err error) {
	if shown, err = r.Said(ctx, s); err != nil {
		return "", false, err
	}
	switch {
	case !s.ChildThread.IsZero():
		last, err := LastRouted(r.Walk(ctx, s.ChildThread), dag.Hash{})
		if err != nil || last.State == nil {
			return shown, false, err
		}
		if said, err := r.Said(ctx, last.State); err != nil || said != shown {
			return shown, false, err
		}
		return r.Shown(ctx, last.State, plain)
	case s.Paths != nil:
		d, err := r.joinDraft(ctx, s, r.Said)
		if err != nil || d.text(s.Previous(), s.Fork) != shown {
			return shown, false, err
		}
		d, err = r.joinDraft(ctx, s, func(ctx context.Context, s *State) (string, error) {
			said, asIs, err := r.Shown(ctx, s, plain)
			if asIs && strings.TrimSpace(said) != "" {
				said = text.CodeBlock(said, "")
			}
			return said, err
		})
		return d.text(s.Previous(), s.Fork), false, err
	}
	d, err := r.Detail(ctx, s.Detail)
	return shown, err == nil && plain(d, s.Meta), err
}

// Points reports whether the text of a step is that of a join that was recorded with a pointer.
func (r *Reader) Points(ctx context.Context, s *State) (bool, error) {
	d, text, err := r.followed(ctx, s, func(ctx context.Context, s *State) (string, error) {
		return r.Text(ctx, s.Content)
	})
	if err != nil || d == nil {
		return false, err
	}
	d.Pointing = true
	return d.text(s.Previous(), s.Fork) == text, nil
}

// A Brief is a join whose text repeats what the step before it said, for a reader that has that step.
type Brief struct {
	Before *State // the step before

	join  *State
	draft JoinDraft
}

// Text returns the text of the join with other words instead of those that it repeats, "" for a
// pointer to the step before.
func (b *Brief) Text(instead string) string {
	d := b.draft
	d.Pointing, d.instead = true, instead
	return d.text(b.join.Previous(), b.join.Fork)
}

// Brief returns the join s without what the step before it said, nil if s is no join or its text does
// not repeat that step.
func (r *Reader) Brief(ctx context.Context, s *State) (*Brief, error) {
	d, text, err := r.followed(ctx, s, r.Said)
	if err != nil || d == nil || d.text(s.Previous(), s.Fork) != text {
		return nil, err
	}
	before, err := r.State(ctx, s.Previous())
	if err != nil || !Routed(before.Role) { // an input, or a summary of what was said
		return nil, err
	}
	return &Brief{Before: before, join: s, draft: *d}, nil
}

// followed returns the draft of a join that follows one of its paths, and its text. said returns the
// text of a step. It returns nil for any other step.
func (r *Reader) followed(ctx context.Context, s *State, said func(context.Context, *State) (string, error)) (
	*JoinDraft, string, error) {
	if s.Role == RoleJoin || s.MainPath() < 0 {
		return nil, "", nil
	}
	text, err := said(ctx, s)
	if err != nil {
		return nil, "", err
	}
	d, err := r.joinDraft(ctx, s, said)
	return &d, text, err
}

// joinDraft returns what the text of a join is made of. said returns the text of a step.
func (r *Reader) joinDraft(ctx context.Context, s *State, said func(context.Context, *State) (string, error)) (
	JoinDraft, error) {
	d := JoinDraft{Node: s.Role}
	kinds, older, err := Failures(s.Meta)
	if err != nil {
		return d, err
	}
	d.Older = older
	for _, p := range s.Paths {
		end := PathEnd{Row: store.Thread{ID: p.Thread, Head: p.Head, Status: p.Status, Path: &store.Path{ID: p.ID},
			Reason: &store.Reason{Failure: kinds[p.ID]}}}
		if p.Status != store.Cancelled {
			last, err := LastRouted(r.Walk(ctx, p.Head), s.Fork)
			if err != nil {
				return d, fmt.Errorf("read path %s of join %s: %w", p.ID, s.Role, err)
			}
			if last.State != nil {
				if end.Text, err = said(ctx, last.State); err != nil {
					return d, err
				}
			}
		}
		d.Paths = append(d.Paths, end)
	}
	return d, nil
}
