package view

import (
	"cmp"
	"regexp"
	"slices"
)

// A Program is one that shows the record to people. All rooms' texts name what a person may type by the program
// that has no server; what is shown goes through Says, once, on its way out. The zero Program is that program.
type Program struct {
	Name  string   // "" is "plait"
	Verbs []string // what can be typed after it
}

// nameInTexts is the name of the program that keeps its record on one machine.
const nameInTexts = "plait"

// typed is what a person may type.
var typed = regexp.MustCompile(`\b` + nameInTexts + ` (--?[a-z]|[a-z]+)`)

// Says returns a text with the name of the program: what it tells people to type works as it stands.
// Words that are no verb stay.
func (p Program) Says(text string) string {
	if p.name() == nameInTexts {
		return text
	}
	return typed.ReplaceAllStringFunc(text, func(found string) string {
		word := found[len(nameInTexts)+1:]
		if word[0] != '-' && !slices.Contains(p.Verbs, word) {
			return found
		}
		return p.Name + " " + word
	})
}

// Named returns an error whose text is what the program says, and which is err beside that.
func (p Program) Named(err error) error {
	if err == nil || p.Says(err.Error()) == err.Error() {
		return err
	}
	return &namedError{err, p.Says(err.Error())}
}

func (p Program) name() string { return cmp.Or(p.Name, nameInTexts) }

type namedError struct {
	err  error
	text string
}

func (e *namedError) Error() string { return e.text }
func (e *namedError) Unwrap() error { return e.err }
