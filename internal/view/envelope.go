package view

import (
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/view/advice"
)

// An Envelope is the one JSON document that --json prints, and the body of an API response.
type Envelope struct {
	Schema string   `json:"schema"`
	OK     bool     `json:"ok"`
	Data   any      `json:"data,omitempty"`
	Error  *Failure `json:"error,omitempty"`
}

// A Failure describes an error.
type Failure struct {
	Code     string         `json:"code"`
	Message  string         `json:"message"`
	Hint     *string        `json:"hint,omitempty"` // what to do about it, nil if there is no advice
	Problems []flow.Problem `json:"problems,omitempty"`
}

// NewEnvelope wraps the result of a command or an API request. name is that of the command:
// "task.show".
func NewEnvelope(name string, data any) Envelope {
	return Envelope{Schema: "plait." + name + "/1", OK: true, Data: data}
}

// NewFailure wraps an error.
func NewFailure(f Failure) Envelope { return Envelope{Schema: "plait.error/1", Error: &f} }

// Answered is a gate that a person answered.
type Answered struct {
	store.Gate
	Driven bool `json:"driven"` // a process is driving its task
	// Summary says in a sentence what happens with the task now, "" if that is not known.
	Summary string `json:"summary,omitempty"`
}

// NewAnswered returns g as shown after its answer.
func NewAnswered(g store.Gate, driven bool) Answered {
	return Answered{Gate: GateRow(g), Driven: driven}
}

// An Advised error also says what to do about it.
type Advised struct {
	Err error
	Do  *advice.Text
}

func (e *Advised) Error() string { return e.Err.Error() }
func (e *Advised) Unwrap() error { return e.Err }

// Advise adds a hint to an error: a text with args as those of [advice.Textf].
func Advise(err error, format string, args ...any) error {
	return &Advised{err, advice.Textf(format, args...)}
}
