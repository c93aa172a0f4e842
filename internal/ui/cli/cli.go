// Package cli is the command line: the verbs, one file each, and the wiring.
//
// Its input is arguments, an environment and a way to open the record; its output
// is text and an exit code. It decides nothing: each verb reads its flags, calls one
// package and prints. It never chooses where the record is stored: the programs
// that have these verbs differ in that.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/itchyny/gojq"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/plait-run/plait/internal/agent/codex"
	"github.com/plait-run/plait/internal/agent/host"
	"github.com/plait-run/plait/internal/agent/scripted"
	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/app/people/notify"
	"github.com/plait-run/plait/internal/engine"
	places "github.com/plait-run/plait/internal/files/place"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/proc"
	"github.com/plait-run/plait/internal/sys/text"
	"github.com/plait-run/plait/internal/view/taskdir"
)

// Exit codes (design §10).
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitNotFound    = 3
	exitPerson      = 4 // blocked: a person must answer
	exitLimit       = 5
	exitVerify      = 6
	exitConflict    = 7
	exitTimeout     = 124
	exitInterrupted = 130
)

// A Program is a program that has these verbs.
type Program struct {
	Name    string // what users type: "plait"
	Release string // the name of a released binary, "" for any other
	// Open opens the record. Home is this machine's directory: of the whole record, or of what
	// is stored next to it.
	Open func(ctx context.Context, home string) (store.Store, error)
	// OpenHome opens a record that is stored in a directory, whatever Open opens: import reads such a
	// record, and export writes one.
	OpenHome func(ctx context.Context, home string) (store.Store, error)

	Verbs   []Verb   // that only this program has
	Without []string // verbs that make no sense with it
	// Doctor examines where the record is stored, before it is opened; nil: it is stored in home.
	Doctor func(ctx context.Context, home string) []Finding
	// Exposed says what agents could read of the record, "" for nothing that matters. If it is set,
	// a person has to allow agents with --unsafe-agents.
	Exposed string
	// Withheld are the beginnings of the names of variables that give access to the record. No agent gets one.
	Withheld []string
	// Team is what workers need; nil: each task is driven by the process that begins or resumes it.
	Team *Team
}

// A Verb is one that only some program has.
type Verb struct {
	Use, Short, Long, Example string
	Flags                     func(*pflag.FlagSet)
	// Run runs the verb. It returns the data of --json, and a function that prints the same for people.
	Run func(ctx context.Context, home string) (data any, human func(io.Writer), err error)
}

// Main runs the verb that args name and returns the exit code.
func (p Program) Main(args []string) int {
	if err := proc.BecomeSubreaper(); err != nil {
		fmt.Fprintln(os.Stderr, p.Name+": warning: processes of agents may outlive them:", err)
	}
	began := time.Now()
	ctx, stop := interruptible()
	defer stop()
	a := &app{program: p, in: os.Stdin, out: os.Stdout, err: os.Stderr, getenv: os.Getenv}
	defer a.close()
	root := a.root()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	code := a.finish(err)
	if a.log != nil {
		a.log.Info("command ended", "command", a.verb, "code", code, "ms", time.Since(began).Milliseconds())
	}
	return code
}

// Command returns the tree of verbs, for what is written about them: man pages and completions.
func (p Program) Command() *cobra.Command { return (&app{program: p}).root() }

// interruptible returns a context that the first interrupt cancels. The second exits the program
// immediately; what is still running is ended by the next resume.
func interruptible() (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // it is ignored under nohup
		signal.Notify(signals, syscall.SIGHUP)
	}
	go func() {
		if _, ok := <-signals; ok {
			cancel(engine.ErrInterrupted)
		}
		if _, ok := <-signals; ok {
			os.Exit(exitInterrupted)
		}
	}()
	return ctx, func() { signal.Stop(signals); cancel(nil) }
}

// An app is one run of the program: where it reads and writes, and what it has
// opened.
type app struct {
	program  Program
	in       io.Reader
	out, err io.Writer
	getenv   func(string) string

	flags
	cell    *proc.Cell      // where agents are started, nil: where this process is
	verb    string          // the command, without its arguments
	named   taskdir.Program // how users type it
	log     *slog.Logger
	logFile *logFile
	keys    keyring
	record  store.Store   // as all machines see it
	store   store.Store   // as this machine sees it
	place   *places.Place // nil: this program has no team
	worker  string        // the name of this machine as a worker
	hosts
	sender *notify.Sender // of notifications, nil until a task is driven
	code   int            // exit code of a verb that did not fail
	said   bool
}

// flags are the flags of all verbs.
type flags struct {
	home    string     // --home
	json    bool       // --json
	jq      *gojq.Code // --jq
	color   string     // --color
	verbose bool       // --verbose
	unsafe  bool       // --unsafe-agents
	plain   bool       // --plain
}

// hosts are what agents work with, each made when the first agent needs it. Agents are made
// concurrently: mu protects all fields, and the sender.
type hosts struct {
	mu        sync.Mutex
	host      *host.Host // where agents run; nil until one is needed
	codex     *codex.Host
	endpoints map[string]*scripted.Server // the scripted models of --offline, by scenario
}

func (a *app) close() {
	if a.sender != nil {
		a.sender.Close()
	}
	for _, s := range a.endpoints {
		s.Close()
	}
	if a.store != nil {
		if err := a.store.Close(); err != nil {
			fmt.Fprintln(a.err, "warning: "+text.OneLine(err.Error(), 400))
		}
	}
	if a.logFile != nil {
		a.logFile.Close()
	}
}

// root builds the tree of verbs.
func (a *app) root() *cobra.Command {
	var expr string
	root := group(&cobra.Command{
		Use:   a.program.Name,
		Short: "Run multi-agent workflows with a record you can verify",
		Long: `Plait runs multi-agent workflows and keeps a record in which no step can be altered unseen.
Each run is a task: you can show it, fork it from any step, resume it after a crash, and verify it.`,
		Example: `  plait run -p "Fix the failing test"     # one agent
  plait run orchestrate -p "…"             # a team of agents
  plait ls                                 # your tasks
  plait show                               # the newest task
  plait open                               # the newest task in the browser`,
		SilenceErrors: true, SilenceUsage: true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: false},
	})
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	flags := root.PersistentFlags()
	flags.BoolVar(&a.json, "json", false, "print JSON: one object, or one a line for streams")
	flags.StringVar(&expr, "jq", "", "print only what this jq `expression` selects from the JSON data")
	flags.StringVar(&a.color, "color", "auto", "use color: auto, always or never")
	flags.BoolVar(&a.plain, "plain", false, "on a terminal, print plain lines and never redraw")
	flags.BoolVar(&a.verbose, "verbose", false, "also print the debug log to stderr")
	flags.StringVar(&a.home, "home", "",
		"directory of the record (default $PLAIT_HOME, else $XDG_DATA_HOME/plait)")
	if a.program.Exposed != "" {
		flags.BoolVar(&a.unsafe, "unsafe-agents", false, "start agents, although they "+a.program.Exposed)
	}
	root.RegisterFlagCompletionFunc("color", cobra.FixedCompletions(colors, cobra.ShellCompDirectiveNoFileComp))
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		a.verb = cmd.CommandPath()
		if err := oneOf("color", a.color, colors...); err != nil {
			return err
		}
		if slices.Contains(drivers, cmd.Name()) && cmd.Flags().Lookup("on") == nil {
			if err := a.noAgents(); err != nil {
				return err
			}
		}
		return a.useJQ(expr)
	}
	root.SetFlagErrorFunc(badFlag)
	root.RunE = func(cmd *cobra.Command, _ []string) error { return a.day(cmd) }
	a.addVerbs(root)
	addCompletion(root)
	a.rename(root)
	return root
}

// exitCode maps an error to the code that scripts branch on.
func exitCode(err error) int {
	var invalid *flow.InvalidError
	switch {
	case err == nil:
		return exitDone
	case errors.Is(err, engine.ErrInterrupted), errors.Is(err, context.Canceled):
		return exitInterrupted
	case errors.As(err, &invalid), errors.Is(err, control.ErrUsage):
		return exitUsage
	case errors.Is(err, store.ErrCorrupt):
		return exitVerify
	case errors.Is(err, store.ErrConflict):
		return exitConflict
	case errors.Is(err, store.ErrNotFound):
		return exitNotFound
	}
	return exitFailed
}

// statusCode maps a thread's status to an exit code. below are the threads under it: if it waits
// for them, their reasons count, starting with those that need a person.
func statusCode(row store.Thread, below []store.Thread) int {
	switch row.Status {
	case store.Completed, store.Pending:
		return exitDone
	case store.Cancelled:
		return exitInterrupted
	case store.Running:
		return exitInterrupted
	case store.Blocked:
		if row.Reason == nil {
			return exitFailed
		}
		switch row.Reason.Kind {
		case store.ReasonAttempts:
			if row.Reason.Failure == store.FailureRoute { // its flow is wrong
				return exitUsage
			}
		case store.ReasonGate, store.ReasonInput, store.ReasonConflict:
			return exitPerson
		case store.ReasonLimit:
			if row.Reason.Limit == "time" {
				return exitTimeout
			}
			return exitLimit
		case store.ReasonChild:
			code := exitFailed
			for _, t := range below {
				if t.Status != store.Blocked || t.Reason == nil || t.Reason.Kind == store.ReasonChild {
					continue
				}
				switch c := statusCode(t, nil); {
				case c == exitPerson:
					return c
				case code == exitFailed:
					code = c
				}
			}
			return code
		}
	}
	return exitFailed
}
