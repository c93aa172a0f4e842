package cli

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/plait-run/plait/internal/view"
)

// says returns a text of the program with the name that it has: what it tells people to type works as it stands.
func (a *app) says(text string) string { return a.named.Says(text) }

// rename gives the help of all verbs the name of the program.
func (a *app) rename(root *cobra.Command) {
	a.named = view.Program{Name: a.program.Name}
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

// each calls f with a command and all below it.
func each(cmd *cobra.Command, f func(*cobra.Command)) {
	f(cmd)
	for _, sub := range cmd.Commands() {
		each(sub, f)
	}
}
