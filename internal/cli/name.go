package cli

import (
	"regexp"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// typed is how texts of all rooms name what a person may type: by the name of the program that has no server.
var typed = regexp.MustCompile(`\bplait (--?[a-z]|[a-z]+)`)

// says returns a text of the program with the name that it has: what it tells people to type works as it stands.
// Words that are no verb stay.
func (a *app) says(text string) string {
	if a.program.Name == nameInTexts {
		return text
	}
	return typed.ReplaceAllStringFunc(text, func(found string) string {
		word := found[len(nameInTexts)+1:]
		if word[0] != '-' && !a.verbs[word] {
			return found
		}
		return a.program.Name + " " + word
	})
}

// nameInTexts is the name of the program that keeps its record on one machine.
const nameInTexts = "plait"

// rename gives the help of all verbs the name of the program.
func (a *app) rename(root *cobra.Command) {
	a.verbs = map[string]bool{}
	for _, verb := range root.Commands() {
		a.verbs[verb.Name()] = true
	}
	if a.program.Name == nameInTexts {
		return
	}
	each(root, func(cmd *cobra.Command) {
		cmd.Short, cmd.Long, cmd.Example = a.says(cmd.Short), a.says(cmd.Long), a.says(cmd.Example)
		for _, flags := range []*pflag.FlagSet{cmd.Flags(), cmd.PersistentFlags()} {
			flags.VisitAll(func(f *pflag.Flag) { f.Usage = a.says(f.Usage) })
		}
	})
}

// each calls f with a command and all below it.
func each(cmd *cobra.Command, f func(*cobra.Command)) {
	f(cmd)
	for _, sub := range cmd.Commands() {
		each(sub, f)
	}
}
