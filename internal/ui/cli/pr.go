package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/app/forge"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/text"
	"github.com/plait-run/plait/internal/view"
)

// pollForge is how often a forge is asked for news.
const pollForge = 30 * time.Second

func (a *app) prCmd() *cobra.Command {
	cmd := group(&cobra.Command{Use: "pr", Short: "Watch the pull requests of tasks"})
	cmd.AddCommand(a.prWatchCmd())
	return cmd
}

func (a *app) prWatchCmd() *cobra.Command {
	var once, yes bool
	var f driveFlags
	cmd := &cobra.Command{
		Use:   "watch [TASK]",
		Short: "Give checks and review comments to the agents that wrote the lines",
		Long: `Watch the pull request of a task until it is merged or closed. A check that failed, with the end of its
log, and a review comment, with its file and line, become input to the agent that wrote the lines, in its
own conversation: a fork of its task, in a worktree with the files of the branch. What it changes is
committed to the branch; then you are asked before it is pushed, and comments are answered.

Only owners, members and collaborators of the repository, and accounts that your own configuration names
as forge.steer, give agents work. What others say is printed for you. Nothing is merged, and the request
stays a draft until you change that. It can be stopped at any time and started again: nothing is done
twice.

Without a terminal nothing is pushed unless your configuration has forge: {push: always}; the exit code
is then 4, and plait task pr TASK pushes. With --once it does what can be done now, and ends. At most
forge.rounds rounds (5) are done; each has the limits of --limit.

Exit codes: 0 ready, merged, or waiting (--once); 1 checks fail though agents dealt with them, or the
request was closed; 4 needs you; 5 no more rounds.`,
		Example: `  plait pr watch
  plait pr watch k7f2 --once --limit maxCostMicroUSD=2000000`,
		Args:              atMost(1, "one task"),
		ValidArgsFunction: a.completeThreads(),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			opts, err := f.options()
			if err == nil {
				err = a.noAgents()
			}
			if err != nil {
				return err
			}
			w, row, err := a.openTask(ctx, newest(args))
			if err != nil {
				return err
			}
			opts.Offline = scenario(opts.Offline, row.Flow)
			if err := a.consent(w, control.Found{}, f.trust); err != nil {
				return err
			}
			p, err := a.newWatch(ctx, w, row)
			if err != nil {
				return err
			}
			lease, err := w.onlyOne(ctx, p.branch)
			if err != nil {
				return err
			}
			defer lease.Release()
			p.opts, p.agree, p.quiet = opts, a.agreement(yes), f.quiet || a.json
			res, err := p.run(ctx, once)
			return show(a, cmd, res, err, func(out page, v watched) { out.line("%s", text.Safe(v.Says)) })
		},
	}
	cmd.Flags().BoolVar(&once, "once", false, "do what can be done now, and end")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "commit protected files without asking")
	f.addAgent(cmd, a, "use this `agent` for every role")
	f.addTrust(cmd)
	f.addQuiet(cmd)
	cmd.Flags().StringArrayVar(&f.limits, "limit", nil, "set a limit of each round: `NAME=VALUE`")
	addOffline(cmd, &f.offline, "")
	return cmd
}

// A watched is what pr watch prints.
type watched struct {
	Request forge.Request `json:"request"`
	State   forge.Kind    `json:"state"`
	Says    string        `json:"says"`
	Rounds  []string      `json:"rounds"` // ids of tasks
	Others  []said        `json:"others"`
}

// A said is what somebody said who does not steer.
type said struct {
	By   string `json:"by"`
	URL  string `json:"url"`
	Text string `json:"text"`
}

// run looks and acts until there is nothing to do, or with once until it has to wait.
func (p *watch) run(ctx context.Context, once bool) (res watched, err error) {
	for {
		end, err := p.turn(ctx, &res)
		at, later := forge.Later(err)
		switch {
		case later && !once:
			p.tell(err.Error() + "; it is tried again")
		case err != nil:
			return res, err
		case !end:
			continue
		default:
			if code, over := exitOf(res.State, res.Request); over || once {
				p.app.code = cmp.Or(p.app.code, code)
				return res, nil
			}
			p.tell(res.Says)
			at = time.Now().Add(pollForge)
		}
		if err := sleep(ctx, time.Until(at)); err != nil {
			return res, err
		}
	}
}

// turn looks once, and does what is next.
func (p *watch) turn(ctx context.Context, res *watched) (end bool, err error) {
	s, err := p.look(ctx)
	if err != nil {
		return false, err
	}
	*res = p.watched(s)
	m := forge.Next(s)
	res.State = m.Kind
	return p.act(ctx, s, m, res)
}

// tell tells the person what is waited for, unless that was the last word.
func (p *watch) tell(s string) {
	if s != p.told {
		p.told = s
		p.note("%s", s)
	}
}

// exitOf returns the exit code if nothing more is to be done, and whether that is over for good.
func exitOf(k forge.Kind, r forge.Request) (code int, over bool) {
	switch k {
	case forge.Ended:
		if r.State == forge.Closed {
			return exitFailed, true
		}
		return exitDone, true
	case forge.Push, forge.Await:
		return exitPerson, true
	case forge.Spent:
		return exitLimit, true
	case forge.Failing:
		return exitFailed, false
	}
	return exitDone, false
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(max(d, time.Second)):
		return nil
	}
}

// watched says what was seen, and tells the person what others said.
func (p *watch) watched(s forge.Situation) watched {
	res := watched{Request: s.Request, Rounds: []string{}, Others: []said{}}
	for _, r := range s.Rounds {
		res.Rounds = append(res.Rounds, r.Task)
	}
	for _, c := range s.Others() {
		res.Others = append(res.Others, said{c.Author, c.URL, c.Body})
		if !p.shown[c.ID] {
			p.shown[c.ID] = true
			p.note("%s, who does not steer, says: %s (%s)", c.Author, text.OneLine(c.Body, 200), c.URL)
		}
	}
	return res
}

// note tells the person what happens.
func (p *watch) note(format string, args ...any) {
	if !p.app.json {
		fmt.Fprintln(p.app.err, text.Safe(fmt.Sprintf(format, args...)))
	}
}

// act does what was decided. end reports whether there is nothing more to do now.
func (p *watch) act(ctx context.Context, s forge.Situation, m forge.Move, res *watched) (end bool, err error) {
	name := func() string { return p.name(ctx, m.Round.Task) }
	switch m.Kind {
	case forge.Continue:
		p.note("round %s goes on", name())
		return false, p.drive(ctx, m.Round.Task)
	case forge.Settle:
		return false, p.settle(ctx, m.Round)
	case forge.Hand:
		return false, p.hand(ctx, s, m.Items)
	case forge.Respond:
		p.note("answering %s", m.Comment.URL)
		return false, p.respond(ctx, s, m)
	case forge.Push:
		if !p.w.pushes() {
			if p.app.json || !isTerminal(p.app.in) || !p.app.ask("Push "+p.branch+" to "+s.Request.URL+"?") {
				res.Says = "not pushed: " + p.app.says("push it with: plait task pr "+p.name(ctx, p.row.ID))
				return true, nil
			}
		}
		p.note("pushing %s", p.branch)
		return false, p.repo.Push(ctx, p.w.settings.Forge.V.Remote, p.branch)
	case forge.Await:
		if res.Says = fmt.Sprintf("round %s needs you: %s", name(), p.app.says("plait show "+name())); m.Round.State ==
			forge.Working {
			res.Says = "another process drives round " + name()
		}
	case forge.Wait:
		res.Says = "waiting for checks and reviews of " + s.Request.URL
	case forge.Ready:
		res.Says = "ready: every check passed, and nothing is left to answer: " + s.Request.URL
	case forge.Failing:
		res.Says = "checks fail, though agents dealt with them: " + s.Request.URL
	case forge.Spent:
		res.Says = fmt.Sprintf("%s to deal with, and %d rounds are done: raise forge.rounds, or continue by hand",
			text.Count(len(m.Items), "item"), len(s.Rounds))
	case forge.Ended:
		res.Says = "the request is " + s.Request.State
	}
	return true, nil
}

// drive drives the task of a round until it ends or needs a person.
func (p *watch) drive(ctx context.Context, task string) error {
	row, err := p.w.store.Thread(ctx, task)
	if err != nil {
		return err
	}
	stop := p.app.followUnless(p.quiet, p.w, row)
	defer stop()
	_, err = p.w.control.Drive(ctx, task, control.Resume{})
	var held *store.HeldError
	if errors.As(err, &held) {
		return view.Advise(err, "wait for it, or stop it with `plait cancel %s`", p.name(ctx, task))
	}
	return err
}
