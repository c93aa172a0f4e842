package store

import (
	"encoding/json"
	"strings"

	"github.com/plait-run/plait/internal/record/dag"
)

// A ThreadKind says why a thread exists.
type ThreadKind string

// The kinds of threads.
const (
	KindRoot   ThreadKind = "root"
	KindPath   ThreadKind = "path"
	KindCall   ThreadKind = "call"
	KindWorker ThreadKind = "worker"
)

// A Status is how far a thread has come.
type Status string

// The statuses of threads, as stored. Interrupted is not among them: it is running
// without an owner, which only the lease can show.
const (
	Pending   Status = "pending"
	Running   Status = "running"
	Blocked   Status = "blocked"
	Completed Status = "completed"
	Failed    Status = "failed"
	Cancelled Status = "cancelled"
)

// An Intent is what the owner of a thread is asked to do with it; empty asks nothing.
type Intent string

// IntentCancel asks the owner to cancel the thread.
const IntentCancel Intent = "cancel"

// IntentDismiss asks nothing: it says that nobody need be told any more that the thread has stopped. It ends when the
// thread goes on.
const IntentDismiss Intent = "dismiss"

// IntentOptions asks the owner to go on with the options that the row has. Other options are another intent: whoever
// changes the row without having seen them conflicts.
func IntentOptions(options json.RawMessage) Intent {
	return optionsPrefix + Intent(dag.Sum(options).Short())
}

const optionsPrefix = "options "

// Options reports whether i is an IntentOptions.
func (i Intent) Options() bool { return strings.HasPrefix(string(i), optionsPrefix) }

// A Thread is the row of one thread: a name for a moving head.
// Times are Unix milliseconds; zero means not yet.
type Thread struct {
	ID         string          `json:"id"`
	Short      string          `json:"short"` // of a root: what users type; unique if not empty
	Task       string          `json:"task"`
	Root       string          `json:"root"`
	Kind       ThreadKind      `json:"kind"`
	Bundle     dag.Hash        `json:"bundle"`
	Flow       string          `json:"flow"`
	Start      dag.Hash        `json:"start"`
	Head       dag.Hash        `json:"head"`
	Status     Status          `json:"status"`
	Reason     *Reason         `json:"reason"`
	Intent     Intent          `json:"wanted"`
	Parent     *Parent         `json:"parent"`
	Path       *Path           `json:"path"`
	ForkedFrom *ForkedFrom     `json:"forkedFrom"`
	InFlight   string          `json:"inFlight"` // attempt id
	Decision   json.RawMessage `json:"decision"`
	Tree       string          `json:"tree"`      // working tree
	Workspace  string          `json:"workspace"` // directory the task belongs to
	Files      dag.Hash        `json:"files"`     // tree node: files the task began with, where no step records them
	Host       string          `json:"host"`      // where the working tree was last; a hint that may be out of date
	Options    json.RawMessage `json:"options"`   // what the task was started with; owned by control
	Steps      int             `json:"steps"`
	CreatedAt  int64           `json:"createdAt"`
	UpdatedAt  int64           `json:"updatedAt"`
	EndedAt    int64           `json:"endedAt"`
}

// Ended reports whether t can never move again.
func (t Thread) Ended() bool {
	return t.Status == Completed || t.Status == Failed || t.Status == Cancelled
}

// A Parent says whose path or child a thread is, and from which head.
type Parent struct {
	Thread string   `json:"thread"`
	From   dag.Hash `json:"from"`
}

// A Path places a thread inside a fork.
type Path struct {
	Key  string   `json:"key"`
	ID   string   `json:"id"`
	Fork dag.Hash `json:"fork"`
	Join string   `json:"join"`
	N    int      `json:"n"`
}

// A ForkedFrom says where a manual fork came from.
type ForkedFrom struct {
	Thread string   `json:"thread"`
	Step   dag.Hash `json:"step"`
}

// An AttemptStatus is how far an attempt has come.
type AttemptStatus string

// The statuses of attempts. All but running are final.
const (
	AttemptRunning     AttemptStatus = "running"
	AttemptDone        AttemptStatus = "done"
	AttemptFailed      AttemptStatus = "failed"
	AttemptInterrupted AttemptStatus = "interrupted"
	AttemptCancelled   AttemptStatus = "cancelled"
	AttemptSuperseded  AttemptStatus = "superseded"
)

// An Attempt is one try at one step.
type Attempt struct {
	ID         string        `json:"id"` // <thread>.<n>
	Thread     string        `json:"thread"`
	From       dag.Hash      `json:"from"` // head it starts at: the step's key
	Role       string        `json:"role"`
	N          int           `json:"n"`
	Agent      string        `json:"agent"`
	Instance   string        `json:"instance"`
	Prompt     dag.Hash      `json:"prompt"`
	Status     AttemptStatus `json:"status"`
	Failure    *Failure      `json:"failure"`
	Session    string        `json:"session"`
	Turn       string        `json:"turn"` // of the session, when known
	PID        int           `json:"pid"`
	PIDStart   int64         `json:"pidStart"` // clock ticks since boot, from /proc
	Host       string        `json:"host"`     // the host of the process
	Boot       string        `json:"boot"`     // which boot of that host
	Tag        string        `json:"tag"`
	StartedAt  int64         `json:"startedAt"`
	EndedAt    int64         `json:"endedAt"`
	Waited     int64         `json:"waited"` // ms of that time spent waiting for people
	Usage      Usage         `json:"usage"`
	Transcript dag.Hash      `json:"transcript"`
	Stderr     dag.Hash      `json:"stderr"`
	Pins       []dag.Hash    `json:"pins"`
	Calls      dag.Hash      `json:"calls"` // calls node: its recorded traffic with a model
}

// A Use is what one attempt used up.
type Use struct {
	Thread    string
	Attempt   string
	Status    AttemptStatus
	StartedAt int64 // Unix ms
	EndedAt   int64 // Unix ms; zero while it runs
	Waited    int64 // ms of that time spent waiting for people
	Usage     Usage
	Void      bool // it counts for nothing, see Failure.Void
}

// Use returns what a used up.
func (a Attempt) Use() Use {
	return Use{Thread: a.Thread, Attempt: a.ID, Status: a.Status, StartedAt: a.StartedAt, EndedAt: a.EndedAt,
		Waited: a.Waited, Usage: a.Usage,
		Void: a.Status == AttemptFailed && a.Failure != nil && a.Failure.Void}
}

// TaskRows is what a driver needs to know about a task.
type TaskRows struct {
	Threads  []Thread         // in id order
	Running  []Attempt        // by thread, then number
	Gates    []Gate           // open ones, in id order
	Requests []Request        // open ones, in id order
	Counts   map[string]int64 // by name; missing means zero
	Position int64            // of the last event that the rows reflect
}

// A Root is a hash that a row names.
type Root struct {
	Hash dag.Hash
	Row  string // "thread", "attempt", "gate", "flow"
	ID   string
	// Maybe says that the row holds a string spelled like a hash, which may name an
	// object or none.
	Maybe bool
}

// A FailureKind says what kept an attempt from becoming a step.
type FailureKind string

// The kinds of failures: those of package agent, as stored.
const (
	FailureInfra         FailureKind = "infra"
	FailureLimit         FailureKind = "limit"
	FailureRefused       FailureKind = "refused"
	FailureInvalidOutput FailureKind = "invalid-output"
	FailureTimeout       FailureKind = "timeout"
	FailureCancelled     FailureKind = "cancelled"
	FailureInterrupted   FailureKind = "interrupted"
)

// The kinds of failures that only paths have, never attempts.
const (
	FailureSaid  FailureKind = "failed" // its agent says so, or its end has a nonzero code
	FailureRoute FailureKind = "route"  // its flow does not say how to continue
)

// A Failure says why an attempt did not become a step.
type Failure struct {
	Kind    FailureKind `json:"kind"`
	Message string      `json:"message"`
	ResetAt int64       `json:"resetAt"` // Unix ms; zero if unknown
	// Void means that the attempt counts for nothing: its agent never started, or its machine was at fault. Nodes do not
	// have it, nor do rows of releases before it.
	Void bool `json:"notBegun,omitempty"`
}

// Usage is what an attempt used up, in tokens and millionths of a US dollar.
type Usage struct {
	InputTokens       int64 `json:"inputTokens"`
	CachedInputTokens int64 `json:"cachedInputTokens"`
	OutputTokens      int64 `json:"outputTokens"`
	ReasoningTokens   int64 `json:"reasoningTokens"`
	CostMicroUSD      int64 `json:"costMicroUSD"`
}

// Add returns the sum of u and v.
func (u Usage) Add(v Usage) Usage {
	u.InputTokens += v.InputTokens
	u.CachedInputTokens += v.CachedInputTokens
	u.OutputTokens += v.OutputTokens
	u.ReasoningTokens += v.ReasoningTokens
	u.CostMicroUSD += v.CostMicroUSD
	return u
}

// Tokens returns what counts toward a token limit. Cached input is part of
// input, and reasoning part of output.
func (u Usage) Tokens() int64 { return u.InputTokens + u.OutputTokens }

// A RequestKind says what a request asks for.
type RequestKind string

// The kinds of requests.
const (
	RequestResume RequestKind = "resume" // to continue, with Text as input if there is any
	RequestInput  RequestKind = "input"  // to receive Text
)

// A Request asks something of the current or next driver of a task. It is open
// until a driver takes it, which only one does; what it asks for never changes.
type Request struct {
	ID      string          `json:"id"` // a ULID made by its writer: requests are in this order
	Task    string          `json:"task"`
	Thread  string          `json:"thread"`
	Kind    RequestKind     `json:"kind"`
	Text    string          `json:"text"`
	Options json.RawMessage `json:"options"` // owned by control
	By      string          `json:"by"`
	Via     Via             `json:"via"`
	At      int64           `json:"at"`
	TakenAt int64           `json:"takenAt"`
}

// A Flow is a name in the registry, the bundle it refers to and, in History,
// the earlier ones, newest first.
type Flow struct {
	Name      string    `json:"name"`
	Hash      dag.Hash  `json:"hash"`
	Timestamp int64     `json:"timestamp"` // Unix ms
	History   []Version `json:"history"`
}

// A Version is what a name referred to before.
type Version struct {
	Hash      dag.Hash `json:"hash"`
	Timestamp int64    `json:"timestamp"`
}

// MaxEventPayload is the largest payload of an event, in bytes.
const MaxEventPayload = 16 << 10

// An Event is one line of the journal. Commit sets Pos and Seq.
type Event struct {
	Pos      int64           `json:"pos"` // store-wide, from 1, no gaps
	Seq      int64           `json:"seq"` // per task, from 1, no gaps
	TS       int64           `json:"ts"`  // Unix ms
	Type     string          `json:"type"`
	Task     string          `json:"task"`
	Thread   string          `json:"thread"`
	Instance string          `json:"instance"`
	Attempt  string          `json:"attempt"`
	Payload  json.RawMessage `json:"payload"`
	// Proof has what the event's batch made of rows, as [Batch.Prove] writes it; nil for most events. It is for
	// whoever checks the record: of what people and programs are shown, only [ExportedEvent] has it.
	Proof json.RawMessage `json:"-"`
}

// An ExportedEvent is an event with its proof.
type ExportedEvent struct {
	Event
	Proof json.RawMessage `json:"proof,omitempty"` // in place of that of Event
}
