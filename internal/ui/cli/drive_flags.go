package cli

import (
	"cmp"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/agent/scripted"
	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/flow/parse"
	"github.com/plait-run/plait/internal/record"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/sys/text"
)

// driveFlags are shared by the verbs that make threads continue.
type driveFlags struct {
	prompt string
	about  string // lines that the prompt is about
	agent  string
	sets   []string
	limits []string
	trust  bool
	quiet  bool
	wait   bool
	detach bool

	approve string
	expires time.Duration
	offline string
	merge   string
	agents  positive
	keeps   control.Options // what the task keeps

	comment *thread.Comment // what about means

	workspace string // where to continue
	forks     bool   // nothing continues yet

	on    string // who runs the agents
	needs []string
}

// The values of --approve and --merge.
var (
	approvals = []string{record.ApproveAsk, record.ApproveNever, record.ApproveSandboxed}
	merges    = []string{control.MergeAuto, control.MergeAsk, control.MergeKeep}
)

func (f *driveFlags) add(cmd *cobra.Command, a *app) {
	cmd.Flags().StringVarP(&f.prompt, "prompt", "p", "", "what to do: text, `@FILE`, or - for stdin")
	f.addAgent(cmd, a, "use this `agent` for every role")
	cmd.Flags().StringArrayVar(&f.sets, "set", nil, "use an agent for one role: `ROLE.agent=NAME`")
	cmd.Flags().StringArrayVar(&f.limits, "limit", nil,
		"set a limit: `NAME=VALUE`, such as maxRounds=10, timeout=1h or maxTokens=100000")
	f.addTrust(cmd)
	cmd.Flags().BoolVar(&f.wait, "wait", false,
		"wait for answers when nothing else is left to do (default on a terminal)")
	cmd.Flags().StringVar(&f.approve, "approve", "",
		"approval `policy`: ask (default); never: deny everything; sandboxed: auto-approve inside the sandbox")
	cmd.Flags().DurationVar(&f.expires, "approve-expires", 0,
		"deny automatically after this time (default: wait)")
	addOffline(cmd, &f.offline, "")
	cmd.Flags().StringVar(&f.merge, "merge", "",
		"`how` to merge agents' changes: auto, asking only on conflict (default); ask: always ask; "+
			"keep: leave them on branches")
	cmd.Flags().BoolVar(&f.keeps.Record, "record", false, "record agents' requests to their models, and the responses")
	cmd.Flags().BoolFunc("files", "keep what each step changes in files (default; see plait task pull)",
		func(value string) error {
			on, err := strconv.ParseBool(value)
			f.keeps.Files = &on
			return err
		})
	cmd.Flags().BoolVar(&f.keeps.Sessions, "sessions", false, "keep the agents' own sessions, to continue if their home is lost")
	cmd.Flags().BoolVar(&f.keeps.KeepFiles, "keep-files", false,
		"keep both, and what the files were before, to continue anywhere")
	cmd.Flags().Var(&f.agents, "max-agents", "run at most `N` agents at once")
	completeFlag(cmd, "merge", merges...)
	completeFlag(cmd, "approve", approvals...)
	cmd.Flags().BoolVarP(&f.detach, "detach", "d", false,
		"run in a separate process, which outlives this terminal and waits for answers (see plait logs)")
	f.addQuiet(cmd)
	cmd.RegisterFlagCompletionFunc("set", a.completeRoles)
	cmd.RegisterFlagCompletionFunc("limit", cobra.FixedCompletions(limitNames,
		cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveNoSpace))
}

// addAbout adds the flag of verbs that continue a thread with more input.
func (f *driveFlags) addAbout(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.about, "about", "",
		"what -p is about: `FILE:LINE`, or FILE:LINE-LINE, as the newest step left it")
}

func (f *driveFlags) addAgent(cmd *cobra.Command, a *app, usage string) {
	cmd.Flags().StringVar(&f.agent, "agent", "", usage)
	cmd.RegisterFlagCompletionFunc("agent", a.completeAgents)
}

func (f *driveFlags) addTrust(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.trust, "trust", false, "use project files even though they changed")
}

func (f *driveFlags) addQuiet(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&f.quiet, "quiet", "q", false, "do not show progress")
}

// addOn adds the flags of verbs that leave a task to workers. without says who runs it otherwise.
func (f *driveFlags) addOn(cmd *cobra.Command, a *app, without string) {
	if a.program.Team == nil {
		return
	}
	cmd.Flags().StringVar(&f.on, "on", "", "`who` runs the agents: team, the workers of the record; "+without)
	cmd.Flags().StringSliceVar(&f.needs, "needs", nil, "`labels` that a worker has to have")
	completeFlag(cmd, "on", control.OnTeam)
}

// options reads the flags of a verb that continues a thread.
func (f *driveFlags) options() (control.Options, error) {
	o := control.Options{
		Agent: f.agent, Approve: f.approve, ApproveExpires: flow.Duration(f.expires),
		Offline: f.offline, Merge: f.merge, Record: f.keeps.Record,
		Files: f.keeps.Files, Sessions: f.keeps.Sessions, KeepFiles: f.keeps.KeepFiles,
	}
	err := cmp.Or(oneOf("approve", f.approve, approvals...), oneOf("merge", f.merge, merges...))
	if err != nil {
		return o, err
	}
	if f.expires < 0 {
		return o, usagef("invalid value %s for --approve-expires: want a duration such as 30m", f.expires)
	}
	if o.Offline, err = offlineFlag(f.offline); err != nil {
		return o, err
	}
	if o.Roles, err = parse.ParseAgents(f.sets); err != nil {
		return o, usagef("%s", text.Safe(err.Error()))
	}
	if len(f.limits) > 0 {
		if o.Limits, err = parse.ParseLimits(f.limits); err != nil {
			return o, usagef("--limit: %s", text.Safe(err.Error()))
		}
	}
	o.Limits.MaxConcurrent = cmp.Or(int(f.agents), o.Limits.MaxConcurrent)
	return o, nil
}

// offlineFlag reads --offline: an existing scenario, or offlineAuto.
func offlineFlag(name string) (string, error) {
	if name == "" || name == offlineAuto {
		return name, nil
	}
	if _, err := scripted.Load(name); err != nil {
		return "", usagef("--offline: %w", err)
	}
	if strings.ContainsAny(name, `/\.`) { // a file: resume may be run elsewhere
		return filepath.Abs(name)
	}
	return name, nil
}

// offlineAuto is --offline without a scenario.
const offlineAuto = "auto"

// scenario resolves the name of a scenario. offlineAuto means the one named
// after the flow, or else the one that suits every flow.
func scenario(name, flowName string) string {
	if name != offlineAuto {
		return name
	}
	if slices.Contains(scripted.Names(), flowName) {
		return flowName
	}
	return "work"
}

// addOffline adds --offline. note is added to what the help says.
func addOffline(cmd *cobra.Command, value *string, note string) {
	cmd.Flags().StringVar(value, "offline", "",
		"run agents against a scripted model, without an account: the name of a `scenario`, or a file"+note)
	cmd.Flags().Lookup("offline").NoOptDefVal = offlineAuto
	cmd.RegisterFlagCompletionFunc("offline", completeScenarios)
}

// waits reports whether to wait for people's answers when nothing else is left.
func (a *app) waits(f driveFlags) bool {
	return f.wait || !a.json && isTerminal(a.in) && isTerminal(a.err)
}
