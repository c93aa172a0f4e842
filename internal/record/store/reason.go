package store

// A ReasonKind says what holds a thread up, or what ended it.
type ReasonKind string

// The kinds of reasons. All but the last two are for blocked threads; ReasonWorker is also for those that wait for
// another worker.
const (
	ReasonGate      ReasonKind = "gate"     // a person has to answer or approve
	ReasonInput     ReasonKind = "input"    // a person has to say how to continue
	ReasonAttempts  ReasonKind = "attempts" // a step has used up its attempts
	ReasonLimit     ReasonKind = "limit"    // see Reason.Limit
	ReasonJoin      ReasonKind = "join"     // a join was not satisfied
	ReasonChild     ReasonKind = "child"    // a path or a called thread is blocked
	ReasonConflict  ReasonKind = "conflict" // files of agents cannot be merged without a person
	ReasonWorker    ReasonKind = "worker"   // workers were not able to drive it
	ReasonFailed    ReasonKind = "failed"
	ReasonCancelled ReasonKind = "cancelled"
)

// A Reason says why a thread is blocked, failed or cancelled.
type Reason struct {
	Kind    ReasonKind `json:"kind"`
	Message string     `json:"message"`
	Gate    string     `json:"gate,omitempty"`    // the gate that has to be answered
	Limit   string     `json:"limit,omitempty"`   // which limit
	Raise   string     `json:"raise,omitempty"`   // what would lift it, as KEY=VALUE of a flow's limits
	ResetAt int64      `json:"resetAt,omitempty"` // when a vendor's limit ends, or workers try again, Unix ms
	// Failure is the kind of failure of a step that has used up its attempts, or of a failed path.
	Failure FailureKind `json:"failure,omitempty"`
	// With ReasonWorker: how often in a row workers were not able to drive the thread, since when (Unix ms), and why,
	// by their names.
	Failures int               `json:"failures,omitempty"`
	Since    int64             `json:"since,omitempty"`
	Workers  map[string]string `json:"workers,omitempty"`
}
