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
	TaskNode dag.Hash // the content that has it, or zero
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

// An Assembled prompt is its text, and what it was put together from.
type Assembled struct {
	Text   string
	Uses   []ContextUse // in which form earlier steps went in, oldest first
	pieces []piece      // in order, together Text
}

// A piece of a prompt: a text, or the beginning of that of a content.
type piece struct {
	text    string
	content dag.Hash // zero: none has it
}

// Assemble puts the prompt for a step after head together. From newest to oldest a step is
// given whole up to 75 % of the quota, by its meta up to 100 %, and then left
// out with a line that says so. Everything but the conversation, and pinned
// roles, is whole. Agent text is fenced by its step's hash, which no step can
// contain, and labelled.
func (r *Reader) Assemble(ctx context.Context, head dag.Hash, p Prompt) (*Assembled, error) {
	talk, uses, err := r.conversation(ctx, head, p)
	if err != nil {
		return nil, fmt.Errorf("assemble prompt: %w", err)
	}
	a := &Assembled{Uses: uses}
	begin := func(title string) {
		if len(a.pieces) > 0 {
			a.add("\n")
		}
		if title != "" {
			a.add("# " + title + "\n\n")
		}
	}
	section := func(title, text string) {
		if text = strings.TrimRight(text, "\n"); text != "" {
			begin(title)
			a.add(text + "\n")
		}
	}
	if p.Since.IsZero() || p.Other {
		section("How to answer", p.Contract)
		section("Your role", p.Role)
	}
	if task := strings.TrimRight(p.Task, "\n"); task != "" && p.Since.IsZero() && !(p.Talk && p.Task == p.Route) {
		begin("The task")
		a.pieces = append(a.pieces, piece{task, p.TaskNode})
		a.add("\n")
	}
	if p.Since.IsZero() || p.Other {
		section("Inputs", p.Inputs)
	}
	if p.Since.IsZero() {
		section("Parent context", p.Parent)
	}
	if len(talk) > 0 {
		begin("What happened so far")
		a.pieces = append(a.pieces, talk...)
	}
	section("Notes", strings.Join(p.Notes, "\n\n"))
	title := "Now"
	if p.Talk && len(a.pieces) == 0 {
		title = ""
	}
	section(title, p.Route)
	var b strings.Builder
	for _, p := range a.pieces {
		b.WriteString(p.text)
	}
	a.Text = b.String()
	return a, nil
}

func (a *Assembled) add(text string) { a.pieces = append(a.pieces, piece{text: text}) }

// A telling collects what is told of a conversation, from its newest step to its oldest.
type telling struct {
	steps  [][]piece
	uses   []ContextUse
	broken bool // a step after the last use was passed over
}

// use notes the form in which a step goes in.
func (t *telling) use(s Step, form string) {
	if n := len(t.uses); n > 0 && !t.broken && t.uses[n-1].Form == form {
		t.uses[n-1].From = s.Hash
		return
	}
	t.uses = append(t.uses, ContextUse{s.Hash, s.Hash, form})
	t.broken = false
}

// conversation renders the steps before, oldest first. Of the steps left out
// only the newest is named in the uses: everything before it is left out too,
// but for pinned roles, and a step's detail must not grow with its thread.
func (r *Reader) conversation(ctx context.Context, head dag.Hash, p Prompt) ([]piece, []ContextUse, error) {
	var t telling
	spent, seen, given := 0, 0, 0
	told := p.Steps // how many steps there are to tell
	quota, full, summed := p.Quota*bytesPerToken, false, false
	var omitted dag.Hash // the newest step left out
	repeated := p.Talk   // the newest inputs are what Route says
	for s, err := range r.Walk(ctx, head) {
		if err != nil {
			return nil, nil, err
		}
		if s.Hash == p.Since {
			t.use(s, FormSession)
			told = seen
			break
		}
		if slices.Contains(p.Without, s.State.Role) {
			t.broken = true
			told--
			continue
		}
		repeated = repeated && s.State.Role == RoleInput
		if repeated {
			told--
			t.use(s, FormFull)
			continue
		}
		seen++
		pinned := slices.Contains(p.Pin, s.State.Role)
		if (full || summed) && !pinned {
			if len(p.Pin) == 0 {
				break
			}
			t.broken = true
			continue
		}
		if !s.State.Compact.IsZero() && p.Full {
			t.broken = true
			told-- // what it stands for is told itself
			continue
		}
		if !s.State.Compact.IsZero() {
			text, err := r.Text(ctx, s.State.Compact)
			if err != nil {
				return nil, nil, err
			}
			t.steps = append(t.steps, fence(s, "summary of everything before", text, s.State.Compact))
			t.use(s, FormSummary)
			summed = true // of what is before, only what is pinned is told
			continue
		}
		text, err := r.Text(ctx, s.State.Content)
		if err != nil {
			return nil, nil, err
		}
		form := FormFull
		part := fence(s, "", text, s.State.Content)
		if !pinned && spent+length(part) > quota*3/4 {
			form, part = FormMeta, fence(s, "meta only", string(s.State.Meta), dag.Hash{})
			if spent+length(part) > quota {
				full = true
				t.use(s, FormOmitted)
				omitted = s.Hash
				continue
			}
		}
		spent += length(part)
		given++
		t.steps = append(t.steps, part)
		t.use(s, form)
	}
	if full {
		line := fmt.Sprintf("%d earlier steps are left out here; `plait cas walk %s` lists them, `plait cas get HASH` prints one.\n", told-given, omitted)
		t.steps = append(t.steps, []piece{{text: line}})
	}
	slices.Reverse(t.uses)
	var out []piece
	for _, step := range slices.Backward(t.steps) {
		if len(out) > 0 {
			out = append(out, piece{text: "\n"})
		}
		out = append(out, step...)
	}
	return out, t.uses, nil
}

func length(pieces []piece) int {
	n := 0
	for _, p := range pieces {
		n += len(p.text)
	}
	return n
}

// fence wraps what a role said, as the content has it. The fence carries the step's own hash: a
// text cannot contain the hash of the step it is part of, so it cannot end it.
func fence(s Step, form, text string, content dag.Hash) []piece {
	name := s.Hash.Short()
	label := s.State.Role
	if form != "" {
		label += ", " + form
	}
	return []piece{
		{text: "--- step " + name + " (" + label + ") ---\n"},
		{strings.TrimRight(text, "\n"), content},
		{text: "\n--- end " + name + " ---\n"},
	}
}
