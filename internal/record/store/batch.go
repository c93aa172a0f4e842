package store

import "github.com/plait-run/plait/internal/record/dag"

// A Batch is everything that one fact changes. Its parts are applied in the order
// of the fields. Objects that it names must be kept or come with it: a thread's
// start, head and files, an attempt's prompt, transcript, stderr, calls and pins,
// a gate's diff, a flow's hashes. Only newly named objects are checked. A batch puts
// again what its new objects refer to, unless a row or pin reaches it: otherwise a
// collection that is under way may delete it.
//
// Texts of rows and events are valid UTF-8 without NUL; raw JSON and objects are bytes.
//
// A pin belongs to the thread or attempt that it is named after, and is removed with it.
type Batch struct {
	Under    []Fence  // leases that it is made under
	Remove   []string // roots whose whole tree of rows, events, pins and counts is removed
	Objects  []Object
	Threads  []ThreadChange
	Attempts []AttemptChange
	Gates    []GateChange
	Flows    []FlowChange
	Requests []RequestChange
	Counts   []Count
	Redact   Redaction
	Events   []Event
	Unpin    []string // pins that end
}

// A Fence says under which lease a batch is made, and by which holder. The token of a
// lease grows each time it is taken; a batch with any but the latest is refused.
type Fence struct {
	Name  string
	Token int64
}

// A Count adds to what the hosts of a task use up together. If a sum would exceed Most, the
// batch is refused: ErrConflict. A negative Add gives back, and is never refused: the sum
// does not fall below zero. A count is removed with its task.
type Count struct {
	Task string
	Name string
	Add  int64
	Most int64
}

// A ThreadChange inserts a row if From is nil; otherwise it replaces the row if
// its head, status and Intent are still those of From: a request recorded by
// another process is never overwritten unseen, nor are options (IntentOptions).
type ThreadChange struct {
	Row  Thread
	From *ThreadState
}

// A ThreadState is what a change of a thread expects to find.
type ThreadState struct {
	Head   dag.Hash
	Status Status
	Intent Intent
}

// State returns the state that a change of t, as it is now, must expect.
func (t Thread) State() *ThreadState {
	return &ThreadState{Head: t.Head, Status: t.Status, Intent: t.Intent}
}

// An AttemptChange inserts a row if From is empty; otherwise it replaces the row
// if its status is still From.
type AttemptChange struct {
	Row  Attempt
	From AttemptStatus
}

// A GateChange inserts a row if From is empty; otherwise it replaces the row if
// its state is still From and it was last used at UsedAt: using an approval
// leaves its state alone, and of two concurrent users one must lose.
type GateChange struct {
	Row    Gate
	From   GateState
	UsedAt int64
}

// A FlowChange inserts the row if From is zero; otherwise it replaces the row
// if it still refers to From, or deletes it if Delete is set.
type FlowChange struct {
	Row    Flow
	From   dag.Hash
	Delete bool
}

// A RequestChange inserts Row or, if Take is set, takes the request that Row names: if it is
// still open, its TakenAt becomes that of Row, which is not zero, and nothing else of it
// changes. Of two that take a request concurrently one loses, as does a change that takes a
// missing request or inserts an existing one: ErrConflict. A request is removed with its task.
//
// A request by itself wakes no one: its writer files an event along with it.
type RequestChange struct {
	Row  Request
	Take bool
}

// A ThreadFilter selects threads; empty fields select all. Newest selects
// descending order of ids.
type ThreadFilter struct {
	IDs       []string // any of these
	Task      string
	Short     string
	Workspace string
	Kind      ThreadKind
	Bundle    dag.Hash
	Statuses  []Status
	Ended     int64  // only those that ended at this time or later, or have not, Unix ms; 0 for all
	Prefix    string // of the id
	Newest    bool
	After     string // only ids beyond this one, in the requested order
	Limit     int    // zero: all
}

// An AttemptFilter selects attempts; empty fields select all. Order is by
// thread, then by number.
type AttemptFilter struct {
	Task    string
	Thread  string
	Threads []string // any of these
	From    dag.Hash
	Status  AttemptStatus
}

// A GateFilter selects gates; empty fields select all.
type GateFilter struct {
	Task   string
	Thread string
	State  GateState
	Prefix string // of the id
}

// A RequestFilter selects requests; empty fields select all.
type RequestFilter struct {
	Task   string
	Thread string
	Open   bool // only those not yet taken
}

// An EventFilter selects events; empty fields select all. Newest selects
// descending order of positions.
type EventFilter struct {
	Task   string
	Thread string
	Types  []string
	Newest bool
	Before int64 // only positions below this one, zero: all
	Limit  int   // zero: all
}
