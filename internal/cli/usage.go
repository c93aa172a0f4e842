package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/plait-run/plait/internal/control"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/view"
)

// badUsage marks errors of the command line itself.
type badUsage struct{ error }

func (badUsage) Is(target error) bool { return target == control.ErrUsage }

func usagef(format string, args ...any) error { return badUsage{fmt.Errorf(format, args...)} }

// misused is an error in how cmd was called: its help is where to look.
func misused(cmd *cobra.Command, format string, args ...any) error {
	return view.Advise(usagef(format, args...), "see `%s --help`", cmd.CommandPath())
}

// group makes a command that only holds others print its help, and refuse words
// that are none of them.
func group(cmd *cobra.Command) *cobra.Command {
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		return unknownVerb(cmd, args[0])
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	return cmd
}

// unknownVerb is the error of a word that is no command of cmd. The command that was meant is one
// whose other names have the word (SuggestFor), or one spelled nearly so.
func unknownVerb(cmd *cobra.Command, word string) error {
	var names []string
	meant := ""
	for _, c := range cmd.Commands() {
		if c.Hidden {
			continue
		}
		names = append(names, c.Name())
		if slices.Contains(c.SuggestFor, strings.ToLower(word)) {
			meant = c.Name()
		}
	}
	if meant == "" {
		meant = flow.Nearest(word, names)
	}
	if meant == "" {
		return misused(cmd, "unknown command %q", cmd.CommandPath()+" "+word)
	}
	return misused(cmd, "unknown command %q; did you mean `%s %s`?", cmd.CommandPath()+" "+word,
		cmd.CommandPath(), meant)
}

// badFlag says what is wrong with a flag. A word before it that is no command is named instead: the
// flag may well be right, for the command that was meant.
func badFlag(cmd *cobra.Command, err error) error {
	if words := cmd.Flags().Args(); cmd.HasSubCommands() && len(words) > 0 {
		return unknownVerb(cmd, words[0])
	}
	var unknown *pflag.NotExistError
	var invalid *pflag.InvalidValueError
	var bare *pflag.ValueRequiredError
	switch {
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() != "":
		return misused(cmd, "unknown flag -%s", safe(unknown.GetSpecifiedName()))
	case errors.As(err, &unknown):
		name, like := unknown.GetSpecifiedName(), ""
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		if near := flow.Nearest(name, names); near != "" {
			like = "; did you mean --" + near + "?"
		}
		return misused(cmd, "unknown flag --%s%s", safe(name), like)
	case errors.As(err, &invalid):
		return misused(cmd, "invalid value %q for --%s: want %s", safe(invalid.GetValue()), invalid.GetFlag().Name,
			flagKinds[invalid.GetFlag().Value.Type()])
	case errors.As(err, &bare):
		return misused(cmd, "--%s needs a value", bare.GetFlag().Name)
	}
	return misused(cmd, "%s", err)
}

// flagKinds says what flags of a type take.
var flagKinds = map[string]string{
	"bool": "true or false", "int": "a number", "int64": "a number", "duration": "a duration such as 90s, 30m or 1h",
}

// oneOf refuses a value of a flag that is none of some, unless it is empty.
func oneOf(flag, value string, values ...string) error {
	if value == "" || slices.Contains(values, value) {
		return nil
	}
	like := ""
	if near := flow.Nearest(value, values); near != "" {
		like = "; did you mean " + near + "?"
	}
	return usagef("invalid value %q for --%s: use %s%s", safe(value), flag, either(values), like)
}

// either lists words, the last after "or".
func either(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// exactly and atMost are cobra's argument checks with our exit code.
func exactly(n int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != n {
			return misused(cmd, "%s takes %s", cmd.CommandPath(), what)
		}
		return nil
	}
}

func atLeast(n int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < n {
			return misused(cmd, "%s takes %s", cmd.CommandPath(), what)
		}
		return nil
	}
}

func atMost(n int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > n {
			return misused(cmd, "%s takes %s", cmd.CommandPath(), what)
		}
		return nil
	}
}

// newest is the one that was typed, or the newest task of the workspace. Only verbs that read
// may take it so.
func newest(args []string) string {
	if len(args) == 0 {
		return view.Newest
	}
	return args[0]
}
