package view

import "github.com/plait-run/plait/internal/store"

// What a person can do about what waits for one.
const (
	Approve = "approve" // the gate
	Deny    = "deny"    // the gate
	Reply   = "answer"  // the gate, with a text
	Resume  = "resume"  // the thread
)

// What an option takes besides its id.
const (
	NeedsText  = "text"  // the answer, or the prompt
	NeedsLimit = "limit" // a limit and its new value
)

// An Option is one thing that a person can do to let a task go on. How it is done is
// up to the face that shows it: a command line, a button.
type Option struct {
	Verb  string // Approve, Deny, Reply or Resume
	ID    string // of the gate, or of the thread
	Needs string // NeedsText, NeedsLimit, or ""
}

// AnswersOf lists how a gate can be answered while it is open, what lets the task go on
// first.
func AnswersOf(g store.Gate) []Option {
	if g.Kind == store.GateInput {
		return []Option{{Reply, g.ID, NeedsText}}
	}
	return []Option{{Approve, g.ID, ""}, {Deny, g.ID, ""}}
}

// ResumeOf is how a person lets the thread id go on that is blocked for a reason of this
// kind, or that nobody drives ("").
func ResumeOf(id string, kind store.ReasonKind) Option {
	switch kind {
	case store.ReasonInput:
		return Option{Resume, id, NeedsText}
	case store.ReasonLimit:
		return Option{Resume, id, NeedsLimit}
	}
	return Option{Resume, id, ""}
}

// next is how a task goes on that nobody drives or that waits for more than a gate, nil
// when that is not for a person to do.
func (r TaskRecord) next() *Option {
	id := r.Root.ID
	switch {
	case r.status(r.Root) == Interrupted || r.Root.Status == store.Pending && !r.Driven:
		o := ResumeOf(id, "")
		return &o
	case r.Root.Status != store.Blocked || r.Driven:
		return nil
	}
	for _, t := range r.Threads {
		if t.Status == store.Blocked && t.Reason != nil && t.Reason.Kind == store.ReasonInput {
			o := ResumeOf(t.ID, store.ReasonInput)
			return &o
		}
	}
	var kind store.ReasonKind
	if r.Root.Reason != nil {
		kind = r.Root.Reason.Kind
	}
	o := ResumeOf(id, kind)
	return &o
}
