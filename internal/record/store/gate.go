package store

import (
	"encoding/json"

	"github.com/plait-run/plait/internal/record/dag"
)

// A GateKind says what a gate asks for.
type GateKind string

// The kinds of gates.
const (
	GateInput    GateKind = "input"    // a question, answered with text
	GateApproval GateKind = "approval" // an action, approved or rejected
)

// A GateState is what has become of a gate.
type GateState string

// The states of gates. All but GateOpen are final.
const (
	GateOpen      GateState = "open"
	GateApproved  GateState = "approved"
	GateRejected  GateState = "rejected"
	GateAnswered  GateState = "answered"
	GateExpired   GateState = "expired" // counts as a no
	GateWithdrawn GateState = "withdrawn"
)

// Refused reports whether the answer was no, or none came in time.
func (s GateState) Refused() bool { return s == GateRejected || s == GateExpired }

// A GateSource says who asks.
type GateSource string

// The sources of gates.
const (
	SourceFlow        GateSource = "flow"
	SourceWorker      GateSource = "worker"
	SourceAgent       GateSource = "agent"
	SourceMerge       GateSource = "merge"
	SourceLimit       GateSource = "limit"
	SourceInterrupted GateSource = "interrupted" // an attempt that was cut off and may have acted
)

// A Grant says how long an approval holds.
type Grant string

// The grants.
const (
	GrantOnce    Grant = "once"
	GrantSession Grant = "session" // again and again, for the same action in the same thread
)

// A Via says how an answer or a request came in.
type Via string

// The values of Via.
const (
	ViaCLI     Via = "cli"
	ViaWeb     Via = "web"
	ViaAPI     Via = "api"
	ViaNotes   Via = "notes"
	ViaTimeout Via = "timeout" // no answer in time
	ViaPolicy  Via = "policy"  // by a policy that the task was started with
	ViaResume  Via = "resume"  // with the command to resume
	ViaMCP     Via = "mcp"     // through an MCP client
	ViaReplay  Via = "replay"  // as it was answered in the recording
)

// A Gate is a place where a person must answer or approve.
type Gate struct {
	ID         string          `json:"id"`
	Kind       GateKind        `json:"kind"`
	State      GateState       `json:"state"`
	Source     GateSource      `json:"source"`
	Task       string          `json:"task"`
	Thread     string          `json:"thread"`
	Node       string          `json:"node"`
	Instance   string          `json:"instance"`
	Attempt    string          `json:"attempt"`
	From       dag.Hash        `json:"from"`
	Question   string          `json:"question"`
	Options    []string        `json:"options"`
	Action     json.RawMessage `json:"action"`
	Digest     dag.Hash        `json:"digest"`
	Grant      Grant           `json:"grant"`
	OpenedAt   int64           `json:"openedAt"`
	ExpiresAt  int64           `json:"expiresAt"`
	OnTimeout  string          `json:"onTimeout"` // a status that the flow routes
	AnsweredAt int64           `json:"answeredAt"`
	By         string          `json:"by"`
	Via        Via             `json:"via"`
	Text       string          `json:"text"`
	UsedAt     int64           `json:"usedAt"`
	Diff       dag.Hash        `json:"diff"` // blob, kept as long as the gate
	Ref        string          `json:"instructionsRef"`

	// Edited is the action that was approved instead of Action; nil means Action itself. EditedDigest binds the
	// approval to it, as Digest binds the question to Action.
	Edited       json.RawMessage `json:"edited"`
	EditedDigest dag.Hash        `json:"editedDigest"`

	// Signature is what the person who answered signed, with their signature of it: a history.Signed. It is empty if
	// the answer is not signed.
	Signature string `json:"signature,omitempty"`
}
