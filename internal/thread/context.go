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
	Inputs   string   // what the agent is given beside it
	Parent   string   // what called this thread, or ""
	Notes    []string // what people added
	Route    string   // what is to be done now

	Quota int      // tokens for the conversation
	Steps int      // how many steps the thread has
	Pin   []string // roles that are always given whole
	// Without are roles whose steps are not told at all: those who planned what the agent
	// is to do.
	Without []string
	Full    bool // look past compact marks
	// Since, when set, is the last step that the agent's session already
	// knows: only what came after it is told.
	Since dag.Hash
	// Talk says that Route is what a person says in a conversation: what the agent was asked
	// is told with what happened before, and the person's words stand alone when the agent's
	// session knows all else.
	Talk bool
	// Other says that the session is another role's: it knows the conversation, but
	// not who the agent is now and what it has to hand back.
	Other bool
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
	if p.Since.IsZero() || p.Other {
		section("How to answer", p.Contract)
		section("Your role", p.Role)
	}
	if p.Since.IsZero() && !(p.Talk && p.Task == p.Route) {
		section("The task", p.Task)
	}
	if p.Since.IsZero() || p.Other {
		section("Inputs", p.Inputs)
	}
	if p.Since.IsZero() {
		section("Parent context", p.Parent)
	}
	section("What happened so far", talk)
	section("Notes", strings.Join(p.Notes, "\n\n"))
	title := "Now"
	if p.Talk && b.Len() == 0 {
		title = ""
	}
	section(title, p.Route)
	return b.String(), uses, nil
}

// conversation renders the steps before, oldest first. Of the steps left out
// only the newest is named in the uses: everything before it is left out too,
// but for pinned roles, and a step's detail must not grow with its thread.
func (r *Reader) conversation(ctx context.Context, head dag.Hash, p Prompt) (string, []ContextUse, error) {
	var parts []string    // newest first
	var uses []ContextUse // newest first
	spent, seen, given := 0, 0, 0
	told := p.Steps // how many steps there are to tell
	quota, full, summed := p.Quota*bytesPerToken, false, false
	repeated := p.Talk // the newest inputs are what Route says
	for s, err := range r.Walk(ctx, head) {
		if err != nil {
			return "", nil, err
		}
		if s.Hash == p.Since {
			uses = append(uses, ContextUse{s.Hash, FormSession})
			told = seen
			break
		}
		if slices.Contains(p.Without, s.State.Role) {
			told--
			continue
		}
		if repeated = repeated && s.State.Role == RoleInput; repeated {
			told--
			uses = append(uses, ContextUse{s.Hash, FormFull})
			continue
		}
		seen++
		pinned := slices.Contains(p.Pin, s.State.Role)
		if (full || summed) && !pinned {
			if len(p.Pin) == 0 {
				break
			}
			continue
		}
		if !s.State.Compact.IsZero() && p.Full {
			told-- // what it stands for is told itself
			continue
		}
		if !s.State.Compact.IsZero() {
			text, err := r.Text(ctx, s.State.Compact)
			if err != nil {
				return "", nil, err
			}
			parts = append(parts, fence(s, "summary of everything before", text))
			uses = append(uses, ContextUse{s.Hash, FormSummary})
			summed = true // of what is before, only what is pinned is told
			continue
		}
		text, err := r.Text(ctx, s.State.Content)
		if err != nil {
			return "", nil, err
		}
		form := FormFull
		part := fence(s, "", text)
		if !pinned && spent+len(part) > quota*3/4 {
			form, part = FormMeta, fence(s, "meta only", string(s.State.Meta))
			if spent+len(part) > quota {
				full = true
				uses = append(uses, ContextUse{s.Hash, FormOmitted})
				continue
			}
		}
		spent += len(part)
		given++
		parts = append(parts, part)
		uses = append(uses, ContextUse{s.Hash, form})
	}
	slices.Reverse(parts)
	slices.Reverse(uses)
	if full {
		line := fmt.Sprintf("%d earlier steps are left out here; `plait cas walk %s` lists them, `plait cas get HASH` prints one.\n", told-given, firstOmitted(uses))
		parts = slices.Insert(parts, 0, line)
	}
	return strings.Join(parts, "\n"), uses, nil
}

// firstOmitted returns the newest step that was left out.
func firstOmitted(uses []ContextUse) dag.Hash {
	for _, u := range uses {
		if u.Form == FormOmitted {
			return u.Step
		}
	}
	return dag.Hash{}
}

// fence wraps what a role said. The fence carries the step's own hash: a text
// cannot contain the hash of the step it is part of, so it cannot end it.
func fence(s Step, form, text string) string {
	name := s.Hash.Short()
	label := s.State.Role
	if form != "" {
		label += ", " + form
	}
	return "--- step " + name + " (" + label + ") ---\n" + strings.TrimRight(text, "\n") + "\n--- end " + name + " ---\n"
}
