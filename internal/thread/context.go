package thread

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/dag"
)

// bytesPerToken is the estimate that quotas use: close for English and code,
// generous for other scripts.
const bytesPerToken = 4

// A Prompt is what an agent is told, apart from the conversation.
type Prompt struct {
	Contract string   // what has to be handed back, and how
	Role     string   // who the agent is
	Task     string   // the thread's prompt
	Parent   string   // what called this thread, or ""
	Notes    []string // what people added
	Route    string   // what is to be done now

	Quota int      // tokens for the conversation
	Pin   []string // roles that are always given whole
	Full  bool     // look past compact marks
	// Since, when set, is the last step that the agent's session already
	// knows: only what came after it is told.
	Since dag.Hash
}

// Assemble puts the prompt for a step after head together, and says in which
// form each earlier step went in, oldest first. From newest to oldest a step is
// given whole up to 75 % of the quota, by its meta up to 100 %, and then left
// out with a line that says so. Everything but the conversation, and pinned
// roles, is whole. Agent text is fenced by its step's hash, which no step can
// contain, and labelled.
func (r *Reader) Assemble(ctx context.Context, head dag.Hash, p Prompt) (string, []ContextUse, error) {
	talk, uses, err := r.conversation(ctx, head, p)
	if err != nil {
		return "", nil, fmt.Errorf("assemble prompt: %w", err)
	}
	var b strings.Builder
	section := func(title, text string) {
		if text = strings.TrimRight(text, "\n"); text == "" {
			return
		}
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		if title != "" {
			b.WriteString("# " + title + "\n\n")
		}
		b.WriteString(text + "\n")
	}
	if p.Since.IsZero() {
		section("How to answer", p.Contract)
		section("Your role", p.Role)
		section("The task", p.Task)
		section("Parent context", p.Parent)
	}
	section("What happened so far", talk)
	section("Notes", strings.Join(p.Notes, "\n\n"))
	section("Now", p.Route)
	return b.String(), uses, nil
}

// conversation renders the steps before, oldest first.
func (r *Reader) conversation(ctx context.Context, head dag.Hash, p Prompt) (string, []ContextUse, error) {
	var parts []string    // newest first
	var uses []ContextUse // newest first
	spent, omitted, known := 0, 0, false
	quota := p.Quota * bytesPerToken
	for s, err := range r.Walk(ctx, head) {
		if err != nil {
			return "", nil, err
		}
		if s.Hash == p.Since {
			known = true
		}
		if known {
			uses = append(uses, ContextUse{s.Hash, FormSession})
			break
		}
		pinned := slices.Contains(p.Pin, s.State.Role)
		if omitted > 0 && !pinned && spent >= quota && len(p.Pin) == 0 {
			// Nothing older can go in: what is left is only counted.
			omitted++
			uses = append(uses, ContextUse{s.Hash, FormOmitted})
			continue
		}
		if !s.State.Compact.IsZero() && !p.Full {
			text, err := r.Text(ctx, s.State.Compact)
			if err != nil {
				return "", nil, err
			}
			parts = append(parts, fence(s, "summary of everything before", text))
			uses = append(uses, ContextUse{s.Hash, FormSummary})
			break
		}
		text, err := r.Text(ctx, s.State.Content)
		if err != nil {
			return "", nil, err
		}
		whole := fence(s, "", text)
		brief := fence(s, "meta only", string(s.State.Meta))
		switch {
		case pinned || spent+len(whole) <= quota*3/4:
			parts, spent = append(parts, whole), spent+len(whole)
			uses = append(uses, ContextUse{s.Hash, FormFull})
		case spent+len(brief) <= quota:
			parts, spent = append(parts, brief), spent+len(brief)
			uses = append(uses, ContextUse{s.Hash, FormMeta})
		default:
			omitted, spent = omitted+1, quota
			uses = append(uses, ContextUse{s.Hash, FormOmitted})
		}
	}
	slices.Reverse(parts)
	slices.Reverse(uses)
	if omitted > 0 {
		line := fmt.Sprintf("%d earlier steps are left out here; `plait cas walk %s` lists them, `plait cas get HASH` prints one.\n", omitted, head)
		parts = slices.Insert(parts, 0, line)
	}
	return strings.Join(parts, "\n"), uses, nil
}

// fence wraps what a role said. The fence carries the step's own hash: a text
// cannot contain the hash of the step it is part of, so it cannot end it.
func fence(s Step, form, text string) string {
	name := s.Hash.Short()
	label := s.State.Role
	if form != "" {
		label += ", " + form
	}
	return fmt.Sprintf("--- step %s (%s) ---\n%s\n--- end %s ---\n", name, label, strings.TrimRight(text, "\n"), name)
}
