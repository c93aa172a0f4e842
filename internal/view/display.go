package view

import (
	"cmp"

	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/sys/text"
)

// A DisplayState is the state of a task, or of a part of one, as people see it.
type DisplayState string

// The display states, the same everywhere.
const (
	DisplayQueued    DisplayState = "queued"
	DisplayRunning   DisplayState = "running"
	DisplayNeedsYou  DisplayState = "needs you"
	DisplayDone      DisplayState = "done"
	DisplayFailed    DisplayState = "failed"
	DisplayCancelled DisplayState = "cancelled"
)

// A Display is the state of a task or of a part of one, in one word and one reason.
type Display struct {
	State  DisplayState `json:"state" yaml:"state"`
	Reason string       `json:"reason" yaml:"reason"` // one line, "" if the state says it all
}

// NewDisplay returns how to show something with a status, which may be [Interrupted]. question is
// an open question or approval at or below it, nil for none.
func NewDisplay(status store.Status, why *Reason, question *Gate) Display {
	d := Display{State: displayStates[status]}
	if why != nil {
		d.Reason = text.OneLine(why.Message, maxDisplayReason)
	}
	switch {
	case status == Interrupted:
		d = Display{DisplayNeedsYou, "interrupted: resume it"}
	case question != nil && (status == store.Running || status == store.Blocked || status == store.Pending):
		d = Display{DisplayNeedsYou, text.OneLine(cmp.Or(question.Headline, Question(question.Question)), maxDisplayReason)}
	case status == store.Blocked && why != nil && needsPerson[why.Kind]:
		d.State = DisplayNeedsYou
	}
	return d
}

// maxDisplayReason limits a reason, in characters.
const maxDisplayReason = 200

var displayStates = map[store.Status]DisplayState{
	store.Pending: DisplayQueued, store.Running: DisplayRunning, store.Blocked: DisplayFailed,
	store.Completed: DisplayDone, store.Failed: DisplayFailed, store.Cancelled: DisplayCancelled,
}

// needsPerson holds the reasons that only a person can resolve.
var needsPerson = map[store.ReasonKind]bool{store.ReasonGate: true, store.ReasonInput: true, store.ReasonConflict: true}

// A Reason says why a thread is blocked, failed or cancelled.
type Reason struct {
	Kind    store.ReasonKind `json:"kind" yaml:"kind"`
	Message string           `json:"message" yaml:"message"`
}

func reason(t store.Thread) *Reason {
	if t.Reason == nil {
		return nil
	}
	return &Reason{t.Reason.Kind, thread.Plainly(t.Reason.Message)}
}
