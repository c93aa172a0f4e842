package flow

// A Step is a step as routing sees it: its role, meta and text. The step of a join also has Paths.
type Step struct {
	Role  string
	Meta  map[string]any
	Body  string
	Paths map[string]PathResult
}

// A PathResult is a path as a join's routes see it. A cancelled path only has a status. The text
// of an action is its [Outcome].
type PathResult struct {
	Status  string
	Failure string // the kind of failure, "" if unknown
	Meta    map[string]any
	Text    string
}

// At is what routing needs of a thread besides its steps: its flow's name, its own prompt, and,
// inside a fork, the id of its path.
type At struct {
	Flow   string
	Prompt string
	Path   string
}

// A Decision is what comes next: [Run], [Call], [Fork], [AtJoin], [Gate], [Blocked] or [End].
type Decision interface{ decision() }

// Run means that Role is next. Location is empty if the route names none. It is also empty if a
// suspended role runs again: the role then stays where it was.
type Run struct {
	Role     string
	Prompt   string
	Location string
}

// Call means that Role is next and that Flow does its work, in a child thread.
type Call struct {
	Role     string
	Flow     string
	Prompt   string
	Location string
}

// Fork means that the paths of the fork Node are next. It is returned as long as a thread's last
// step leads to a fork, until the step of the join exists.
//
// The fork of a plan has the plan role as its node, [JoinRole] as its join, and a path for each
// action.
type Fork struct {
	Node string
	ForkSpec
	Rule JoinSpec // of its join
	Plan *Plan    // nil for a fork of the flow
}

// AtJoin means that a path has reached its join.
type AtJoin struct{ Join string }

// Summary returns the summary of a thread that ends at the join because no other waits for it there.
func (j AtJoin) Summary() string { return "reached join " + j.Join }

// Gate means that the thread waits for a person at the gate Node. Their answer is a step: its Role
// is Node, its meta {$status, answer} with one of [GateSpec.Statuses], its Body the answer.
//
// Question is the gate's question, followed by separate paragraphs with what the route to it adds
// and what a person added since the previous step. The other fields are as in [GateSpec].
type Gate struct {
	Node      string
	Kind      string
	Question  string
	Options   []string
	Timeout   Duration
	OnTimeout string
	// Input means that the role Node asks, and that the answer is a step of [InputRole].
	Input bool
}

// Kinds of [Blocked].
const (
	BlockedInput = "input" // a role talks with a person, who has not answered yet
	BlockedRoute = "route" // the graph has no route; see Reason
)

// Blocked means that the thread cannot continue without a person.
type Blocked struct {
	Reason string
	Kind   string
}

// End means that the thread is over.
type End struct {
	Code    int
	Summary string
	Default bool // the route has no text: Summary is the first line of the last output
}

func (Run) decision() {}

func (Call) decision() {}

func (Fork) decision() {}

func (AtJoin) decision() {}

func (Gate) decision() {}

func (Blocked) decision() {}

func (End) decision() {}
