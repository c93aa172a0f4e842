// Package advice says what a person can do about a task or an error, as values.
//
// How something is done depends on what shows it: a command line, a button. So an [Option] holds no
// program's name and no flag, and a [Text] holds the options that it mentions until the surface that
// shows it has put them into its own words.
package advice

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
)

// A Verb is what a person can do.
type Verb string

// All verbs. What each is done to is in parentheses.
const (
	Approve    Verb = "approve"     // (gate)
	Deny       Verb = "deny"        // (gate)
	Answer     Verb = "answer"      // (gate) with a text
	Resume     Verb = "resume"      // (task, or part of one) continue it
	ResumeTeam Verb = "resume-team" // (task) hand it to the team, and let interrupted attempts run again
	Retry      Verb = "retry"       // (task)
	Fork       Verb = "fork"        // (task)
	Remove     Verb = "remove"      // (task)
	Show       Verb = "show"        // (task)
	ListAll    Verb = "list-all"    // the tasks of all workspaces
	Start      Verb = "start"       // a task
	Record     Verb = "record"      // start a task whose requests to models are recorded
)

// A Need is what an option takes besides an id.
type Need string

// All needs.
const (
	NeedsText  Need = "text"  // the answer, or the prompt
	NeedsLimit Need = "limit" // a limit and its new value
	NeedsStep  Need = "step"  // the step to repeat, or to continue from
)

// An Option is one thing that a person can do.
type Option struct {
	Verb  Verb
	ID    string // of the gate or the thread, "" if the verb takes none
	Name  string // what users type for the thread; "" means ID
	Needs Need   // "" for nothing
	Value string // a sensible value of what it needs, "" for none; a limit is NAME=VALUE
}

// Target returns what users type for what the option is about.
func (o Option) Target() string { return cmp.Or(o.Name, o.ID) }

// String names the option for logs and tests.
func (o Option) String() string { return strings.TrimSpace(string(o.Verb) + " " + o.Target()) }

// A Text is a text for people, and an error with that text. It mentions options.
type Text struct {
	format string
	args   []any
}

// Textf returns the text that fmt.Sprintf returns, in which the args that are options can still be put into words.
func Textf(format string, args ...any) *Text { return &Text{format, args} }

// In returns the text with its options in the given words.
func (t *Text) In(words func(Option) string) string {
	args := make([]any, len(t.args))
	for i, arg := range t.args {
		if o, ok := arg.(Option); ok {
			arg = words(o)
		}
		args[i] = arg
	}
	return fmt.Sprintf(t.format, args...)
}

// Error returns the text with options as String returns them.
func (t *Text) Error() string { return t.In(Option.String) }

// ErrorText returns the text of err, with the options that it mentions in the given words.
func ErrorText(err error, words func(Option) string) string {
	var t *Text
	if !errors.As(err, &t) {
		return err.Error()
	}
	return strings.Replace(err.Error(), t.Error(), t.In(words), 1)
}
