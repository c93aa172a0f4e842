package prompt

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/thread"
)

// withoutMain returns the text of a join for a prompt that nowhere has what the step before it said.
func withoutMain(b *thread.Brief) string { return b.Text(tooLong(b.Before.Content)) }

// tooLong takes the place of a text that is in content.
func tooLong(content dag.Hash) string {
	return "(too long for this prompt; " + strings.Replace(getCommand, "HASH", content.Short(), 1) + " prints it)"
}

// failures returns why the paths of a join failed. Its content has only the kinds of failure.
func failures(ctx context.Context, nodes *thread.Reader, s thread.Step) (string, error) {
	if s.State.Paths == nil {
		return "", nil
	}
	d, err := nodes.Detail(ctx, s.State.Detail)
	if err != nil || d == nil {
		return "", err
	}
	var b strings.Builder
	for _, f := range d.Failures {
		fmt.Fprintf(&b, "Why %s failed (%s): %q\n", f.Path, f.Kind, strings.TrimSpace(f.Message))
	}
	return b.String(), nil
}

// repeats reports whether the step before a join, which is included as brief, is in the prompt or
// the session in full.
func (a *Assembler) repeats(ctx context.Context, t *excerpt, s thread.Step, brief *rendition) (bool, error) {
	h := s.Parent()
	if h == t.draft.Since {
		return true, nil
	}
	before, err := a.nodes.At(ctx, h)
	if err != nil {
		return false, err
	}
	role := before.State.Role
	pinned := slices.Contains(t.draft.Pin, role)
	if h == t.draft.InRoute || slices.Contains(t.draft.OmitRoles, role) || (t.summed || !t.omitted.IsZero()) && !pinned {
		return false, nil
	}
	said, err := a.rendered(ctx, t, &cachedStep{Step: before})
	if err != nil {
		return false, err
	}
	after := *t
	after.spent += brief.fullSize
	return after.fits(said, pinned), nil
}

// changed returns the pieces of text: it differs in one place from was, the text of content.
func changed(was, text string, content dag.Hash) []piece {
	was, text = strings.TrimRight(was, "\n"), strings.TrimRight(text, "\n")
	most := min(len(was), len(text))
	begin, end := 0, 0
	for begin < most && was[begin] == text[begin] {
		begin++
	}
	for end < most-begin && was[len(was)-1-end] == text[len(text)-1-end] {
		end++
	}
	return []piece{
		{text: text[:begin], content: content},
		{text: text[begin : len(text)-end]},
		{text: text[len(text)-end:], content: content, from: len(was) - end},
	}
}
