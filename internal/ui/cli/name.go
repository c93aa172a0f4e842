package cli

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/plait-run/plait/internal/view/taskdir"
)

// says returns a text with the program's own name, so that the commands in it can be typed as they are.
func (a *app) says(text string) string { return a.named.Says(text) }

// aside prints a hint to the person on standard error.
func (a *app) aside(hint string) { fmt.Fprintln(a.err, a.style(a.err).dim(a.says(hint))) }

// rename puts the program's name into the help of all verbs.
func (a *app) rename(root *cobra.Command) {
	a.named = taskdir.Program{Name: a.program.Name}
	for _, verb := range root.Commands() {
		a.named.Verbs = append(a.named.Verbs, verb.Name())
	}
	each(root, func(cmd *cobra.Command) {
		cmd.Short, cmd.Long, cmd.Example = a.says(cmd.Short), a.says(cmd.Long), a.says(cmd.Example)
		for _, flags := range []*pflag.FlagSet{cmd.Flags(), cmd.PersistentFlags()} {
			flags.VisitAll(func(f *pflag.Flag) { f.Usage = a.says(f.Usage) })
		}
	})
}

// each calls f with a command and all commands below it.
func each(cmd *cobra.Command, f func(*cobra.Command)) {
	f(cmd)
	for _, sub := range cmd.Commands() {
		each(sub, f)
	}
}
