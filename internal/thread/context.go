package thread

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/plait-run/plait/internal/dag"
	"github.com/plait-run/plait/internal/store"
)

// bytesPerToken is the estimate that quotas use: close for English and code,
// generous for other scripts.
const bytesPerToken = 4

// A Prompt is what an agent is told, apart from the conversation.
type Prompt struct {
	Contract     string         // what has to be handed back, and how
	Role         string         // who the agent is
	Task         string         // the thread's prompt
	TaskNode     dag.Hash       // the content that has it, or zero
	Instructions []Instructions // what people tell every agent
	Desk         string         // where the agent finds and leaves files
	Inputs       string         // what the agent is given beside it
	Parent       string         // what called this thread, or ""
	Notes        []string       // what people added
	Route        string         // what is to be done now

	Quota int      // tokens for the conversation
	Steps int      // how many steps the thread has
	Pin   []string // roles that are always given whole
	// Without are roles whose steps are not told at all: those who planned what the agent
	// is to do.
	Without []string
	Full    bool // look past compact marks
	// Told is a step of which Route has more than its text, or zero: it is not told again.
	Told dag.Hash
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
	// Questions are what was asked at the gates at which steps were made, by the step before.
	Questions map[dag.Hash]string
}

// An Assembled prompt is its text, and what it was put together from.
type Assembled struct {
	Text     string
	Uses     []ContextUse   // in which form earlier steps went in, oldest first
	Lend     Lending        // what Text says can be read
	Contents []store.Object // that the prompt is made of and no step has
	pieces   []piece        // in order, together Text
}

// A piece of a prompt: a text, or the beginning of a content's text.
type piece struct {
	text    string
	content dag.Hash // zero: none has it
	named   bool     // the prompt names the content, however short it is
	head    bool     // by which what follows is found in the next prompt
}

// Assemble puts the prompt for a step after head together. From newest to oldest a step is
// given whole up to 75 % of the quota, by its meta up to 100 %, and then left
// out with a line that says so. Everything but the conversation, and pinned
// roles, is whole. Agent text is fenced by its step's hash, which no step can
// contain, and labelled.
func (r *Reader) Assemble(ctx context.Context, head dag.Hash, p Prompt) (*Assembled, error) {
	t, err := r.conversation(ctx, head, p)
	if err != nil {
		return nil, fmt.Errorf("assemble prompt: %w", err)
	}
	talk := t.pieces()
	a := &Assembled{Uses: t.uses, Lend: t.lend}
	begin := func(title string) {
		if len(a.pieces) > 0 {
			a.add("\n")
		}
		if title != "" {
			a.pieces = append(a.pieces, piece{text: "# " + title + "\n\n", head: true})
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
	if p.Since.IsZero() && len(p.Instructions) > 0 {
		begin("Project instructions (AGENTS.md)")
		if err := a.instruct(p.Instructions); err != nil {
			return nil, fmt.Errorf("assemble prompt: %w", err)
		}
	}
	if task := strings.TrimRight(p.Task, "\n"); task != "" && p.Since.IsZero() && !(p.Talk && p.Task == p.Route) {
		begin("The task")
		a.pieces = append(a.pieces, piece{text: task, content: p.TaskNode})
		a.add("\n")
	}
	if p.Since.IsZero() || p.Other {
		section("Inputs", p.Inputs)
		section("Files", p.Desk)
	}
	if p.Since.IsZero() {
		section("Parent context", p.Parent)
	}
	if len(talk) > 0 {
		begin("What happened so far")
		a.pieces = append(slices.Grow(a.pieces, len(talk)+maxAfter), talk...)
	}
	if notes := strings.TrimRight(strings.Join(p.Notes, "\n\n"), "\n"); notes != "" {
		begin("Notes")
		for part := range strings.SplitAfterSeq(notes, "\n\n") { // one more adds only itself
			a.add(part)
		}
		a.add("\n")
	}
	title := "Now"
	if p.Talk && len(a.pieces) == 0 {
		title = ""
	}
	section(title, p.Route)
	var b strings.Builder
	b.Grow(length(a.pieces))
	for _, p := range a.pieces {
		b.WriteString(p.text)
	}
	a.Text = b.String()
	return a, nil
}

// maxAfter is about how many pieces follow the conversation.
const maxAfter = 16

func (a *Assembled) add(text string) { a.pieces = append(a.pieces, piece{text: text}) }

// An excerpt collects what a prompt tells of a conversation, from its newest step to its oldest.
type excerpt struct {
	prompt Prompt
	steps  [][]piece
	uses   []ContextUse
	lend   Lending
	broken bool // a step after the last use was skipped

	repeated bool     // every step so far is an input that Route says again
	total    int      // steps there are to tell
	seen     int      // of those, the ones reached
	given    int      // of those, the ones told in full or by their meta
	spent    int      // bytes of the steps given
	summed   bool     // a summary was told: of the steps before, only pinned ones are
	omitted  dag.Hash // the newest step left out because the quota is used up, or zero
}

// use records the form in which a step goes in.
func (t *excerpt) use(s Step, form string) {
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
func (r *Reader) conversation(ctx context.Context, head dag.Hash, p Prompt) (*excerpt, error) {
	t := &excerpt{prompt: p, total: p.Steps, repeated: p.Talk}
	for s, err := range r.recall(ctx, head) {
		if err != nil {
			return nil, err
		}
		if s.Hash == p.Since {
			t.use(s.Step, FormSession)
			t.total = t.seen
			break
		}
		if t.skips(s.Step) {
			continue
		}
		more, err := r.tell(ctx, t, s)
		if err != nil {
			return nil, err
		}
		if !more {
			break
		}
	}
	if !t.omitted.IsZero() {
		n, them := t.total-t.given, "them"
		if n > MaxLent {
			them = fmt.Sprintf("the newest %d of them", MaxLent)
		}
		line := fmt.Sprintf("%d earlier steps are left out here; %s lists %s, with what they left, and %s "+
			"prints one.\n", n, walkCommand(t.omitted), them, getCommand)
		t.steps = append(t.steps, []piece{{text: line}})
	}
	slices.Reverse(t.uses)
	return t, nil
}

// pieces returns what is told, the oldest step first.
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

// skips reports whether a step is not told at all: its role is one of Without, or it is
// one of the newest inputs, which Route says.
func (t *excerpt) skips(s Step) bool {
	if slices.Contains(t.prompt.Without, s.State.Role) {
		t.broken = true
		t.total--
		return true
	}
	if s.Hash == t.prompt.Told {
		t.total--
		t.use(s, FormFull)
		return true
	}
	t.repeated = t.repeated && s.State.Role == RoleInput
	if t.repeated {
		t.total--
		t.use(s, FormFull)
	}
	return t.repeated
}

// tell adds a step to t in the form that is left for it, and reports whether an earlier
// one can still be told.
func (r *Reader) tell(ctx context.Context, t *excerpt, s *told) (more bool, err error) {
	t.seen++
	pinned := slices.Contains(t.prompt.Pin, s.State.Role)
	summary := !s.State.Compact.IsZero()
	switch {
	case (t.summed || !t.omitted.IsZero()) && !pinned:
		t.broken = true
		return len(t.prompt.Pin) > 0, nil
	case summary && t.prompt.Full:
		t.broken = true
		t.total-- // what it stands for is told itself
		return true, nil
	case summary:
		text, err := r.Text(ctx, s.State.Compact)
		if err != nil {
			return false, err
		}
		t.steps = append(t.steps, fence(s.Step, "summary of everything before", text, s.State.Compact))
		t.use(s.Step, FormSummary)
		t.summed = true
		return true, nil
	}
	said, err := r.rendered(ctx, t, s)
	if err != nil {
		return false, err
	}
	t.fit(s.Step, said, pinned)
	return true, nil
}

// A rendition is what can be told of a step.
type rendition struct {
	full, meta         []piece
	fullSize, metaSize int // bytes
	beside             aside
}

// rendered returns what can be told of a step, and remembers it where that is always the same: every
// prompt asks again.
func (r *Reader) rendered(ctx context.Context, t *excerpt, s *told) (*rendition, error) {
	question := ""
	if len(s.State.Ancestors) > 0 && len(t.prompt.Questions) > 0 {
		question = t.prompt.Questions[s.State.Ancestors[0]]
	}
	same := !t.prompt.Talk && question == ""
	if same && s.said == nil {
		s.said = r.remembered(s.Hash)
	}
	if same && s.said != nil {
		return s.said, nil
	}
	text, err := r.Text(ctx, s.State.Content)
	if err != nil {
		return nil, err
	}
	meta := ""
	if !t.prompt.Talk { // what a conversation waits for is always the same
		meta = untold(s.Step, text)
	}
	beside, err := r.aside(ctx, t.lend, s.Step)
	if err != nil {
		return nil, err
	}
	why, err := r.failures(ctx, s.Step)
	if err != nil {
		return nil, err
	}
	beside.text = why + beside.text
	said := render(s.Step, text, meta, question, beside)
	if same && beside.text == "" { // what is beside depends on what is told beside others
		s.said = said
		r.remember(s.Hash, said)
	}
	return said, nil
}

func render(s Step, text, meta, question string, beside aside) *rendition {
	name, before := s.Hash.Short(), ""
	full := fence(s, "", text, s.State.Content)
	if strings.TrimSpace(text) == "" {
		full = []piece{{text: "--- step " + name + " (" + s.State.Role + ") has no text ---\n"}}
	}
	if question != "" {
		before = name + " answers the question " + strconv.Quote(question) + "\n"
	}
	if meta != "" {
		before += "meta of " + name + ": " + meta + "\n"
	}
	said := &rendition{full: joined(withText(full, before+beside.text)), beside: beside}
	said.meta = joined(withText(fence(s, "meta only", string(s.State.Meta), dag.Hash{}), beside.text))
	said.fullSize, said.metaSize = length(said.full), length(said.meta)
	return said
}

// joined joins pieces that are always texts: the fewer, the faster a prompt is put together.
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

// failures says why the paths of a join failed: its content has no more than the kinds.
func (r *Reader) failures(ctx context.Context, s Step) (string, error) {
	if s.State.Paths == nil {
		return "", nil
	}
	d, err := r.Detail(ctx, s.State.Detail)
	if err != nil || d == nil {
		return "", err
	}
	var b strings.Builder
	for _, f := range d.Failures {
		fmt.Fprintf(&b, "Why %s failed (%s): %q\n", f.Path, f.Kind, strings.TrimSpace(f.Message))
	}
	return b.String(), nil
}

// fit adds a step whole if three quarters of the quota hold it, or it is pinned; else by
// its meta if the quota holds that; else it leaves the step out.
func (t *excerpt) fit(s Step, said *rendition, pinned bool) {
	quota := t.prompt.Quota * bytesPerToken
	form, part, size := FormFull, said.full, said.fullSize
	if !pinned && t.spent+size > quota*3/4 {
		form, part, size = FormMeta, said.meta, said.metaSize
		if t.spent+size > quota {
			t.use(s, FormOmitted)
			t.omitted = s.Hash
			return
		}
	}
	t.lend.add(said.beside)
	t.spent += size
	t.given++
	t.steps = append(t.steps, part)
	t.use(s, form)
}

// withText adds a text to pieces, if there is any.
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

// fenceHead begins what is told of a step.
const fenceHead = "--- step "

// fence wraps what a role said, as the content has it. The fence carries the step's own hash: a
// text cannot contain the hash of the step it is part of, so it cannot end it.
func fence(s Step, form, text string, content dag.Hash) []piece {
	name := s.Hash.Short()
	label := s.State.Role
	if form != "" {
		label += ", " + form
	}
	return []piece{
		{text: fenceHead + name + " (" + label + ") ---\n", head: true},
		{text: strings.TrimRight(text, "\n"), content: content},
		{text: "\n--- end " + name + " ---\n"},
	}
}
