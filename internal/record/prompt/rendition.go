package prompt

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/thread"
)

// A rendition is the forms in which a step can be included.
type rendition struct {
	form               string // of full
	full, meta         []piece
	fullSize, metaSize int // bytes
	references         references
	brief              *rendition // of a join: without what the step before it said, or nil
	alone              *rendition // likewise, for a prompt that does not have that step
}

// rendered returns the rendition of a step. It is cached if it is always the same, because every
// prompt asks for it again.
func (a *Assembler) rendered(ctx context.Context, t *excerpt, s *cachedStep) (*rendition, error) {
	question := ""
	if len(s.State.Ancestors) > 0 && len(t.draft.Questions) > 0 {
		question = t.draft.Questions[s.State.Ancestors[0]]
	}
	same := !t.draft.Conversation && question == ""
	if same && s.rendition == nil {
		s.rendition = a.cachedRendition(s.Hash)
	}
	if same && s.rendition != nil {
		return s.rendition, nil
	}
	recorded, err := a.nodes.Text(ctx, s.State.Content)
	if err != nil {
		return nil, err
	}
	text, err := a.nodes.Said(ctx, s.State)
	if err != nil {
		return nil, err
	}
	asRecorded := text != recorded && t.draft.AsRecorded
	if asRecorded {
		text, same = recorded, false
	}
	meta := ""
	if !t.draft.Conversation { // the question of a conversation is always the same
		meta = missingMeta(s.Step, text)
	}
	beside, err := refer(ctx, a.nodes, t.exports, s.Step)
	if err != nil {
		return nil, err
	}
	why, err := failures(ctx, a.nodes, s.Step)
	if err != nil {
		return nil, err
	}
	beside.text = why + beside.text
	piecesOf := func(text string) []piece {
		if text == recorded {
			return []piece{whole(text, s.State.Content)}
		}
		return changed(recorded, text, s.State.Content)
	}
	said := render(s.Step, meta, question, beside, piecesOf(text)...)
	brief, err := a.nodes.Brief(ctx, s.State)
	if err != nil {
		return nil, err
	}
	if brief != nil && !asRecorded {
		said.brief = render(s.Step, meta, question, beside, piecesOf(brief.Text(""))...)
		beside.exports.Chains = append(slices.Clip(beside.exports.Chains), Chain{s.Parent(), s.State.Fork})
		said.alone = render(s.Step, meta, question, beside, piecesOf(withoutMain(brief))...)
		said.alone.form = thread.FormBrief
	}
	if same && beside.text == "" { // references depend on what else the prompt includes
		s.rendition = said
		a.cacheRendition(s.Hash, said)
	}
	return said, nil
}

func render(s thread.Step, meta, question string, beside references, text ...piece) *rendition {
	name, before := s.Hash.Short(), ""
	full := fence(s, "", text...)
	if len(text) == 1 && strings.TrimSpace(text[0].text) == "" {
		full = []piece{{text: "--- step " + name + " (" + s.State.Role + ") has no text ---\n"}}
	}
	if question != "" {
		before = name + " answers the question " + strconv.Quote(question) + "\n"
	}
	if meta != "" {
		before += "meta of " + name + ": " + meta + "\n"
	}
	said := &rendition{form: thread.FormFull, full: joined(withText(full, before+beside.text)), references: beside}
	said.meta = joined(withText(fence(s, "meta only", whole(string(s.State.Meta), dag.Hash{})), beside.text))
	said.fullSize, said.metaSize = length(said.full), length(said.meta)
	return said
}

// joined merges adjacent plain texts: fewer pieces are faster to assemble.
func joined(pieces []piece) []piece {
	var out []piece
	for _, p := range pieces {
		if len(p.text) < minRange {
			p.content = dag.Hash{}
		}
		if n := len(out); n > 0 && !out[n-1].head && out[n-1].content.IsZero() && p.content.IsZero() {
			out[n-1].text += p.text
			continue
		}
		out = append(out, p)
	}
	return out
}

// withText appends text unless it is empty.
func withText(pieces []piece, text string) []piece {
	if text == "" {
		return pieces
	}
	return append(pieces, piece{text: text})
}

func length(pieces []piece) int {
	n := 0
	for _, p := range pieces {
		n += len(p.text)
	}
	return n
}

// fenceHead begins the fence of a step.
const fenceHead = "--- step "

// FitsWhole reports whether steps of that many bytes are included in full in a prompt.
func FitsWhole(bytes, quota int) bool { return bytes <= quota*bytesPerToken*3/4 }

// FrameBytes returns about how many bytes a prompt has around the text of a step.
func FrameBytes(s thread.Step) int {
	n := 80 // its fence
	if s.State.Role != thread.RoleInput {
		n += 28 + len(s.State.Meta)
	}
	return n
}

// fence wraps the content of a step. The fence carries the step's own hash, which its text cannot
// contain, so the text cannot close the fence.
func fence(s thread.Step, form string, text ...piece) []piece {
	name := s.Hash.Short()
	label := s.State.Role
	if form != "" {
		label += ", " + form
	}
	out := append([]piece{{text: fenceHead + name + " (" + label + ") ---\n", head: true}}, text...)
	return append(out, piece{text: "\n--- end " + name + " ---\n"})
}

// whole returns the text of a content as it is fenced.
func whole(text string, content dag.Hash) piece {
	return piece{text: strings.TrimRight(text, "\n"), content: content}
}
