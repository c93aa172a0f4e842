package flow

import (
	"slices"
)

// Kinds of gates.
const (
	GateApproval = "approval" // a person approves or rejects
	GateInput    = "input"    // a person answers in words
)

// Statuses of a gate's step that its node routes, in addition to [GateSpec.OnTimeout].
const (
	Approved = "approved"
	Rejected = "rejected"
	Answered = "answered"
)

// A GateSpec is a node at which a thread waits for a person.
type GateSpec struct {
	Kind     string `json:"kind"`     // GateApproval or GateInput
	Question string `json:"question"` // Liquid
	// Options are suggested answers; nil if there are none.
	Options []string `json:"options"`
	// Timeout is how long the gate waits; 0 means forever.
	Timeout Duration `json:"timeout"`
	// OnTimeout is the status of the gate's step if there is no answer in time. The default is
	// Rejected for an approval, and "" for an input without a timeout.
	OnTimeout string `json:"onTimeout"`
}

// Statuses returns the statuses that a step of the gate can have, without duplicates, OnTimeout
// last.
func (g GateSpec) Statuses() []string {
	list := []string{Approved, Rejected}
	if g.Kind == GateInput {
		list = []string{Answered}
	}
	if g.OnTimeout != "" && !slices.Contains(list, g.OnTimeout) {
		list = append(list, g.OnTimeout)
	}
	return list
}
