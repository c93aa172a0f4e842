package event

import (
	"encoding/json"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
)

// forms returns every type of event.
func forms() []form {
	all := []form{
		one(TaskCreated{}), one(TaskImported{}), one(TaskAdopted{}), one(TaskUpdated{}), one(TaskOptions{}),
		one(ControllerChanged{}), one(RequestMade{}), one(RequestTaken{}),
		one(ThreadStarted{}), one(ThreadForked{}), one(ThreadCalled{}), one(ThreadJoined{}),
		one(ThreadBlocked{}), one(ThreadResumed{}), one(ThreadDelayed{}),
		one(ThreadCompacted{}), one(ThreadEnded{}), one(ThreadRemoved{}), one(ThreadAttested{}),
		one(TaskRedacted{}),
		one(JoinDecided{}), one(MergeDecided{}),
		one(AttemptStarted{}), one(AttemptCompleted{}), one(AttemptFailed{}), one(AttemptFailed{Interrupted: true}),
		one(AttemptSuperseded{}),
		one(AgentStarted{}), one(AgentItems{}), one(ArtifactWritten{}), one(EvidenceAdded{}),
		one(NotesRead{}), one(NotesRefused{}), one(LimitReached{}),
		one(FlowRegistered{}), one(FlowRemoved{}), one(ImportBegun{}),
		one(KeyAdmitted{}), one(KeyRevoked{}), one(HistoryAccepted{}),
	}
	for _, status := range []store.Status{store.Completed, store.Failed, store.Cancelled} {
		all = append(all, one(TaskEnded{State: TaskState(status)}))
	}
	for _, state := range []store.Status{store.Completed, store.Failed, store.Blocked, store.Cancelled} {
		all = append(all, one(AgentEnded{State: state}))
	}
	all = append(all, one(GateChanged{Change: GateBlocked}))
	for _, state := range []store.GateState{
		store.GateApproved, store.GateRejected, store.GateAnswered, store.GateExpired,
	} {
		all = append(all, one(GateChanged{Change: Change(state)}))
	}
	all = append(all, one(GateChanged{Change: GateUsed}), one(GateChanged{Change: Change(store.GateWithdrawn)}))
	return all
}

// TaskCreated reports that a task was created.
type TaskCreated struct {
	By     string   `json:"by,omitempty"` // the person who asked for it; releases before this one did not say
	Flow   string   `json:"flow"`
	Bundle dag.Hash `json:"bundle"`
	Start  dag.Hash `json:"start"`
}

func (TaskCreated) event() string { return "task.created" }

// TaskImported reports that a task and all events before this one were imported from an export or
// another record.
type TaskImported struct {
	From   string `json:"from"`
	By     string `json:"by"`
	Events int    `json:"events"` // how many came with it
	// Replaces is the position of the event by which the task had been removed from this record, zero if it had not.
	// The import deleted that event.
	Replaces int64 `json:"replaces,omitempty"`
}

func (TaskImported) event() string { return "task.imported" }

// TaskAdopted reports that a person took over a task that was imported, or moved one to another directory.
type TaskAdopted struct {
	From string `json:"from"` // what it was imported from, "" if it began here
	By   string `json:"by"`
}

func (TaskAdopted) event() string { return "task.adopted" }

// TaskOptions reports that a person gave threads of a task further options, or let them exceed limits.
type TaskOptions struct {
	By      string          `json:"by"`
	Options json.RawMessage `json:"options"` // only those that were given
}

func (TaskOptions) event() string { return "task.options" }

// shorter leaves out what the task's rows have.
func (p TaskOptions) shorter() (Payload, bool) {
	long := len(p.Options) > 0
	p.Options = nil
	return p, long
}

// RequestMade reports that someone asked something of a task.
type RequestMade struct {
	Request string            `json:"request"`
	Kind    store.RequestKind `json:"kind"`
	By      string            `json:"by"`
	Via     store.Via         `json:"via"`
}

func (RequestMade) event() string { return "request.made" }

// RequestTaken reports that a driver took a request.
type RequestTaken struct {
	Request string            `json:"request"`
	Kind    store.RequestKind `json:"kind"`
}

func (RequestTaken) event() string { return "request.taken" }

// States of a task that no thread has. The first two are those of TaskUpdated.
const (
	Working       = "working"
	InputRequired = "input-required"
	Canceled      = "canceled"
)

// TaskUpdated reports that a task changed its state, or what was requested of it.
type TaskUpdated struct {
	State  string       `json:"state,omitempty"`
	Intent store.Intent `json:"wanted,omitempty"`
}

func (TaskUpdated) event() string { return "task.updated" }

// TaskEnded reports that a task has ended, and its return code.
type TaskEnded struct {
	State   string `json:"-"` // completed, failed or canceled
	Code    int    `json:"code"`
	Summary Text   `json:"summary"`
}

func (p TaskEnded) event() string { return "task." + p.State }

// TaskState returns the State of TaskEnded for the final status of a root thread.
func TaskState(status store.Status) string {
	if status == store.Cancelled {
		return Canceled
	}
	return string(status)
}

// ControllerChanged reports that a thread with plan roles changed its state (seed 004, §5).
type ControllerChanged struct {
	State string   `json:"state"`
	Head  dag.Hash `json:"head"`
}

func (ControllerChanged) event() string { return "controller.state.changed" }

// Phase returns the event for a new state of a thread with plan roles, none for any other thread.
func Phase(row store.Thread, plans bool, now int64, state string) []store.Event {
	if !plans {
		return nil
	}
	return []store.Event{New(row, now, ControllerChanged{State: state, Head: row.Head})}
}

// States of a thread with plan roles.
const (
	Init        = "init"
	Planning    = "planning"
	Dispatching = "dispatching"
	Monitoring  = "monitoring"
	Joining     = "joining"
	Blocked     = "blocked"
	Done        = "done"
	Failed      = "failed"
	Cancelled   = "cancelled"
)

// ThreadStarted reports that a thread runs for the first time.
type ThreadStarted struct {
	Flow   string           `json:"flow"`
	Start  dag.Hash         `json:"start"`
	Head   dag.Hash         `json:"head"`
	Kind   store.ThreadKind `json:"kind"`
	Parent *store.Parent    `json:"parent"`
}

func (ThreadStarted) event() string { return "thread.started" }

// ThreadForked reports that a thread was split into paths, or was manually forked from another one.
type ThreadForked struct {
	Fork    string   `json:"fork,omitempty"`
	Join    string   `json:"join,omitempty"`
	Head    dag.Hash `json:"head,omitzero"`
	Paths   []string `json:"paths,omitempty"`   // ids
	Threads []string `json:"threads,omitempty"` // of the paths, in the same order

	From string   `json:"from,omitempty"` // of a manual fork: the other thread
	Step dag.Hash `json:"step,omitzero"`
	N    int      `json:"n,omitempty"` // of the step, along the chain
}

func (ThreadForked) event() string { return "thread.forked" }

// ThreadCalled reports that a role of a thread called a flow.
type ThreadCalled struct {
	Role  string `json:"role"`
	Flow  string `json:"flow"`
	Child string `json:"child"` // thread
}

func (ThreadCalled) event() string { return "thread.called" }

// ThreadJoined reports that the paths of a thread were joined.
type ThreadJoined struct {
	Join      string   `json:"join"`
	Outcome   string   `json:"outcome"`
	DecidedBy string   `json:"decidedBy"`
	Step      dag.Hash `json:"step"`
	N         int      `json:"n"`
	// Kept says what the worktrees of paths have that stay, by thread.
	Kept map[string]string `json:"kept,omitempty"`
}

func (ThreadJoined) event() string { return "thread.joined" }

// shorter leaves out what the join's step has.
func (p ThreadJoined) shorter() (Payload, bool) {
	long := len(p.Kept) > 0
	p.Kept = nil
	return p, long
}

// JoinDecided reports how a join was decided, before its losers have ended.
type JoinDecided struct {
	Join      string   `json:"join"`
	Outcome   string   `json:"outcome"`
	DecidedBy string   `json:"decidedBy"`
	Cancel    []string `json:"cancel"` // ids of paths
}

func (JoinDecided) event() string { return "join.decided" }

// MergeDecided reports how the files that paths changed will be merged, before a file is touched.
type MergeDecided struct {
	Join string `json:"join"`
	From string `json:"from,omitempty"` // git tree of the thread's files before; "": everything stays on branches
	To   string `json:"to,omitempty"`   // and after
}

func (MergeDecided) event() string { return "merge.decided" }

// ThreadBlocked reports that a thread cannot continue without a person.
type ThreadBlocked struct {
	Kind    store.ReasonKind `json:"kind"`
	Message Text             `json:"message"`
}

func (ThreadBlocked) event() string { return "thread.blocked" }

// ThreadDelayed reports that a worker of a team was not able to drive a thread, and when it is tried again. Without a
// worker, the thread waits for the end of a usage limit.
type ThreadDelayed struct {
	Worker  string `json:"worker"`
	Message Text   `json:"message"`
	Until   int64  `json:"until"` // Unix ms
}

func (ThreadDelayed) event() string { return "thread.delayed" }

// ThreadResumed reports that a thread runs again.
type ThreadResumed struct {
	From store.Status `json:"from"` // its previous status
	Head dag.Hash     `json:"head"`
}

func (ThreadResumed) event() string { return "thread.resumed" }

// ThreadCompacted reports that a summary replaces the steps before it.
type ThreadCompacted struct {
	Step  dag.Hash `json:"step"`
	N     int      `json:"n"`
	Steps int      `json:"steps"`
	Bytes int      `json:"bytes"`
	Agent string   `json:"agent"`
}

func (ThreadCompacted) event() string { return "thread.compacted" }

// ThreadEnded reports that a thread has ended. A path has no return code.
type ThreadEnded struct {
	Status  store.Status `json:"status"`
	Head    dag.Hash     `json:"head"`
	Code    *int         `json:"code,omitempty"`
	Summary Text         `json:"summary,omitempty"`
	Path    string       `json:"path,omitempty"`
	Join    string       `json:"join,omitempty"`
}

func (ThreadEnded) event() string { return "thread.ended" }

// ThreadRemoved reports that a task was removed, with all of its rows and events. It belongs to no task, so that it
// stays if the task comes back; the thread is its root.
type ThreadRemoved struct {
	By    string `json:"by"`
	Count int    `json:"count"` // events
	First int64  `json:"first"` // position of the first of them
	Last  int64  `json:"last"`
}

func (ThreadRemoved) event() string { return "thread.removed" }

// ThreadAttested reports that a proof of a task was made. It belongs to no task, so that the next one is the same; the
// thread is its root.
type ThreadAttested struct {
	By        string   `json:"by"`
	Key       string   `json:"key"`       // fingerprint of the key that signed it
	Statement dag.Hash `json:"statement"` // SHA-256 of what was signed
}

func (ThreadAttested) event() string { return "thread.attested" }

// TaskRedacted reports that a text was taken out of a task: out of how many objects, rows and events. Gates are those
// whose question, action or answer had it, with the hash by which steps name the answer (thread.ApprovalHash). One of no
// task reports that objects were replaced, and its proof says by what: tasks share objects, and may be removed.
type TaskRedacted struct {
	By      string              `json:"by"`
	Reason  Text                `json:"reason"`
	Objects int                 `json:"objects"`
	Rows    int                 `json:"rows"`
	Events  int                 `json:"events"`
	Gates   map[string]dag.Hash `json:"gates,omitempty"`
}

func (TaskRedacted) event() string { return "task.redacted" }

// NotesRefused reports that human-notes.md cannot be read.
type NotesRefused struct {
	Message Text `json:"message"`
}

func (NotesRefused) event() string { return "notes.refused" }

// LimitReached reports that a limit stops a thread.
type LimitReached struct {
	Limit   string `json:"limit"`
	Message Text   `json:"message"`
}

func (LimitReached) event() string { return "limit.reached" }

// NotesRead reports that text was read from human-notes.md.
type NotesRead struct {
	From   int64    `json:"from"` // bytes read before
	To     int64    `json:"to"`   // bytes read now
	Hash   dag.Hash `json:"hash"` // of the first To bytes
	Text   string   `json:"text"`
	Gate   string   `json:"gate"`   // that the text answers, or ""
	Edited bool     `json:"edited"` // what was read before has been changed
	More   bool     `json:"more"`   // the text continues in the next event
	Cut    bool     `json:"cut"`    // there is more to read, which continues this text
}

func (NotesRead) event() string { return "notes.read" }

// A Change is what happened to a gate: its new state, or one of those below.
type Change string

// The changes that are not states.
const (
	GateBlocked Change = "blocked" // it was opened
	GateUsed    Change = "used"
)

// GateChanged reports that a gate was opened (blocked), answered, used or withdrawn, or has expired.
// When a flow's gate is used, the event names the step.
type GateChanged struct {
	Change   Change           `json:"-"`
	Gate     string           `json:"gate"`
	Kind     store.GateKind   `json:"kind"`
	Source   store.GateSource `json:"source"`
	Node     string           `json:"node"`
	Question string           `json:"question"` // at most MaxQuestion bytes of it
	State    store.GateState  `json:"state"`
	By       string           `json:"by"`
	Via      store.Via        `json:"via"`
	Edited   dag.Hash         `json:"edited,omitzero"`  // digest of the action that was approved instead
	Status   string           `json:"status,omitempty"` // of the step
	Step     dag.Hash         `json:"step,omitzero"`
	N        int              `json:"n,omitempty"`
}

func (p GateChanged) event() string { return "gate." + string(p.Change) }

// shorter cuts the question of a gate.
func (p GateChanged) shorter() (Payload, bool) {
	was := p.Question
	p.Question = Clip(was, len(was)/2)
	return p, was != ""
}

// MaxQuestion limits the question in an event, in bytes. The row has all of it.
const MaxQuestion = 8 << 10

// FlowRegistered reports which bundle a name in the registry now means. It belongs to no task.
type FlowRegistered struct {
	Name string   `json:"name"`
	Hash dag.Hash `json:"hash"`
	By   string   `json:"by"`
	From string   `json:"from,omitempty"` // what it was imported from
}

func (FlowRegistered) event() string { return "flow.registered" }

// FlowRemoved reports that a name was removed from the registry. It belongs to no task.
type FlowRemoved struct {
	Name string   `json:"name"`
	Hash dag.Hash `json:"hash"` // what it meant
	By   string   `json:"by"`
}

func (FlowRemoved) event() string { return "flow.removed" }

// ImportBegun reports that the events of a task are being imported, in several batches, or that what its removal left
// is deleted first. Until its TaskImported, the task has no rows. It belongs to no task: it is not among those events.
type ImportBegun struct {
	Task     string `json:"task"`
	By       string `json:"by"`
	Events   int    `json:"events"`             // how many will come
	Replaces int64  `json:"replaces,omitempty"` // see TaskImported
}

func (ImportBegun) event() string { return "import.begun" }
