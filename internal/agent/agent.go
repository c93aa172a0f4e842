// Package agent defines what an agent is: something that makes one attempt at one step
// and reports what it does meanwhile.
//
// In goes a Request: a prompt, a place to work, limits. Out come events, in
// order, and one Result or one Failure. Laws:
//
//   - Raw before parsed: an agent writes each byte it receives to the desk's
//     logs before it looks at it.
//   - When Run returns, no process that the agent started is left.
//   - A failure of the work is a *Failure. Any other error means that the engine
//     itself failed.
//   - Nothing of PLAIT_HOME and no credential reaches an agent's environment.
//
// An agent knows nothing of threads, flows or stores, and never decides what
// comes next. Further powers are further interfaces, found by type assertion:
// see [Continuer], [Forker], [Shaper], [Instructed], [Homed], [Steerer] and [Program].
package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strings"
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

// A Continuer can continue a session it had before: Request.Session is its id.
// An agent without this power gets the whole prompt each time.
type Continuer interface {
	Agent
	// Continues reports whether the session can be continued in this request.
	Continues(req Request) bool
}

// A Forker can begin a session that knows what another one knew after one of
// its turns, and leaves that one as it is.
type Forker interface {
	Agent
	// Forks reports whether Request.From can be forked.
	Forks(req Request) bool
}

// A Carrier is an Agent whose sessions can be carried from one home to another: they are files that only
// grow.
type Carrier interface {
	Agent
	// SessionFiles names the files by which a session goes on in a task's home, those included that it branched
	// off from; none where they are not there. dir is where they are, or would be.
	SessionFiles(home, session string) (dir string, files []string)
}

// A Shaper can make its model answer by a JSON Schema. Its answer comes back as front
// matter and text all the same: the text is asked for as the property [Body].
type Shaper interface {
	Agent
	Shapes(schema json.RawMessage) bool
}

// Body is the property of a shaped answer that holds the text.
const Body = "$body"

// An Instructed agent is a model that works by what people write down for agents, in AGENTS.md:
// its prompt has that of the project, and says where files are.
type Instructed interface {
	Agent
	// Instructions returns what the user tells agents in all projects, "" for nothing.
	Instructions() string
}

// A Homed agent has sessions that a person can go on in by hand.
type Homed interface {
	Agent
	// SessionHome returns the directory that the vendor's own program has to be told to find them,
	// of a task whose agents' home is home.
	SessionHome(home string) string
}

// A Steerer takes what people add while it works. What it did not take before its work was over is
// told to whoever works next.
type Steerer interface {
	Agent
	Steers() bool
}

// An Addition is what a person adds while an agent works.
type Addition struct {
	Text  string
	Heard func() // called once its model has it before it
}

// A Program is no model: what it answers is what it prints, and its exit code says how it went.
type Program interface {
	Agent
	fmt.Stringer // its command line, for people
	// Status returns the $status that an exit code stands for, "" for none.
	Status(exit int) string
}

// A Branch is a turn of a session of some task.
type Branch struct {
	Home    string // see Request.Home
	Session string
	Turn    string // the last one to be known, "" for all
}

// A Question is what an agent must know before it can continue. The attempt waits; its
// limits on time do not run meanwhile.
type Question struct {
	Text   string // why it is asked, in the agent's words
	Action Action
	Inside bool // what is asked for stays inside the sandbox that the role has
	// Editable says that the agent can carry out another input in the place of this one, see Answer.Edited.
	Editable bool
}

// An Action is exactly what would be done. Two actions are the same when all
// their fields are.
type Action struct {
	Type    string          `json:"type"` // command file_change tool_call permissions form
	Command string          `json:"command,omitempty"`
	Cwd     string          `json:"cwd,omitempty"`
	Diff    string          `json:"diff,omitempty"`
	Tool    string          `json:"tool,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
}

// An Answer is the answer to a Question.
type Answer struct {
	Approved bool
	Text     string // what the person said, or ""
	// Edited is what is approved in the place of what was asked for: only that may be done. Nil: exactly what was
	// asked for. It differs from that in its parameters, and its command.
	Edited *Action
}

// Access is what a role may do to its working tree.
type Access string

// The accesses, from least to most.
const (
	Read  Access = "read"
	Write Access = "write"
	Full  Access = "full"
)

// A Place says which attempt at which step of a task an attempt is.
type Place struct {
	Task    string
	Thread  string
	Role    string
	Attempt string
	Visit   int // how many times the role ran before in this thread, this visit not counted
	Try     int // 1 for the first attempt at the step
}

// A Request is one attempt to be made.
type Request struct {
	Place

	Prompt  string
	Dir     string // working directory, absolute
	Access  Access
	Schema  json.RawMessage // JSON Schema of the output's meta, or nil
	Session string          // vendor session to continue, or ""
	From    *Branch         // vendor session to branch off from, or nil
	Shaped  bool            // the prompt asks for the form that Shaper.Shapes promised

	// Ask puts a question to a person and returns the answer. It may be called
	// concurrently. Nil means that no person can answer: every answer is no.
	Ask func(ctx context.Context, q Question) (Answer, error)
	// More is what people add while the agent works. Only a [Steerer] reads it. Nil: nothing
	// will come.
	More <-chan Addition

	// Home is the directory where an agent keeps its own state about the task:
	// outside the workspace, and private. It need not exist.
	Home string
	// Scratch is a directory of the task for what commands of agents need beside its files, where
	// a sandbox that hides Home does not hide it; "" for none. See [Request.Bin].
	Scratch string
	// Traffic is asked about each request that an agent makes of its model through a gateway, nil:
	// nobody is.
	Traffic Traffic
	// Around returns the command line by which a program of the agent is started in a place of its own, where
	// Dir may not be what it is outside; nil: it is started as it is. Agents whose processes several attempts
	// share start one for this attempt alone.
	Around func(path string, args []string, needs Needs) (string, []string)
	Desk   Desk
	Limits
	Tag     string        // marks every process of the attempt, see proc
	Env     []string      // PLAIT_… variables, as KEY=value
	Started func(Process) // called once the process runs; may be nil
	// Opened is called once the vendor session has a name, so that it can be
	// continued whatever happens next; may be nil.
	Opened func(session string)
}

// Line returns the command line by which a program of the agent is started, see Around.
func (r Request) Line(path string, args []string, needs Needs) (string, []string) {
	if r.Around == nil {
		return path, args
	}
	return r.Around(path, args, needs)
}

// Needs are what a program needs in a place of its own, beside what the attempt has.
type Needs struct {
	Read []string // what it has to be able to read
	// Own are directories that each process has for itself, empty: in a place of its own it cannot see whether
	// others that use them are alive.
	Own []string
}

// Bin returns the directory to be put first on the PATH of the agent's commands, "" for none. It
// holds the program plait and nothing else.
func (r Request) Bin() string {
	if r.Scratch == "" {
		return ""
	}
	return filepath.Join(r.Scratch, "bin")
}

// A Desk is where an instance's logs and artifacts go.
type Desk struct {
	Artifacts string    // the role leaves files here; emptied before the attempt
	Context   string    // what the agent may read of the record, or ""
	Raw       io.Writer // runtime/events.jsonl: what the agent said, byte for byte
	Stderr    io.Writer // runtime/stderr.log
	Requests  io.Writer // runtime/requests.jsonl: what was said to the agent, or nil
}

// Objects is the file in a desk's Context that has what is read by hash: of each object a line with
// its hash and its size, its bytes, and the end of a line.
const Objects = "objects"

// A Process identifies a running process beyond the reuse of its id.
type Process struct {
	PID   int
	Start int64  // clock ticks since boot, from /proc/<pid>/stat
	Tag   string // marks it and its descendants when it is not the request's, else ""
}

// Kinds of events.
const (
	EventMessage  = "message"   // text the agent said
	EventThought  = "reasoning" // what the agent showed of its reasoning
	EventCommand  = "command"   // a command started, went on or ended
	EventFile     = "file_change"
	EventTool     = "tool_call"
	EventPlan     = "plan"
	EventUsage    = "usage"
	EventError    = "error"
	EventProgress = "progress" // a line of output of something that has no events
)

// An Event is one thing that happened during an attempt, as far as it was
// understood. What was not understood is in the raw log only.
type Event struct {
	Kind  string `json:"kind"`
	ID    string `json:"id,omitempty"`    // the same in all phases of one thing
	Phase string `json:"phase,omitempty"` // started, updated, completed, failed, declined
	// Text is what was said; a command line; a tool's name; what went wrong.
	Text string `json:"text,omitempty"`
	// Output is what a command or tool gave: when updated the new part, when
	// completed the whole or its end.
	Output    string          `json:"output,omitempty"`
	Files     []File          `json:"files,omitempty"`     // of a file change
	Exit      *int            `json:"exit,omitempty"`      // 0 or more; nil: declined, cut off, or not known
	Usage     *Usage          `json:"usage,omitempty"`     // of the attempt so far
	WillRetry bool            `json:"willRetry,omitempty"` // of an error: the agent tries again by itself
	Detail    json.RawMessage `json:"detail,omitempty"`    // a tool's arguments, a plan's entries
	Asked     string          `json:"asked,omitempty"`     // what the agent asked for, where a person approved something else
	// Line is where a tool call's beginning or end stands in what the attempt wrote to Desk.Raw, its
	// lines counted from 1; 0: nowhere, or the agent does not say.
	Line int `json:"line,omitempty"`
}

// A File is one file of a file change.
type File struct {
	Path   string `json:"path"`
	Change string `json:"change"` // add update delete
	Diff   string `json:"diff,omitempty"`
}

// Usage is what an attempt used up: tokens, and millionths of a US dollar if they are known.
// InputTokens counts the cached ones too, OutputTokens the reasoning.
type Usage struct {
	InputTokens       int64 `json:"inputTokens"`
	CachedInputTokens int64 `json:"cachedInputTokens"`
	OutputTokens      int64 `json:"outputTokens"`
	ReasoningTokens   int64 `json:"reasoningTokens"`
	CostMicroUSD      int64 `json:"costMicroUSD"`
}

// A Result is the outcome of an attempt that is done.
type Result struct {
	// Output is the agent's answer: front matter and text, one JSON object, or
	// plain text. At most MaxOutput bytes; the rest is in the raw log.
	Output    []byte
	Truncated bool // Output is only the head of what the raw log holds

	Status  string // the $status the agent's configuration gives the exit, or ""
	Exit    *int   // exit code, nil when there was no process
	Session string // vendor session, "" when the agent has none
	Turn    string // the session's turn that the attempt was, "" when not known
	Model   string
	Usage   Usage
	Sandbox string // the sandbox that was really enforced: "none" or the vendor's word
	Plain   bool   // plain text is a valid answer: $status and exitCode become meta
}

// MaxOutput is the largest answer that becomes a step's text, in bytes.
const MaxOutput = 8 << 20

// Clipped returns r with at most MaxOutput bytes of its output.
func (r Result) Clipped() Result {
	if len(r.Output) > MaxOutput {
		r.Output, r.Truncated = r.Output[:MaxOutput], true
	}
	return r
}

// Kinds of failures.
const (
	Infra         = "infra"          // the agent could not be run, or broke
	Limit         = "limit"          // a limit of ours or the vendor's was reached
	Refused       = "refused"        // the agent declined
	InvalidOutput = "invalid-output" // its output does not fit
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
	Session string // "" when it must not be continued
	Exit    *int
	Model   string
	Usage   Usage
}

func (f *Failure) Error() string { return f.Kind + ": " + f.Message }

// Final returns a failure of the agent itself that trying again does not mend.
func Final(format string, args ...any) *Failure {
	return &Failure{Kind: Infra, Final: true, Message: fmt.Sprintf(format, args...)}
}

// Clip makes text of bytes of any kind, for messages and events: valid UTF-8, at most limit
// bytes and an ellipsis.
func Clip(s string, limit int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "…"
}
