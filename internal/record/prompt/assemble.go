package prompt

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// bytesPerToken is the estimate used by quotas: close for English and code, generous for other
// scripts.
const bytesPerToken = 4

// A Draft is what an agent is told, apart from the conversation.
type Draft struct {
	Contract     string         // what to return, and how
	Role         string         // who the agent is
	Task         string         // the prompt of the thread
	TaskNode     dag.Hash       // the content node of Task, or zero
	Instructions []Instructions // instruction files that people wrote for agents
	Desk         string         // where the agent reads and writes files
	Inputs       string         // files and data passed to the agent
	Parent       string         // what called this thread, or ""
	Notes        []string       // what people added
	Route        string         // what to do now

	Quota int      // tokens for the conversation
	Steps int      // how many steps the thread has
	Pin   []string // roles that are always included in full
	// OmitRoles are roles whose steps are left out: the planner's, for an agent that carries out
	// its plan.
	OmitRoles []string
	Full      bool // look past compact marks
	Repeats
	// Since, when set, is the last step that the agent's session has seen: only later steps are
	// included.
	Since dag.Hash
	// Conversation means that Route is what a person says in a conversation. The contract and the
	// task then belong to the history, and if the agent's session has that already, the person's
	// words are the whole prompt.
	Conversation bool
	// OtherRole means that the session is another role's: it has the conversation, but not this role
	// and its contract.
	OtherRole bool
	// Questions are the questions that human steps answered, by the step before the answer.
	Questions map[dag.Hash]string
}

// Repeats is what a prompt leaves out, since it is said elsewhere.
type Repeats struct {
	InRoute  dag.Hash // a step that Route contains in a fuller form, zero for none
	Told     bool     // Route contains Task
	Answered bool     // leave out what people said since the last step of an agent: the next prompt has it
	// AsRecorded means that joins of before schema 9, and calls that returned one, keep their pointers:
	// a replay is told what the task was.
	AsRecorded bool
}

// An Assembled prompt is a text, and what it was assembled from.
type Assembled struct {
	Text     string
	Uses     []thread.ContextUse // the form in which each earlier step is included, oldest first
	Exports  Exports             // what Text says can be read
	Contents []store.Object      // contents that the prompt is made of and that belong to no step
	// Talk is where in Text the conversation begins. All before it is in every prompt of a new session.
	Talk   int
	pieces []piece // in order, together Text
}

// A piece of a prompt: a text, or a part of a content's text.
type piece struct {
	text    string
	content dag.Hash // zero: none
	from    int      // offset in the content
	named   bool     // keep the reference to the content, however short the text
	head    bool     // a landmark by which the next prompt finds this text
}

// Assemble builds the prompt for the step after head. From newest to oldest, a step is included
// in full up to 75 % of the quota, by its meta up to 100 %, and after that it is left out, with a
// line that says so. Everything but the conversation is always included in full, and so are
// pinned roles. Agent text is fenced with its step's hash, which no step can contain, and
// labeled.
func (a *Assembler) Assemble(ctx context.Context, head dag.Hash, d Draft) (*Assembled, error) {
	t, err := a.conversation(ctx, head, d)
	if err != nil {
		return nil, fmt.Errorf("assemble prompt: %w", err)
	}
	talk := t.pieces()
	out := &Assembled{Uses: t.uses, Exports: t.exports}
	begin := func(title string) {
		if len(out.pieces) > 0 {
			out.add("\n")
		}
		if title != "" {
			out.pieces = append(out.pieces, piece{text: "# " + title + "\n\n", head: true})
		}
	}
	section := func(title, text string) {
		if text = strings.TrimRight(text, "\n"); text != "" {
			begin(title)
			out.add(text + "\n")
		}
	}
	if d.Since.IsZero() || d.OtherRole {
		section("How to answer", d.Contract)
		section("Your role", d.Role)
	}
	if d.Since.IsZero() && len(d.Instructions) > 0 {
		begin("Project instructions (AGENTS.md)")
		if err := out.instruct(d.Instructions); err != nil {
			return nil, fmt.Errorf("assemble prompt: %w", err)
		}
	}
	task := strings.TrimRight(d.Task, "\n")
	if task != "" && d.Since.IsZero() && !d.Told {
		begin("The task")
		out.pieces = append(out.pieces, piece{text: task, content: d.TaskNode})
		out.add("\n")
	}
	if d.Since.IsZero() || d.OtherRole {
		section("Inputs", d.Inputs)
		section("Files", d.Desk)
	}
	if d.Since.IsZero() {
		section("Parent context", d.Parent)
	}
	out.Talk = length(out.pieces)
	if len(talk) > 0 {
		begin("What happened so far")
		out.pieces = append(slices.Grow(out.pieces, len(talk)+maxAfter), talk...)
	}
	if notes := strings.TrimRight(strings.Join(d.Notes, "\n\n"), "\n"); notes != "" {
		begin("Notes")
		for part := range strings.SplitAfterSeq(notes, "\n\n") { // so that an added note is a separate part
			out.add(part)
		}
		out.add("\n")
	}
	title := "Now"
	if d.Conversation && len(out.pieces) == 0 {
		title = ""
	}
	if route := strings.TrimRight(d.Route, "\n"); route != "" {
		begin(title)
		if before, after, ok := strings.Cut(route, task); ok && d.Told {
			out.add(before)
			out.pieces = append(out.pieces, piece{text: task, content: d.TaskNode})
			route = after
		}
		out.add(route + "\n")
	}
	var b strings.Builder
	b.Grow(length(out.pieces))
	for _, p := range out.pieces {
		b.WriteString(p.text)
	}
	out.Text = b.String()
	return out, nil
}

// maxAfter is roughly how many pieces follow the conversation.
const maxAfter = 16

func (a *Assembled) add(text string) { a.pieces = append(a.pieces, piece{text: text}) }

// An excerpt collects what a prompt includes of a conversation, from the newest step to the
// oldest.
type excerpt struct {
	draft   Draft
	steps   [][]piece
	uses    []thread.ContextUse
	exports Exports
	broken  bool // a step after the last use was skipped

	repeated bool     // every step so far is an input that Route repeats
	total    int      // steps to include
	seen     int      // of those, the ones reached
	given    int      // of those, the ones included in full or by their meta
	spent    int      // bytes of the included steps
	summed   bool     // a summary was included: of the steps before it, only pinned ones are
	omitted  dag.Hash // the newest step left out because the quota is used up, or zero
}

// use records the form in which a step is included.
func (t *excerpt) use(s thread.Step, form string) {
	if n := len(t.uses); n > 0 && !t.broken && t.uses[n-1].Form == form {
		t.uses[n-1].From = s.Hash
		return
	}
	t.uses = append(t.uses, thread.ContextUse{From: s.Hash, To: s.Hash, Form: form})
	t.broken = false
}

// conversation renders the earlier steps, oldest first. Of the steps left out only the newest is
// listed in the uses: all before it, except for pinned roles, are left out too, and a step's
// detail must not grow with its thread.
func (a *Assembler) conversation(ctx context.Context, head dag.Hash, d Draft) (*excerpt, error) {
	t := &excerpt{draft: d, total: d.Steps, repeated: d.Conversation || d.Answered}
	for s, err := range a.walkCached(ctx, head) {
		if err != nil {
			return nil, err
		}
		if s.Hash == d.Since {
			t.use(s.Step, thread.FormSession)
			t.total = t.seen
			break
		}
		if t.skips(s.Step) {
			continue
		}
		more, err := a.include(ctx, t, s)
		if err != nil {
			return nil, err
		}
		if !more {
			break
		}
	}
	if !t.omitted.IsZero() {
		n := t.total - t.given
		line := fmt.Sprintf("%d earlier steps are left out here; %s", n, readCommands(t.omitted, n))
		t.steps = append(t.steps, []piece{{text: line}})
	}
	slices.Reverse(t.uses)
	return t, nil
}

// pieces returns the excerpt, oldest step first.
func (t *excerpt) pieces() []piece {
	n := 0
	for _, step := range t.steps {
		n += len(step) + 1
	}
	out := make([]piece, 0, n)
	for _, step := range slices.Backward(t.steps) {
		if len(out) > 0 {
			out = append(out, piece{text: "\n"})
		}
		out = append(out, step...)
	}
	return out
}

// skips reports whether a step is left out entirely: its role is one of OmitRoles, or Route
// repeats it, because it is InRoute or one of the newest inputs, or it is not answered.
func (t *excerpt) skips(s thread.Step) bool {
	if slices.Contains(t.draft.OmitRoles, s.State.Role) {
		t.broken = true
		t.total--
		return true
	}
	if s.Hash == t.draft.InRoute {
		t.total--
		t.use(s, thread.FormFull)
		return true
	}
	t.repeated = t.repeated && s.State.Role == thread.RoleInput
	if t.repeated {
		t.total--
		if t.broken = t.draft.Answered; !t.broken {
			t.use(s, thread.FormFull)
		}
	}
	return t.repeated
}

// include adds a step to t in the largest form that still fits, and reports whether an earlier step
// may fit too.
func (a *Assembler) include(ctx context.Context, t *excerpt, s *cachedStep) (more bool, err error) {
	t.seen++
	pinned := slices.Contains(t.draft.Pin, s.State.Role)
	summary := !s.State.Compact.IsZero()
	switch {
	case (t.summed || !t.omitted.IsZero()) && !pinned:
		t.broken = true
		return len(t.draft.Pin) > 0, nil
	case summary && t.draft.Full:
		t.broken = true
		t.total-- // the steps it summarizes are counted themselves
		return true, nil
	case summary:
		text, err := a.nodes.Text(ctx, s.State.Compact)
		if err != nil {
			return false, err
		}
		said := fence(s.Step, "summary of everything before", whole(text, s.State.Compact))
		if before := s.Parent(); !before.IsZero() {
			said = withText(said, s.Hash.Short()+summarizes+readCommands(before, summarized(s.State)))
		}
		t.steps = append(t.steps, said)
		t.use(s.Step, thread.FormSummary)
		t.summed = true
		return true, nil
	}
	said, err := a.rendered(ctx, t, s)
	if err != nil {
		return false, err
	}
	if said.brief != nil {
		repeats, err := a.repeats(ctx, t, s.Step, said.brief)
		if err != nil {
			return false, err
		}
		switch {
		case repeats:
			said = said.brief
		case !t.fits(said, pinned):
			said = said.alone
		}
	}
	t.fit(s.Step, said, pinned)
	return true, nil
}

// fits reports whether a step is included in full: if it fits in three quarters of the quota, or is
// pinned.
func (t *excerpt) fits(said *rendition, pinned bool) bool {
	return pinned || FitsWhole(t.spent+said.fullSize, t.draft.Quota)
}

// fit includes a step in full (a join perhaps in brief) if it fits, otherwise by its meta if that fits
// in the quota, otherwise not at all.
func (t *excerpt) fit(s thread.Step, said *rendition, pinned bool) {
	form, part, size := said.form, said.full, said.fullSize
	if !t.fits(said, pinned) {
		form, part, size = thread.FormMeta, said.meta, said.metaSize
		if t.spent+size > t.draft.Quota*bytesPerToken {
			t.use(s, thread.FormOmitted)
			t.omitted = s.Hash
			return
		}
	}
	t.exports.add(said.references)
	t.spent += size
	t.given++
	t.steps = append(t.steps, part)
	t.use(s, form)
}
