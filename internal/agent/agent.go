// Package agent says what an agent is: something that does one attempt at one
// step and tells what it does meanwhile.
//
// In goes a Request: a prompt, a place to work, limits. Out come events, in
// order, and one Result or one Failure. Laws:
//
//   - Raw before parsed: an agent writes each byte it receives to the desk's
//     logs before it looks at it.
//   - When Run returns, no process that the agent started is left.
//   - A failure of the work is a *Failure. Any other error means that the engine
//     itself could not go on.
//   - Nothing of PLAIT_HOME and no credential reaches an agent's environment.
//
// An agent knows nothing of threads, flows or stores, and never decides what
// comes next. Further powers are further interfaces, found by type assertion.
package agent

import (
	"context"
	"encoding/json"
	"io"
	"time"
)

// An Agent does one attempt.
type Agent interface {
	// Run works on req until it is done, ctx ends, or it fails. It calls emit
	// for each event, in order, from one goroutine at a time; an error from
	// emit stops the agent and is returned. When Run returns, no process that
	// it started is left.
	Run(ctx context.Context, req Request, emit func(Event) error) (Result, error)
}

// A Continuer can go on in a session it had before: Request.Session is its id.
// An agent without this power gets the whole prompt each time.
type Continuer interface {
	Agent
	// Continues tells whether the session can be gone on with in this request.
	Continues(req Request) bool
}

// Access is what a role may do to its working tree.
type Access string

// The accesses, from least to most.
const (
	Read  Access = "read"
	Write Access = "write"
	Full  Access = "full"
)

// A Request is one attempt to be made.
type Request struct {
	Task     string
	Thread   string
	Role     string
	Instance string
	Attempt  string
	Visit    int // how many times the role ran before in this thread, this visit not counted
	Try      int // 1 for the first attempt at the step

	Prompt  string
	Dir     string // working directory, absolute
	Access  Access
	Schema  json.RawMessage // JSON Schema of the meta to be handed back, or nil
	Session string          // vendor session to go on in, or ""

	Desk    Desk
	Tag     string        // marks every process of the attempt, see proc
	Timeout time.Duration // wall time, zero: none
	Idle    time.Duration // time without output, zero: none
	Env     []string      // PLAIT_… variables, as KEY=value
	Started func(Process) // called once the process runs; may be nil
}

// A Desk is where an instance's logs and artifacts lie.
type Desk struct {
	Dir       string    // agents/<instance>
	Artifacts string    // the role leaves files here; emptied before the attempt
	Context   string    // what the agent may read of the record, or ""
	Raw       io.Writer // runtime/events.jsonl: what the agent said, byte for byte
	Stderr    io.Writer // runtime/stderr.log
	Requests  io.Writer // runtime/requests.jsonl: what was said to the agent, or nil
}

// A Process identifies a running process beyond the reuse of its id.
type Process struct {
	PID   int
	Start int64 // clock ticks since boot, from /proc/<pid>/stat
}

// Kinds of events.
const (
	EventMessage  = "message"     // text the agent said
	EventCommand  = "command"     // a command started, went on or ended
	EventFile     = "file_change" // a file was changed
	EventTool     = "tool_call"
	EventPlan     = "plan"
	EventUsage    = "usage"
	EventError    = "error"
	EventProgress = "progress" // a line of output of something that has no events
)

// An Event is one thing that happened during an attempt, as far as it was
// understood. What was not understood is in the raw log only.
type Event struct {
	Kind   string          `json:"kind"`
	Text   string          `json:"text,omitempty"`
	Phase  string          `json:"phase,omitempty"` // started, updated, completed, failed
	Exit   *int            `json:"exit,omitempty"`
	Usage  *Usage          `json:"usage,omitempty"`
	Detail json.RawMessage `json:"detail,omitempty"`
}

// Usage is what an attempt used up. Tokens and millionths of a US dollar.
type Usage struct {
	InputTokens       int64 `json:"inputTokens"`
	CachedInputTokens int64 `json:"cachedInputTokens"`
	OutputTokens      int64 `json:"outputTokens"`
	ReasoningTokens   int64 `json:"reasoningTokens"`
	CostMicroUSD      int64 `json:"costMicroUSD"`
}

// A Result is what a finished attempt hands back.
type Result struct {
	// Output is the agent's answer: front matter and text, one JSON object, or
	// plain text. At most MaxOutput bytes; the rest is in the raw log.
	Output    []byte
	Truncated bool // Output is only the head of what the raw log holds

	Status  string // the $status the agent's configuration gives the exit, or ""
	Exit    *int   // exit code, nil when there was no process
	Session string // vendor session, "" when the agent has none
	Model   string
	Usage   Usage
	Sandbox string // the sandbox that was really enforced: "none" or the vendor's word
	Plain   bool   // plain text is a valid answer: $status and exitCode become meta
}

// MaxOutput is the largest answer that becomes a step's text, in bytes.
const MaxOutput = 8 << 20

// Kinds of failures.
const (
	Infra         = "infra"          // the agent could not be run, or broke
	Limit         = "limit"          // a limit of ours or the vendor's was reached
	Refused       = "refused"        // the agent declined
	InvalidOutput = "invalid-output" // what it handed back does not fit
	TimedOut      = "timeout"
	Cancelled     = "cancelled"
	Interrupted   = "interrupted" // Plait died, or lost the agent
)

// A Failure says why an attempt did not become a step.
type Failure struct {
	Kind    string
	Message string
	ResetAt time.Time // when a limit ends, if known
	Final   bool      // trying again cannot help

	// What is known of the attempt all the same.
	Session string
	Exit    *int
	Usage   Usage
}

func (f *Failure) Error() string { return f.Kind + ": " + f.Message }
