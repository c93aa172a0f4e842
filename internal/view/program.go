package view

import (
	"cmp"
	"regexp"
	"slices"
)

// A Program shows the record to people. Texts name commands as plait's; Says replaces that name
// by the program's own, once, on output. The zero Program is plait.
type Program struct {
	Name  string   // "" is "plait"
	Verbs []string // the commands it has
}

// nameInTexts is the program name that texts use.
const nameInTexts = "plait"

// typed matches a command line in a text.
var typed = regexp.MustCompile(`\b` + nameInTexts + ` (--?[a-z]|[a-z]+)`)

// Says returns text with the program's name in its command lines, so that they can be
// copied. "plait" before anything but a command is left alone.
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

// Named returns an error that wraps err and whose text is p.Says(err.Error()).
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
