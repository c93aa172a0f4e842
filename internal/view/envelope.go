package view

import (
	"fmt"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/store"
)

// An Envelope is what --json prints, once, last, and what the API answers.
type Envelope struct {
	Schema string   `json:"schema"`
	OK     bool     `json:"ok"`
	Data   any      `json:"data,omitempty"`
	Error  *Failure `json:"error,omitempty"`
}

// A Failure says what went wrong.
type Failure struct {
	Code     string         `json:"code"`
	Message  string         `json:"message"`
	Hint     *string        `json:"hint,omitempty"` // what to do about it, if there is a hint
	Problems []flow.Problem `json:"problems,omitempty"`
}

// NewEnvelope wraps what a verb of the command line, or a request of the API, returns.
// The name is that of the verb: "task.show".
func NewEnvelope(name string, data any) Envelope {
	return Envelope{Schema: "plait." + name + "/1", OK: true, Data: data}
}

// NewFailure wraps an error.
func NewFailure(f Failure) Envelope { return Envelope{Schema: "plait.error/1", Error: &f} }

// Answered is a gate that a person answered.
type Answered struct {
	store.Gate
	Driven bool `json:"driven"` // a process goes on with it
	// Summary says in a sentence what became of the task, "" if that is not known.
	Summary string `json:"summary,omitempty"`
}

// NewAnswered returns the gate g as it is shown after its answer.
func NewAnswered(g store.Gate, driven bool) Answered {
	return Answered{Gate: GateRow(g), Driven: driven}
}

// An Advised error says what to do about it, beside what is wrong.
type Advised struct {
	Err error
	Do  string
}

func (e *Advised) Error() string { return e.Err.Error() }
func (e *Advised) Unwrap() error { return e.Err }

// Advise adds to an error what to do about it.
func Advise(err error, format string, args ...any) error {
	return &Advised{Err: err, Do: fmt.Sprintf(format, args...)}
}
