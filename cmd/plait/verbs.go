package main

import (
	"github.com/spf13/cobra"
)

// Groups of verbs in the help.
const (
	groupDay    = "day"
	groupNouns  = "nouns"
	groupRecord = "record"
)

// addVerbs gives root its verbs: those for the day, which are flat, and the nouns, which have
// all that there is.
func (a *app) addVerbs(root *cobra.Command) {
	root.AddGroup(
		&cobra.Group{ID: groupDay, Title: "For the day:"},
		&cobra.Group{ID: groupNouns, Title: "All that can be done with:"},
		&cobra.Group{ID: groupRecord, Title: "The record and the set-up:"},
	)
	add := func(group string, verbs ...*cobra.Command) {
		for _, v := range verbs {
			v.GroupID = group
			root.AddCommand(v)
		}
	}
	add(groupDay, a.runCmd(), named("ls", a.taskListCmd()), a.showCmd(), named("logs [TASK]", a.threadLogCmd()),
		a.gateAnswerCmd(), a.gateApproveCmd(), a.gateDenyCmd(), a.resumeCmd(), a.retryCmd(), a.cancelCmd(),
		named("fork TASK[/STEP]", a.threadForkCmd()), a.threadDiffCmd(), named("rm TASK", a.threadRmCmd()), a.uiCmd())
	add(groupNouns, a.taskCmd(), a.threadCmd(), a.flowCmd(), a.gateCmd(), a.casCmd())
	add(groupRecord, a.initCmd(), a.mcpCmd(), a.forwardCmd(), a.verifyCmd(), a.gcCmd(), a.doctorCmd(), a.versionCmd())
	root.Version = version()
	root.SetVersionTemplate("plait {{.Version}}\n")
}

// named is a verb under another name.
func named(use string, cmd *cobra.Command) *cobra.Command {
	cmd.Use = use
	return cmd
}

// showCmd shows whatever is named: a task as task show does, a part of one or a step as thread
// show does.
func (a *app) showCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "show [TASK|PART|STEP]",
		Short: "Show a task, a part of it, or a step",
		Long: `Show the newest task, or the one that is named: its agents, what waits for a person, and
its reports. A part (k7f2/mend), a step (k7f2/3) or a hash is shown as thread show does.
plait task show and plait thread show have more flags.`,
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
