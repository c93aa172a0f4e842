package thread

import "github.com/plait-run/plait/internal/record/store"

// A Cue is what happened to a thread at its head when it was recorded, other than what its flow and its agents did.
type Cue struct {
	// Input is what a person said without being asked; nil: nothing.
	Input *store.Request
	// Summarizes names the agent that then summarized the conversation; "": none did.
	Summarizes string
	// End is Cancelled or Failed if the thread then ended like that, and Blocked if nothing more is recorded; "":
	// it went on.
	End store.Status
	// Why explains End.
	Why store.Reason
}

// A Verdict is how a join was decided when it was recorded, and how its paths had ended, by id.
type Verdict struct {
	Outcome, DecidedBy string
	Paths              map[string]store.Status
}
