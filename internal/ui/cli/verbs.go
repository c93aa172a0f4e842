package cli

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/view"
)

// Groups of verbs in the help.
const (
	groupDay    = "day"
	groupNouns  = "nouns"
	groupRecord = "record"
)

// addVerbs gives root its verbs: the flat ones for everyday use, and the nouns, which have
// everything.
func (a *app) addVerbs(root *cobra.Command) {
	root.AddGroup(
		&cobra.Group{ID: groupDay, Title: "Everyday commands:"},
		&cobra.Group{ID: groupNouns, Title: "Commands by noun:"},
		&cobra.Group{ID: groupRecord, Title: "Record and setup:"},
	)
	add := func(group string, verbs ...*cobra.Command) {
		for _, v := range verbs {
			if slices.Contains(a.program.Without, v.Name()) {
				continue
			}
			v.GroupID = group
			root.AddCommand(v)
		}
	}
	add(groupDay, a.runCmd(), named("ls", a.taskListCmd()), a.searchCmd(), a.showCmd(), named("logs [TASK]", a.threadLogCmd()),
		a.gateAnswerCmd(), a.gateApproveCmd(), a.gateDenyCmd(), a.resumeCmd(), a.retryCmd(), a.cancelCmd(),
		named("fork TASK[/STEP]", a.threadForkCmd()), a.threadDiffCmd(), a.blameCmd(), a.bisectCmd(), a.costCmd(),
		a.openCmd(),
		named("rm TASK…", a.threadRmCmd()), a.uiCmd(), a.demoCmd())
	add(groupNouns, a.taskCmd(), a.threadCmd(), a.flowCmd(), a.gateCmd(), a.prCmd(), a.casCmd())
	add(groupRecord, a.initCmd(), a.mcpCmd(), a.forwardCmd(), a.deliverCmd(), a.verifyCmd(), a.proofCmd(), a.attestCmd(),
		a.replayCmd(), a.redactCmd(), a.gcCmd(), a.importCmd(), a.importAgentsCmd(), a.exportCmd(), a.doctorCmd(),
		a.versionCmd())
	if a.program.Team != nil {
		add(groupRecord, a.workerCmd())
	}
	for _, v := range a.program.Verbs {
		add(groupRecord, a.ownCmd(v))
	}
	for name, others := range meantBy {
		if cmd, _, err := root.Find([]string{name}); err == nil {
			cmd.SuggestFor = others
		}
	}
	root.SetHelpCommandGroupID(groupRecord)
	root.SetCompletionCommandGroupID(groupRecord)
	root.Version = a.program.version()
	root.SetVersionTemplate(a.program.Name + " {{.Version}}\n")
}

// ownCmd makes a verb that only this program has.
func (a *app) ownCmd(v Verb) *cobra.Command {
	cmd := &cobra.Command{
		Use: v.Use, Short: v.Short, Long: v.Long, Example: v.Example, Args: exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			home, err := a.findHome()
			if err != nil {
				return err
			}
			data, human, err := v.Run(cmd.Context(), home)
			return show(a, cmd, data, err, func(out page, _ any) { human(out) })
		},
	}
	if v.Flags != nil {
		v.Flags(cmd.Flags())
	}
	return cmd
}

// drivers are the verbs that start agents, besides worker, which isolates them, and resume, retry and run --on,
// which first check whether workers do. Other verbs that may start some, after an answer or on a page, learn from
// control that none is started here.
var drivers = []string{"run", "replay", "compact", "mcp", "demo"}

// noAgents returns why no agent may be started here, unless the person allows it.
func (a *app) noAgents() error {
	if a.program.Exposed == "" || a.unsafe || a.cell != nil {
		return nil
	}
	return view.Advise(usagef("agents started here %s", a.program.Exposed),
		"add --unsafe-agents if you trust them, and everything they read, with this access")
}

// meantBy lists what verbs are called in other programs.
var meantBy = map[string][]string{
	"run":     {"start", "exec", "begin", "go"},
	"ls":      {"list", "ps", "status", "tasks", "runs"},
	"search":  {"find", "grep", "lookup"},
	"show":    {"view", "describe", "inspect", "get", "cat", "info"},
	"logs":    {"log", "tail", "events", "history"},
	"answer":  {"reply", "respond", "say"},
	"approve": {"accept", "allow", "yes", "ok"},
	"deny":    {"reject", "refuse", "decline", "no"},
	"resume":  {"continue", "restart", "attach"},
	"cancel":  {"stop", "kill", "abort", "end"},
	"rm":      {"remove", "delete", "del"},
	"diff":    {"compare"},
	"ui":      {"web", "serve", "dashboard", "browse"},
	"flow":    {"flows", "workflow", "workflows"},
	"gate":    {"gates", "questions", "approvals"},
	"doctor":  {"check", "config", "health"},
}

// insteadOf says what to type instead of commands of other programs, where no single verb does the same. %[1]s is the
// name of this program.
var insteadOf = map[string]string{
	"login": "agents are logged in to with their own programs, such as `codex login`; `%[1]s doctor` says which are",
	"inbox": "what waits for you: `%[1]s`, which is a full screen, or `%[1]s gate list`",
	"watch": "to watch all tasks: `%[1]s`, or one: `%[1]s task watch TASK`",
	"chat":  "to chat with an agent: `%[1]s run chat`",
	"new":   "to start a task: `%[1]s run -p \"…\"`, or a flow file: `%[1]s flow new NAME`",
	"merge": "work is merged when its task ends, or once you approve it; " +
		"what is left over: `%[1]s task branches TASK`, and to fetch it: `%[1]s task pull TASK`",
	"commit": "a task's changes are in your working tree when it ends; " +
		"commit them with `%[1]s task commit TASK`, or look at them with `%[1]s open TASK`",
	"agents": "which agents can be used: `%[1]s doctor`; those of a task: `%[1]s show TASK`",
	"prompt": "to start a task: `%[1]s run -p \"…\"`",
}

// named returns a verb under another name.
func named(use string, cmd *cobra.Command) *cobra.Command {
	cmd.Use = use
	return cmd
}

// showCmd shows whatever is named: a task as task show does, a part or a step as thread show
// does.
func (a *app) showCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "show [TASK|PART|STEP]",
		Short: "Show a task, a part of it, or a step",
		Long: `Show a task: what needs you, its result and changes, its agents and reports; the newest one by
default. A part (k7f2/fix), a step (k7f2/3) or a hash is shown as by plait thread show.`,
		Example: `  plait show
  plait show k7f2/fix
  plait show last~1/3`,
		Args:              atMost(1, "one task, part or step"),
		ValidArgsFunction: a.completeThreads(),
		RunE: func(cmd *cobra.Command, args []string) error {
			_, what, err := a.openShown(cmd.Context(), newest(args))
			if err != nil {
				return err
			}
			noun := "thread"
			if what.Row.ID != "" && what.Row.ID == what.Row.Task {
				noun = "task"
			}
			show, _, err := cmd.Root().Find([]string{noun, "show"})
			if err != nil {
				return err
			}
			show.SetContext(cmd.Context())
			return show.RunE(show, args)
		},
	}
}
