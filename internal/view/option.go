package view

import "github.com/plait-run/plait/internal/record/store"

// What a person can do about something that waits for a person.
const (
	Approve = "approve" // the gate
	Deny    = "deny"    // the gate
	Reply   = "answer"  // the gate, with a text
	Resume  = "resume"  // the thread
)

// What an option needs besides an id.
const (
	NeedsText  = "text"  // the answer, or the prompt
	NeedsLimit = "limit" // a limit and its new value
)

// An Option is one thing that a person can do to let a task continue. How to do it depends on
// what shows it: a command line, a button.
type Option struct {
	Verb  string // Approve, Deny, Reply or Resume
	ID    string // of the gate, or of the thread
	Name  string // what users type for the thread; "" means ID
	Needs string // NeedsText, NeedsLimit, or ""
	Value string // with NeedsLimit, a sensible value, as NAME=VALUE
}

// AnswersOf lists how an open gate can be answered. The first one lets the task continue.
func AnswersOf(g store.Gate) []Option {
	if g.Kind == store.GateInput {
		return []Option{{Verb: Reply, ID: g.ID, Needs: NeedsText}}
	}
	return []Option{{Verb: Approve, ID: g.ID}, {Verb: Deny, ID: g.ID}}
}

// ResumeOf returns how to resume a thread that is blocked for the reason why; nil means that
// it is not being driven.
func ResumeOf(id string, why *store.Reason) Option {
	switch {
	case why == nil:
	case why.Kind == store.ReasonInput:
		return Option{Verb: Resume, ID: id, Needs: NeedsText}
	case why.Kind == store.ReasonLimit && why.Raise != "":
		return Option{Verb: Resume, ID: id, Needs: NeedsLimit, Value: why.Raise}
	}
	return Option{Verb: Resume, ID: id}
}

// next returns how a person can let a task continue that is not being driven, or that needs
// more than an answer, or nil if a person cannot.
func (r TaskRecord) next() *Option {
	switch {
	case OnTeam(r.Root) && r.Root.Status != store.Blocked: // its workers continue it
		return nil
	case r.status(r.Root) == Interrupted || r.Root.Status == store.Pending && !r.Driven:
		o := r.resume(r.Root, nil)
		return &o
	case r.Root.Status != store.Blocked || r.Driven:
		return nil
	}
	for _, t := range r.Threads {
		if t.Status == store.Blocked && t.Reason != nil && t.Reason.Kind == store.ReasonInput {
			o := r.resume(t, t.Reason)
			return &o
		}
	}
	o := r.resume(r.Root, r.Root.Reason)
	return &o
}

// resume returns how to resume a thread of the task, by the name that users type.
func (r TaskRecord) resume(t store.Thread, why *store.Reason) Option {
	o := ResumeOf(t.ID, why)
	switch {
	case r.Root.Short == "":
	case t.ID == r.Root.ID:
		o.Name = r.Root.Short
	default:
		o.Name = r.Root.Short + "/" + partNames(r.Threads)[t.ID]
	}
	return o
}
