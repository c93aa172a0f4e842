// Package agent defines what an agent is: something that makes one attempt at one step and
// reports its activity.
//
// An agent gets a Request: a prompt, a place to work, limits. It emits events, in order, and ends
// with one Result or one Failure. Laws:
//
//   - Raw before parsed: an agent writes each byte it receives to the desk's logs before
//     it looks at it. The logs replace known secrets.
//   - When Run returns, no process that the agent started is left.
//   - A failure of the work is a *Failure. Any other error means that the engine itself
//     failed.
//   - Nothing of PLAIT_HOME and no credential reaches an agent's environment.
//
// An agent knows nothing of threads, flows or stores, and never decides what comes next. Optional
// capabilities are separate interfaces, found by type assertion: see [Continuer], [Forker],
// [SessionExporter], [Bounded], [Shaper], [Instructed], [SelfInstructed], [Homed], [Steerer] and [Program].
package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/plait-run/plait/internal/sys/secret"
)

// An Agent makes one attempt.
type Agent interface {
	// Run works on req until it is done, ctx ends, or it fails. It calls emit
	// for each event, in order, from one goroutine at a time; an error from
	// emit stops the agent and is returned. When Run returns, no process that
	// it started is left.
	Run(ctx context.Context, req Request, emit func(Event) error) (Result, error)
}

// A Continuer can continue an earlier session: Request.Session is its id.
// Any other agent gets the whole prompt each time.
type Continuer interface {
	Agent
	// Continues reports whether the session can be continued in this request.
	Continues(req Request) bool
}

// A Forker can branch off a session after one of its turns. The original is not changed.
type Forker interface {
	Agent
	// Forks reports whether Request.From can be forked.
	Forks(req Request) bool
}

// A SessionExporter is an Agent whose sessions can be copied to another home: they are append-only files.
type SessionExporter interface {
	Agent
	// SessionFiles returns the files that are needed to continue a session in a task's home, including those of
	// sessions it branched off from, or nil if they do not exist. dir is where they are, or would be.
	SessionFiles(home, session string) (dir string, files []string)
}

// A Bounded agent refuses prompts of more than MaxPrompt characters.
type Bounded interface {
	Agent
	MaxPrompt() int
}

// A Shaper can make its model answer in the form of a JSON Schema. Its output is still front matter and text:
// the text is the property [Body] of the answer.
type Shaper interface {
	Agent
	Shapes(schema json.RawMessage) bool
}

// Body is the property of a shaped answer that holds the text.
const Body = "$body"

// An Instructed agent is a model that follows instruction files such as AGENTS.md: its prompt includes the
// project's, and says where files are.
type Instructed interface {
	Agent
	// Instructions returns the user's instructions for all projects, "" for none.
	Instructions() string
}

// A SelfInstructed agent follows instruction files of its own besides AGENTS.md.
type SelfInstructed interface {
	Instructed
	InstructionFile() string // its name, in each directory
}

// A Homed agent has sessions that a person can continue without Plait.
type Homed interface {
	Agent
	// SessionHome returns the directory with the sessions, as the vendor's own program expects it. home is the
	// home of the task's agents.
	SessionHome(home string) string
}

// A Steerer accepts what people add while it works. What it has not received when its work ends goes to the
// next agent.
type Steerer interface {
	Agent
	Steers() bool
}

// An Addition is what a person adds while an agent works.
type Addition struct {
	Text      string
	Delivered func() // called once its model has received it
}

// A Program is not a model: its output is the answer, and its exit code the status.
type Program interface {
	Agent
	fmt.Stringer // its command line, for people
	// Status returns the $status for an exit code, "" for none.
	Status(exit int) string
	// Missing returns why a program that is looked up in the PATH could not start now, "" if it could, or is a file.
	Missing() string
}

// A Branch is a turn of a session of some task.
type Branch struct {
	Home    string // see Request.Home
	Session string
	Turn    string // the last one to include, "" for all
}

// A Question is what an agent asks before it can continue. The attempt waits, and its time limits are
// suspended.
type Question struct {
	Text   string // why it is asked, in the agent's words
	Action Action
	Inside bool // the action stays inside the role's sandbox
	// Editable says that the agent can run another input instead, see Answer.Edited.
	Editable bool
}

// An Action is exactly what an agent wants to do. Two actions are equal if all their fields are.
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
	// Edited is the action that was approved instead, with other parameters or another command; only that may be
	// done. Nil means that the original action was approved.
	Edited *Action
}

// Access is what a role may do to its working tree.
type Access string

// The access levels, from least to most.
const (
	Read  Access = "read"
	Write Access = "write"
	Full  Access = "full"
)

// A Place identifies an attempt within its task.
type Place struct {
	Task    string
	Thread  string
	Role    string
	Attempt string
	Visit   int // how many times the role ran in this thread before
	Try     int // 1 for the first attempt at the step
}

// A Request is an attempt to make.
type Request struct {
	Place

	Prompt  string
	Dir     string // working directory, absolute
	Access  Access
	Schema  json.RawMessage // JSON Schema of the output's meta, or nil
	Session string          // vendor session to continue, or ""
	From    *Branch         // vendor session to branch off from, or nil
	Shaped  bool            // the prompt asks for the form of Shaper

	// Ask asks a person and returns the answer. It may be called concurrently. Nil means that no person can
	// answer: every answer is no.
	Ask func(ctx context.Context, q Question) (Answer, error)
	// Additions is what people add while the agent works. Only a [Steerer] reads it. Nil: nothing
	// will be added.
	Additions <-chan Addition

	// Home is the private directory of an agent's own state for the task, outside the workspace. It need not exist.
	Home string
	// Scratch is a directory of the task for additional files of agents' commands, visible in a
	// sandbox that hides Home; "" for none. See [Request.Bin].
	Scratch string
	// Traffic is called for each request of an agent to its model through a gateway; may be nil.
	Traffic Traffic
	Isolation
	Desk Desk
	Limits
	Tag     string        // marks every process of the attempt, see proc
	Env     []string      // PLAIT_… variables, and those that lead an isolated program to the network, as KEY=value
	Started func(Process) // called once the process runs; may be nil
	// Opened is called once the vendor session has an id, so that it can be
	// continued even if the attempt fails; may be nil.
	Opened func(session string)
}

// An Isolation says how the programs of an agent are started; the zero Isolation leaves them as they are.
type Isolation struct {
	// Wrap returns the command line that starts a program of the agent in isolation, where Dir may be another
	// directory than outside; nil: programs are not isolated. Agents whose processes are shared by attempts start
	// one for this attempt alone.
	Wrap func(path string, args []string, needs Needs) (string, []string)
	// OwnNetwork says that Wrap leaves programs no network but a loopback of their own: see [Needs.Gateway].
	OwnNetwork bool
}

// CommandLine returns the command line that starts a program of the agent, see Wrap.
func (r Request) CommandLine(path string, args []string, needs Needs) (string, []string) {
	if r.Wrap == nil {
		return path, args
	}
	return r.Wrap(path, args, needs)
}

// Needs are what an isolated program needs in addition to what the attempt has.
type Needs struct {
	Read    []string // what it must be able to read
	Gateway string   // the socket of its gateway, "" for none: see [Isolation]
	// Own are directories that each process has for itself, empty: an isolated process cannot see
	// whether others that use them are still running.
	Own []string
}

// Bin returns the directory to put first on the PATH of the agent's commands, "" for none. It
// contains only the program plait.
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
	Raw       io.Writer // runtime/events.jsonl: the agent's output, byte for byte but for known secrets
	Stderr    io.Writer // runtime/stderr.log
	Requests  io.Writer // runtime/requests.jsonl: the input of the agent, or nil
	// Secrets are the keys that are kept out of the logs. An agent whose model has a gateway passes them to it.
	Secrets *secret.Set
}

// Objects is the file in a desk's Context with the objects that the agent can read by hash. Each
// is a line with its hash and its size, followed by its bytes and a line feed.
const Objects = "objects"

// Instruction is the file in a desk's Context with the part of the prompt that says what to do now.
const Instruction = "instruction.md"

// A Process identifies a running process, even if its id is reused.
type Process struct {
	PID   int
	Start int64  // clock ticks since boot, from /proc/<pid>/stat
	Tag   string // marks it and its descendants; "" if it is the request's tag
}

// Kinds of events.
const (
	EventMessage  = "message"   // text the agent said
	EventThought  = "reasoning" // what the agent revealed of its reasoning
	EventCommand  = "command"   // a command started, made progress or ended
	EventFile     = "file_change"
	EventTool     = "tool_call"
	EventPlan     = "plan"
	EventUsage    = "usage"
	EventError    = "error"
	EventProgress = "progress" // a line of output of a program without events
)

// An Event is one thing that happened during an attempt. What could not be parsed is in the raw
// log only.
type Event struct {
	Kind  string `json:"kind"`
	ID    string `json:"id,omitempty"`    // the same in all phases of an item
	Phase string `json:"phase,omitempty"` // started, updated, completed, failed, declined
	// Text is a message, a command line, the name of a tool, or an error.
	Text string `json:"text,omitempty"`
	// Output is the output of a command or tool: of an update only the new part, at completion
	// all of it or its end.
	Output    string          `json:"output,omitempty"`
	Files     []File          `json:"files,omitempty"`     // of a file change
	Exit      *int            `json:"exit,omitempty"`      // 0 or more; nil: declined, interrupted, or not known
	Usage     *Usage          `json:"usage,omitempty"`     // of the attempt so far
	WillRetry bool            `json:"willRetry,omitempty"` // of an error: the agent retries automatically
	Detail    json.RawMessage `json:"detail,omitempty"`    // a tool's arguments, a plan's entries
	Asked     string          `json:"asked,omitempty"`     // what the agent asked for, if a person approved something else
	// Line is the line of Desk.Raw, counted from 1 in this attempt, with the beginning or end of
	// a tool call; 0 if there is none or the agent does not report it.
	Line int `json:"line,omitempty"`
}

// A File is one file of a file change.
type File struct {
	Path   string `json:"path"`
	Change string `json:"change"` // add update delete
	Diff   string `json:"diff,omitempty"`
}

// Usage is what an attempt used: tokens, and millionths of a US dollar if the price is known.
// InputTokens includes the cached ones, OutputTokens the reasoning.
type Usage struct {
	InputTokens       int64 `json:"inputTokens"`
	CachedInputTokens int64 `json:"cachedInputTokens"`
	OutputTokens      int64 `json:"outputTokens"`
	ReasoningTokens   int64 `json:"reasoningTokens"`
	CostMicroUSD      int64 `json:"costMicroUSD"`
}

// A Result is the outcome of a successful attempt.
type Result struct {
	// Output is the agent's answer: front matter and text, one JSON object, or
	// plain text. At most MaxOutput bytes; the rest is in the raw log.
	Output    []byte
	Truncated bool // Output is only the beginning of what the raw log has

	Status  string // the $status that the agent's configuration gives the exit code, or ""
	Exit    *int   // exit code, nil if there was no process
	Session string // vendor session, "" if the agent has none
	Turn    string // the session's turn for this attempt, "" if not known
	Model   string
	Version string // of the agent's program, "" if not known
	Usage   Usage
	Sandbox string // the sandbox that was enforced: "none" or the vendor's word
	Plain   bool   // plain text is a valid answer: $status and exitCode become meta
	Tree    string // of the files on which a recorded command ran, "" unless it is a recording
}

// MaxOutput is the largest output that becomes a step's text, in bytes.
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
	Infra         = "infra"          // the agent could not run, or crashed
	Limit         = "limit"          // a limit of Plait or the vendor was reached
	Refused       = "refused"        // the agent declined
	InvalidOutput = "invalid-output" // its output is not valid
	TimedOut      = "timeout"
	Cancelled     = "cancelled"
	Interrupted   = "interrupted" // Plait died, or lost the agent
)

// A Failure says why an attempt did not become a step.
type Failure struct {
	Kind    string
	Message string
	ResetAt time.Time // when a limit ends, if known
	Final   bool      // a retry cannot help
	Machine bool      // its machine is at fault: it may succeed on another

	// What is known about the attempt anyway.
	Session string // "" when it must not be continued
	Exit    *int
	Model   string
	Usage   Usage
}

func (f *Failure) Error() string { return f.Kind + ": " + f.Message }

// Final returns a failure of the agent itself that a retry cannot fix.
func Final(format string, args ...any) *Failure {
	return &Failure{Kind: Infra, Final: true, Message: fmt.Sprintf(format, args...)}
}

// OfMachine is Final for a failure that an agent on another machine may not have.
func OfMachine(format string, args ...any) *Failure {
	f := Final(format, args...)
	f.Machine = true
	return f
}

// Refusing returns an agent that does nothing but refuse, for a reason.
func Refusing(reason error) Agent { return refusing{reason} }

type refusing struct{ reason error }

func (r refusing) Run(context.Context, Request, func(Event) error) (Result, error) {
	return Result{}, &Failure{Kind: Refused, Final: true, Message: r.reason.Error()}
}
