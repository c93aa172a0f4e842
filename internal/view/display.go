package view

import (
	"cmp"

	"github.com/plait-run/plait/internal/store"
)

// A DisplayState is the state of a task, or of a part of one, as people are told.
type DisplayState string

// The states that people meet, on every surface.
const (
	DisplayQueued    DisplayState = "queued"
	DisplayRunning   DisplayState = "running"
	DisplayNeedsYou  DisplayState = "needs you"
	DisplayDone      DisplayState = "done"
	DisplayFailed    DisplayState = "failed"
	DisplayCancelled DisplayState = "cancelled"
)

// A Display is how a task or a part of one stands, in one word and with one reason.
type Display struct {
	State  DisplayState `json:"state" yaml:"state"`
	Reason string       `json:"reason" yaml:"reason"` // one line, "" where the word says all
}

// NewDisplay returns what people are shown of something with a status, which [Interrupted] is one of.
// question is the open question or approval at it or below it, nil for none.
func NewDisplay(status store.Status, why *Reason, question *Gate) Display {
	d := Display{State: displayStates[status]}
	if why != nil {
		d.Reason = OneLine(why.Message, maxDisplayReason)
	}
	switch {
	case status == Interrupted:
		d = Display{DisplayNeedsYou, "interrupted: resume it"}
	case question != nil && (status == store.Running || status == store.Blocked || status == store.Pending):
		d = Display{DisplayNeedsYou, OneLine(cmp.Or(question.Headline, Question(question.Question)), maxDisplayReason)}
	case status == store.Blocked && why != nil && needsPerson[why.Kind]:
		d.State = DisplayNeedsYou
	}
	return d
}

// maxDisplayReason bounds a reason, in characters.
const maxDisplayReason = 200

var displayStates = map[store.Status]DisplayState{
	store.Pending: DisplayQueued, store.Running: DisplayRunning, store.Blocked: DisplayFailed,
	store.Completed: DisplayDone, store.Failed: DisplayFailed, store.Cancelled: DisplayCancelled,
}

// needsPerson holds the reasons that only a person can resolve.
var needsPerson = map[store.ReasonKind]bool{store.ReasonGate: true, store.ReasonInput: true, store.ReasonConflict: true}
