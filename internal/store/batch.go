package store

import "github.com/plait-run/plait/internal/dag"

// A Batch is everything that one fact changes. Its parts are applied in the
// order of the fields. Objects that it names must be kept or come with it: a
// thread's start and head, an attempt's prompt, transcript, stderr and pins, a
// gate's diff, a flow's hashes. Only what a change newly names is looked for.
//
// Texts of rows and events are valid UTF-8 without NUL; raw JSON and objects are bytes.
//
// A pin belongs to the thread or attempt that it is named after, and goes with it.
type Batch struct {
	Under    []Fence  // leases that it is made under
	Remove   []string // roots whose whole tree of rows, events, pins and counts goes
	Objects  []Object
	Threads  []ThreadChange
	Attempts []AttemptChange
	Gates    []GateChange
	Flows    []FlowChange
	Wishes   []WishChange
	Counts   []Count
	Events   []Event
	Unpin    []string // pins that end
}

// A Fence says under which lease a batch is made, and which holder's it was. The token
// of a lease grows each time that it is taken; a batch with any but the last is refused.
type Fence struct {
	Name  string
	Token int64
}

// A Count adds to what the hosts of a task use up together. If a sum would be more than
// Most, the batch is refused: ErrConflict. A negative Add gives back, and is never refused:
// what would fall below zero stays there. A count goes with its task.
type Count struct {
	Task string
	Name string
	Add  int64
	Most int64
}

// A ThreadChange inserts a row when From is nil, else replaces the row if its
// head and status are still those of From, and Wanted too: a wish recorded by
// another process is never overwritten unseen.
type ThreadChange struct {
	Row  Thread
	From *ThreadState
}

// A ThreadState is what a change of a thread expects to find.
type ThreadState struct {
	Head   dag.Hash
	Status Status
	Wanted Wanted
}

// State returns what a change of t, as it is now, has to expect.
func (t Thread) State() *ThreadState {
	return &ThreadState{Head: t.Head, Status: t.Status, Wanted: t.Wanted}
}

// An AttemptChange inserts a row when From is empty, else replaces the row if its
// status is still From.
type AttemptChange struct {
	Row  Attempt
	From AttemptStatus
}

// A GateChange inserts a row when From is empty, else replaces the row if its
// state is still From and it was last used at UsedAt: using an approval leaves
// its state, and of two who use it at once one has to lose.
type GateChange struct {
	Row    Gate
	From   GateState
	UsedAt int64
}

// A FlowChange inserts the row when From is zero, else replaces the row if it
// still means From, or deletes it when Delete is set.
type FlowChange struct {
	Row    Flow
	From   dag.Hash
	Delete bool
}

// A WishChange inserts Row, or takes the wish that Row names when Take is set: if it
// is still open its TakenAt becomes that of Row, which is not zero, and nothing else
// of it changes. Of two who take a wish at once one loses, as does whoever takes one
// that is gone or inserts one that is there: ErrConflict. A wish goes with its task.
//
// A wish by itself wakes nobody: whoever leaves one files an event beside it.
type WishChange struct {
	Row  Wish
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
	Prefix    string // of the id
	Newest    bool
	After     string // only ids beyond this one, in the order asked for
	Limit     int    // zero: all
}

// An AttemptFilter selects attempts; empty fields select all. Order is by
// thread, then by number.
type AttemptFilter struct {
	Task   string
	Thread string
	From   dag.Hash
	Status AttemptStatus
}

// A GateFilter selects gates; empty fields select all.
type GateFilter struct {
	Task   string
	Thread string
	State  GateState
}

// A WishFilter selects wishes; empty fields select all.
type WishFilter struct {
	Task   string
	Thread string
	Open   bool // only those that nobody has taken
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
