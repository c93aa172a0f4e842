package view

import (
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/view/advice"
)

// AnswersOf lists how an open gate can be answered. The first one lets the task continue.
func AnswersOf(g store.Gate) []advice.Option {
	if g.Kind == store.GateInput {
		return []advice.Option{{Verb: advice.Answer, ID: g.ID, Needs: advice.NeedsText}}
	}
	return []advice.Option{{Verb: advice.Approve, ID: g.ID}, {Verb: advice.Deny, ID: g.ID}}
}

// ResumeOf returns how to resume a thread that is blocked for the reason why; nil means that
// it is not being driven.
func ResumeOf(id string, why *store.Reason) advice.Option {
	switch {
	case why == nil:
	case why.Kind == store.ReasonInput:
		return advice.Option{Verb: advice.Resume, ID: id, Needs: advice.NeedsText}
	case why.Kind == store.ReasonLimit && why.Raise != "":
		return advice.Option{Verb: advice.Resume, ID: id, Needs: advice.NeedsLimit, Value: why.Raise}
	}
	return advice.Option{Verb: advice.Resume, ID: id}
}

// next returns how a person can let a task continue that is not being driven, or that needs
// more than an answer, or nil if a person cannot.
func (r TaskRecord) next() *advice.Option {
	switch {
	case r.Root.Intent == store.IntentDismiss:
		return nil
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
func (r TaskRecord) resume(t store.Thread, why *store.Reason) advice.Option {
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
