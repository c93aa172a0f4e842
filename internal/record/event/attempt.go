package event

import (
	"encoding/json"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
)

// AttemptStarted reports that an attempt at a step begins.
type AttemptStarted struct {
	Role  string   `json:"role"`
	Agent string   `json:"agent"`
	From  dag.Hash `json:"from"`
	Try   int      `json:"try"`
}

func (AttemptStarted) event() string { return "attempt.started" }

// AttemptCompleted reports which step an attempt became.
type AttemptCompleted struct {
	Role   string      `json:"role"`
	Step   dag.Hash    `json:"step"`
	N      int         `json:"n"`
	Status string      `json:"status"`
	Usage  store.Usage `json:"usage"`
	// Version is that of the agent's program, "" if not known. Releases before this one did not say.
	Version string `json:"version,omitempty"`
}

func (AttemptCompleted) event() string { return "attempt.completed" }

// AttemptFailed reports why an attempt did not become a step.
type AttemptFailed struct {
	Interrupted bool              `json:"-"`
	Role        string            `json:"role"`
	Kind        store.FailureKind `json:"kind"`
	Message     Text              `json:"message"`
	// Heard lists requests that were passed to the agent while it worked, if its session will be
	// resumed: no step records them yet.
	Heard []string `json:"heard,omitempty"`
}

func (p AttemptFailed) event() string {
	if p.Interrupted {
		return "attempt.interrupted"
	}
	return "attempt.failed"
}

// AttemptSuperseded reports that someone else made the step that an attempt was at.
type AttemptSuperseded struct {
	Role  string      `json:"role"`
	Usage store.Usage `json:"usage"`
}

func (AttemptSuperseded) event() string { return "attempt.superseded" }

// AgentStarted reports that an instance begins its work.
type AgentStarted struct {
	Role  string `json:"role"`
	Agent string `json:"agent"`
}

func (AgentStarted) event() string { return "agent.started" }

// AgentEnded reports how an instance's work ended: with an output (completed), with a question or
// waiting for a person (blocked), with an error (failed), or because it is no longer needed
// (cancelled). A called flow also counts as an instance.
type AgentEnded struct {
	State   store.Status     `json:"-"` // completed, failed, blocked or cancelled
	Role    string           `json:"role"`
	Status  string           `json:"status,omitempty"` // of its step
	Kind    store.ReasonKind `json:"kind,omitempty"`   // if there is no step: why
	Message Text             `json:"message,omitempty"`
	Child   string           `json:"child,omitempty"`
	Step    dag.Hash         `json:"step,omitzero"`
	N       int              `json:"n,omitempty"`
}

func (p AgentEnded) event() string { return "agent." + string(p.State) }

// AgentItems reports what an agent did. Each item is an agent.Event.
type AgentItems struct {
	Role  string            `json:"role"`
	Items []json.RawMessage `json:"items"`
}

func (AgentItems) event() string { return "agent.item" }

// ArtifactWritten reports which files an agent left, and why others were not kept.
type ArtifactWritten struct {
	Names   []string `json:"names"`
	Skipped []string `json:"skipped"`
}

func (ArtifactWritten) event() string { return "artifact.written" }

// EvidenceAdded reports a new entry of evidence.
type EvidenceAdded struct {
	ID    string   `json:"id"` // full
	Kind  string   `json:"kind"`
	Title string   `json:"title"`
	Hash  dag.Hash `json:"hash"` // of the node
}

func (EvidenceAdded) event() string { return "evidence.added" }
