package taskdir

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

func (p Program) name() string { return cmp.Or(p.Name, nameInTexts) }
