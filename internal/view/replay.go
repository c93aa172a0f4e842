package view

import (
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
)

// A Replayed is the result of replaying a task.
type Replayed struct {
	Standing
	Of     string   `json:"of"`     // the recorded task
	Same   bool     `json:"same"`   // the outcome digests are equal
	Digest dag.Hash `json:"digest"` // of the replay
	Then   dag.Hash `json:"recorded"`
	// Step is the first step that differs, 0 for none, and Why says how it differs.
	Step   int           `json:"step"`
	Why    string        `json:"why"`
	Drifts []ReplayDrift `json:"drifts"`
}

// A ReplayDrift is a request to a model that differs from the recorded one but was answered
// anyway.
type ReplayDrift struct {
	Role  string `json:"role"`
	Step  int    `json:"step"`
	Call  int    `json:"call"`
	Where string `json:"where"` // a JSON pointer into its body
	Then  string `json:"recorded"`
	Now   string `json:"now"`
}

// NewReplayed describes row as a replay of the task of.
func NewReplayed(row, of store.Thread) Replayed {
	return Replayed{Standing: NewStanding(row), Of: of.ID, Drifts: []ReplayDrift{}}
}
