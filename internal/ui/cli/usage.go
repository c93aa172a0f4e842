package cli

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/sys/text"
	"github.com/plait-run/plait/internal/view"
)

// badUsage marks errors of the command line itself.
type badUsage struct{ error }

func (badUsage) Is(target error) bool { return target == control.ErrUsage }

func usagef(format string, args ...any) error { return badUsage{fmt.Errorf(format, args...)} }

// misused returns an error in how cmd was called, with a pointer to its help.
func misused(cmd *cobra.Command, format string, args ...any) error {
	return view.Advise(usagef(format, args...), "see `%s --help`", cmd.CommandPath())
}

// group makes a command that only holds others print its help, and refuse words
// that name none of them.
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

// unknownVerb returns the error for a word that is not a command of cmd. It suggests a command
// whose other names include the word (SuggestFor), what to type instead (insteadOf), or a command
// spelled almost like it.
func unknownVerb(cmd *cobra.Command, word string) error {
	path := cmd.CommandPath()
	unknown := fmt.Sprintf("unknown command %q", path+" "+word)
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
	if !cmd.HasParent() {
		if other, ok := insteadOf[strings.ToLower(word)]; ok {
			return misused(cmd, "%s; %s", unknown, fmt.Sprintf(other, path))
		}
		if strings.ContainsAny(word, " \n") { // a prompt, not a command
			return misused(cmd, "to start a task: `%s run -p %q`", path, word)
		}
	}
	if meant == "" {
		meant = text.Nearest(word, names)
	}
	if meant == "" {
		return misused(cmd, "%s", unknown)
	}
	return misused(cmd, "%s; did you mean `%s %s`?", unknown, path, meant)
}

// badFlag says what is wrong with a flag. If a word before it is not a command, that is reported
// instead: the flag may well be right for the intended command.
func badFlag(cmd *cobra.Command, err error) error {
	if words := cmd.Flags().Args(); cmd.HasSubCommands() && len(words) > 0 {
		return unknownVerb(cmd, words[0])
	}
	var unknown *pflag.NotExistError
	var invalid *pflag.InvalidValueError
	var bare *pflag.ValueRequiredError
	switch {
	case errors.As(err, &unknown) && !cmd.HasParent() &&
		slices.Contains([]string{"p", "prompt", "print"}, unknown.GetSpecifiedName()):
		return misused(cmd, "to start a task: `%s run -p \"…\"`", cmd.CommandPath())
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() != "":
		return misused(cmd, "unknown flag -%s", text.Safe(unknown.GetSpecifiedName()))
	case errors.As(err, &unknown):
		name, like := unknown.GetSpecifiedName(), ""
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		if near := text.Nearest(name, names); near != "" {
			like = "; did you mean --" + near + "?"
		}
		return misused(cmd, "unknown flag --%s%s", text.Safe(name), like)
	case errors.As(err, &invalid):
		return misused(cmd, "invalid value %q for --%s: want %s", text.Safe(invalid.GetValue()), invalid.GetFlag().Name,
			flagKinds[invalid.GetFlag().Value.Type()])
	case errors.As(err, &bare):
		return misused(cmd, "--%s needs a value", bare.GetFlag().Name)
	}
	return misused(cmd, "%s", err)
}

// flagKinds says what flags of a type accept.
var flagKinds = map[string]string{
	"bool": "true or false", "int": "a number", "int64": "a number", "duration": "a duration such as 90s, 30m or 1h",
	"positive": "1 or more",
}

// positive is the value of a flag that is a number from 1 up, or 0 if it is not given.
type positive int

func (n *positive) Type() string   { return "positive" }
func (n *positive) String() string { return strconv.Itoa(int(*n)) }

func (n *positive) Set(s string) error {
	v, err := strconv.Atoi(s)
	if err != nil || v < 1 {
		return errors.New("want 1 or more")
	}
	*n = positive(v)
	return nil
}

// oneOf refuses a flag's value unless it is empty or one of values.
func oneOf(flag, value string, values ...string) error {
	if value == "" || slices.Contains(values, value) {
		return nil
	}
	like := ""
	if near := text.Nearest(value, values); near != "" {
		like = "; did you mean " + near + "?"
	}
	return usagef("invalid value %q for --%s: use %s%s", text.Safe(value), flag, either(values), like)
}

// notNegative refuses a negative value of a flag.
func notNegative[N int | int64](flag string, n N) error {
	if n < 0 {
		return usagef("invalid value %d for --%s: want 0 or more", n, flag)
	}
	return nil
}

// either joins words, with "or" before the last.
func either(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// exactly, atLeast and atMost are cobra's argument checks with our exit code.
func exactly(n int, what string) cobra.PositionalArgs { return between(n, n, what) }
func atLeast(n int, what string) cobra.PositionalArgs { return between(n, math.MaxInt, what) }
func atMost(n int, what string) cobra.PositionalArgs  { return between(0, n, what) }

func between(least, most int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < least || len(args) > most {
			return misused(cmd, "%s takes %s", cmd.CommandPath(), what)
		}
		return nil
	}
}

// newest returns the argument, or the newest task of the workspace without one. Only verbs
// that read may default to it.
func newest(args []string) string {
	if len(args) == 0 {
		return view.Newest
	}
	return args[0]
}
