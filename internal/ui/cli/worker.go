package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/engine"
	"github.com/plait-run/plait/internal/engine/dispatch"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/proc"
	"github.com/plait-run/plait/internal/sys/text"
	"github.com/plait-run/plait/internal/view"
)

// A Team is what a program needs so that workers may drive its tasks.
type Team struct {
	Engines []string // names of engines, the default first
	// Open opens an engine.
	Open func(ctx context.Context, o EngineOptions) (Engine, error)
	// Secrets returns the files and directories that give access to the record.
	Secrets func() []string
	// Servers returns the hosts of the record, which agents on a worker do not reach; nil: there are none.
	Servers func() []string
	// Guarded returns why someone without a secret could change the record from here; nil: no one can.
	Guarded func(ctx context.Context) error
	// Metrics returns what serves the metrics of a worker; nil: there are none.
	Metrics func(w Measured) http.Handler
	// Look is the longest time before a task is looked at again; zero: store.LeaseTTL.
	Look time.Duration
	// Backoff and RetryUnable are those of a worker, see control.WorkerConfig.
	Backoff     engine.Backoff
	RetryUnable time.Duration
}

// Measured is what a worker knows of itself.
type Measured struct {
	Counts  func() control.Counts
	Unable  func() error                                      // why it takes no work now
	Waiting func(ctx context.Context) ([]view.Waiting, error) // in the whole record
	Slots   int                                               // most agents at once; zero: any number
	Dirs    []string                                          // where it writes
	Free    func(dir string) (int64, error)                   // bytes left there for this user
	Version string
}

// EngineOptions select and configure an engine.
type EngineOptions struct {
	Name  string
	Tasks func(ctx context.Context) ([]string, error) // those that have not ended
	Log   *slog.Logger
}

// An Engine holds connections until it is closed.
type Engine interface {
	dispatch.Engine
	io.Closer
	Ping(ctx context.Context) error // why it does not answer
}

// workerFlags are the flags of worker.
type workerFlags struct {
	engine string
	name   string
	labels []string
	most   positive
	listen string
	grace  time.Duration
}

func (a *app) workerCmd() *cobra.Command {
	var f workerFlags
	engines := a.program.Team.Engines
	cmd := &cobra.Command{
		Use:   "worker",
		Short: "Work on the team's tasks until stopped",
		Long: `Work on tasks started with run --on team, together with other workers on the same record. On SIGTERM
or Ctrl-C it starts nothing new, finishes running steps and exits; after --grace, or on a second
signal, it stops its agents, and other workers continue. If it dies, others continue after 30 seconds.

Agents run in namespaces of their own, which end with the worker, and see only the system's files and
those of their task. A worker that cannot isolate them does not start, unless --unsafe-agents is given.

The engine distributes the work: all workers of a record must use the same one. With local, each
worker looks for work itself.`,
		Example: `  plait worker
  plait worker --labels gpu,linux --max-agents 4 --listen :9090`,
		Args: exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(engines); err != nil {
				return err
			}
			return a.work(cmd.Context(), f)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.engine, "engine", engines[0], "`engine` that all workers share: "+strings.Join(engines, ", "))
	flags.StringVar(&f.name, "name", "", "unique `name` of this worker (default: the host's)")
	flags.StringSliceVar(&f.labels, "labels", nil, "`labels` that tasks can require, such as gpu,linux")
	flags.Var(&f.most, "max-agents", "run at most `N` agents at once (default: the configuration's machine.maxConcurrent)")
	flags.StringVar(&f.listen, "listen", "", "serve /metrics and /healthz on this `address`, such as :9090")
	flags.DurationVar(&f.grace, "grace", 10*time.Minute, "how `long` running steps may take after a signal")
	cmd.RegisterFlagCompletionFunc("engine", cobra.FixedCompletions(engines, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// check refuses invalid flags, and fills in the name.
func (f *workerFlags) check(engines []string) error {
	if f.name == "" {
		host, _ := proc.Machine()
		f.name = hostName(host)
	}
	for _, name := range append([]string{f.name}, f.labels...) {
		if !store.LeaseName(name) || len(name) > 50 {
			return usagef("invalid name or label %q: want letters, digits, dots and dashes, 50 at most", text.Safe(name))
		}
	}
	if f.grace < 0 {
		return usagef("invalid value %s for --grace: want a duration such as 10m", f.grace)
	}
	return oneOf("engine", f.engine, engines...)
}

// hostName returns a machine's name, with only what may be in a worker's.
func hostName(host string) string {
	name := strings.Map(func(r rune) rune {
		if store.LeaseName(string(r)) || r == '.' {
			return r
		}
		return '-'
	}, host)
	return strings.TrimLeft(name[:min(len(name), 50)], ".-")
}

// work serves until ctx ends and work in progress has ended.
func (a *app) work(ctx context.Context, f workerFlags) error {
	a.worker = f.name
	if _, err := a.openStore(ctx); err != nil {
		return err
	}
	if a.program.Exposed != "" && !a.unsafe {
		if err := a.isolate(ctx); err != nil {
			return err
		}
	}
	w, err := a.open(ctx, "")
	if err != nil {
		return err
	}
	following, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	places := workplaces{app: a, first: w, open: map[string]*workplace{}}
	log := a.workerLog(following, w.store)
	look := a.program.Team.Look
	worker := control.NewWorker(control.WorkerConfig{Store: w.store, All: a.place.Store(), Open: places.control,
		Tokens: tokensOf(a.record), RecheckEvery: look, Log: a.log, Operator: log,
		Name: f.name, Ready: a.readiness(w).check, Secrets: &a.keys.secrets, Changed: a.tellService(f.name),
		Backoff: a.program.Team.Backoff, RetryUnable: a.program.Team.RetryUnable})
	relay := dispatch.Relay{Store: a.record, Types: control.Moving(), Mine: control.Team, Log: log}
	e, err := a.program.Team.Open(ctx, EngineOptions{Name: f.engine, Tasks: relay.Open, Log: log})
	if err != nil {
		return err
	}
	defer e.Close()
	relay.Poke = func(ctx context.Context, task string) error {
		if err := worker.Recheck(ctx, task); err != nil {
			log.Warn("check the threads driven here", "task", task, "error", err)
		}
		return e.Poke(ctx, task)
	}
	stats, err := a.listen(f.listen, w.store, e, worker, a.measured(f, w, worker))
	if err != nil {
		return err
	}
	defer stats.Close()
	var beside sync.WaitGroup
	defer beside.Wait()
	defer stop()                               // before beside.Wait
	beside.Go(func() { relay.Run(following) }) // events of what is driven while it drains are relayed too
	beside.Go(func() { a.tidy(following, log) })
	drained := make(chan struct{})
	beside.Go(func() { drain(ctx, worker, f.grace, drained) })
	fmt.Fprintf(a.err, "worker %s: engine %s%s\n", f.name, f.engine, a.servedAt(stats))
	beside.Go(func() { a.announce(ctx, f, w) })
	err = worker.Serve(ctx, e, dispatch.Host{ID: f.name, Labels: f.labels, Slots: w.control.Slots(agentsOf(f, w))})
	close(drained)
	if err == nil && errors.Is(context.Cause(ctx), engine.ErrInterrupted) {
		fmt.Fprintf(a.err, "worker %s: stopped; no work is left here\n", f.name)
	}
	return err
}

// tellService returns a function that says whether a worker takes work: why is what keeps it from that.
func (a *app) tellService(name string) func(why error) {
	return func(why error) {
		if why == nil {
			fmt.Fprintf(a.err, "worker %s: in service again\n", name)
			return
		}
		fmt.Fprintf(a.err, "worker %s: out of service: %s\n", name, text.OneLine(why.Error(), 400))
	}
}

// agentsOf returns how many agents of a worker may work at once; zero: any number.
func agentsOf(f workerFlags, w *workplace) int {
	if f.most > 0 {
		return int(f.most)
	}
	return w.settings.Machine.V
}

// drain lets a worker end its steps once ctx has ended, and stops it if that takes longer than grace.
func drain(ctx context.Context, w *control.Worker, grace time.Duration, drained <-chan struct{}) {
	select {
	case <-drained:
		return
	case <-ctx.Done():
	}
	w.Drain()
	select {
	case <-drained:
	case <-time.After(grace):
		w.Halt()
	}
}

// tokensOf returns a store's function that counts how often leases were taken, nil if it has none.
func tokensOf(s store.Store) func(context.Context, []string) (map[string]int64, error) {
	if t, ok := s.(interface {
		Tokens(ctx context.Context, names []string) (map[string]int64, error)
	}); ok {
		return t.Tokens
	}
	return nil
}

// workerLog returns the log of a worker's problems, on standard error.
func (a *app) workerLog(ctx context.Context, s store.Journal) *slog.Logger {
	to := slog.NewTextHandler(a.err, &slog.HandlerOptions{Level: slog.LevelWarn})
	return slog.New(dispatch.Quiet(ctx, to, func(ctx context.Context) error { return answers(ctx, s) }))
}

// answers returns nil if the record responds.
func answers(ctx context.Context, s store.Journal) error {
	_, err := s.Events(ctx, 0, store.EventFilter{Newest: true, Limit: 1})
	return err
}

// workplaces are the directories that tasks belong to, each opened when a task first needs it.
type workplaces struct {
	app   *app
	first *workplace

	mu   sync.Mutex
	open map[string]*workplace
}

func (p *workplaces) control(ctx context.Context, root store.Thread) (*control.Controller, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	dir := root.Workspace
	if p.app.placed(dir) {
		dir = p.first.dir // its settings are this worker's
		if err := os.MkdirAll(root.Workspace, 0o755); err != nil {
			return nil, err
		}
	} else if cell := p.app.cell; cell != nil {
		if _, err := cell.Lend(dir); err != nil {
			return nil, err
		}
	}
	if w := p.open[dir]; w != nil {
		return w.control, nil
	}
	w, err := p.app.open(ctx, dir)
	if err == nil {
		err = p.app.consent(w, control.Found{}, false)
	}
	if err != nil {
		return nil, err
	}
	p.open[dir] = w
	return w.control, nil
}

// onFlag reads --on and --needs.
func onFlag(on string, needs []string) error {
	if on == "" && len(needs) > 0 {
		return usagef("--needs: only with --on team")
	}
	if slices.ContainsFunc(needs, func(l string) bool { return !store.LeaseName(l) || len(l) > 50 }) {
		return usagef("invalid label in %q: want letters, digits, dots and dashes, 50 at most",
			text.Safe(strings.Join(needs, ",")))
	}
	return oneOf("on", on, control.OnTeam)
}
