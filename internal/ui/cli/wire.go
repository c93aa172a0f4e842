package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/plait-run/plait/internal/agent/scripted"
	"github.com/plait-run/plait/internal/app/config"
	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/app/people/notify"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/proc"
	"github.com/plait-run/plait/internal/sys/text"
	"github.com/plait-run/plait/internal/view"
	"github.com/plait-run/plait/internal/view/taskdir"
)

// openStore opens the record, once. An agent gets no access: it sees what it was lent.
func (a *app) openStore(ctx context.Context) (store.Store, error) {
	if a.store != nil {
		return a.store, nil
	}
	if a.getenv("PLAIT_CONTEXT") != "" || a.getenv("PLAIT_TASK") != "" {
		return nil, errInside
	}
	home, err := a.findHome()
	if err != nil {
		return nil, err
	}
	workspace, err := config.Workspace(".")
	if err != nil {
		return nil, err
	}
	if err := checkOutside(workspace, home); err != nil {
		return nil, err
	}
	s, err := a.program.Open(ctx, home)
	if err != nil && a.program.Doctor != nil { // it is not stored in home
		return nil, view.Advise(fmt.Errorf("open the record: %w", err), "run %s doctor", a.program.Name)
	}
	var cause syscall.Errno
	if errors.As(err, &cause) && !errors.Is(err, store.ErrBroken) {
		return nil, view.Advise(fmt.Errorf("open the record in %s: %w", home, cause),
			"set PLAIT_HOME to a directory that you can write to")
	}
	if errors.Is(err, store.ErrCorrupt) { // verify could not open it either
		return nil, view.Advise(fmt.Errorf("open the record in %s: %w", home, err),
			"restore plait.db from a copy, or set PLAIT_HOME to another directory")
	}
	if err != nil {
		return nil, fmt.Errorf("open the record in %s: %w", home, err)
	}
	if inside, err := insideAgent(ctx, s); err != nil || inside {
		s.Close()
		return nil, cmp.Or(err, errInside)
	}
	a.openLog(home)
	if err = a.adopt(ctx, s, home); err == nil {
		a.store, err = a.openPlace(a.notary(s, home), home)
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	a.record = s
	if layout, ok := s.(interface{ Schema() (found, now int) }); ok && a.log != nil {
		found, now := layout.Schema()
		a.log.Info("store opened", "schema", now)
		if found != 0 && found != now {
			a.log.Info("store migrated", "from", found, "to", now)
		}
	}
	return a.store, nil
}

// errInside says that an agent requests what only a person may see or do.
var errInside = usagef("inside an agent only cas get, cas refs and cas walk work, on the agent's input")

// insideAgent reports whether this process was started by an attempt that the record lists
// as running, whatever the environment says.
func insideAgent(ctx context.Context, s store.Store) (bool, error) {
	if !proc.Marked() {
		return false, nil
	}
	running, err := s.Attempts(ctx, store.AttemptFilter{Status: store.AttemptRunning})
	return slices.ContainsFunc(running, func(at store.Attempt) bool { return proc.MarkedBy(at.Tag) }), err
}

// checkOutside makes sure that no record is created where agents can write. An existing one can be read
// there: a person's home directory is the workspace of what is done in it.
func checkOutside(workspace, home string) error {
	if err := config.Outside(workspace, home); err != nil && !exists(filepath.Join(home, "plait.db")) {
		return badUsage{err}
	}
	return nil
}

func (a *app) findHome() (string, error) {
	if a.home != "" {
		return filepath.Abs(a.home)
	}
	return config.Home(a.getenv)
}

// A workplace is what most verbs work with.
type workplace struct {
	dir       string // where the person is
	workspace string
	home      string
	settings  *config.Settings
	store     store.Store
	control   *control.Controller
	named     taskdir.Program
}

// open opens the workplace of the current directory, or of dir.
func (a *app) open(ctx context.Context, dir string) (*workplace, error) {
	w := &workplace{named: a.named}
	var err error
	if a.placed(dir) {
		dir = "" // there are no settings there
	}
	if w.dir, err = filepath.Abs(dir); err != nil { // for "", the current directory
		return nil, fmt.Errorf("find the current directory: %w", err)
	}
	if w.workspace, err = config.Workspace(w.dir); err != nil {
		return nil, badUsage{err}
	}
	if w.home, err = a.findHome(); err != nil {
		return nil, err
	}
	if err := checkOutside(w.workspace, w.home); err != nil {
		return nil, err
	}
	if w.settings, err = config.Load(config.UserFile(), config.ProjectFile(w.workspace), a.getenv); err != nil {
		return nil, err
	}
	if w.store, err = a.openStore(ctx); err != nil {
		return nil, err
	}
	bin, err := os.Executable()
	if err != nil {
		bin = ""
	}
	cfg := control.Config{Store: w.store, Home: w.home, Scratch: config.ScratchDir(),
		Settings: w.settings, Agent: a.newAgent,
		Bin: bin, Log: a.log, Watch: a.watch(w), NoAgents: a.noAgents(), Worker: a.worker, Cell: a.cell,
		Secrets: &a.keys.secrets, Program: a.named, Signing: a.signing(w)}
	if a.place != nil {
		cfg.Place = a.place
		a.listTeam(ctx, w)
	}
	w.control = control.New(cfg)
	return w, nil
}

// view returns the record as it is shown to people.
func (w *workplace) view() *view.Reader {
	return &view.Reader{Store: w.store, Nodes: w.control.Reader(), Workspace: w.workspace, Vouches: vouching}
}

// openEndpoint starts the scripted model of a scenario, once each. They end with the
// program.
func (a *app) openEndpoint(scenario string) (*scripted.Server, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if s := a.endpoints[scenario]; s != nil {
		return s, nil
	}
	sc, err := scripted.Load(scenario)
	if err != nil {
		return nil, fmt.Errorf("--offline: %w", err)
	}
	s, err := scripted.Open(scripted.Config{Scenario: sc})
	if err != nil {
		return nil, err
	}
	if a.endpoints == nil {
		a.endpoints = map[string]*scripted.Server{}
	}
	a.endpoints[scenario] = s
	return s, nil
}

// consent makes sure that the person agreed to the project files that define agents
// or what they may do: the configuration's, and the flow's.
func (a *app) consent(w *workplace, f control.Found, trust bool) error {
	t, commands, others, err := w.trust(f)
	if err != nil {
		return err
	}
	changed := t.Check(commands)
	if len(changed) > 0 && !trust {
		for _, c := range changed {
			if !a.json {
				fmt.Fprintln(a.err, text.Safe(string(diff.Diff(c.File+" (trusted)", []byte(c.Old), c.File, []byte(c.New)))))
			}
		}
		if a.json || !isTerminal(a.in) || !a.ask("Use the changed "+text.Safe(changedFiles(changed))+"?") {
			return usagef("%s changed since it was last used; look at the change, then allow it with --trust",
				changedFiles(changed))
		}
	}
	return t.Consent(both(commands, others))
}

func both(commands, others map[string][]byte) map[string][]byte {
	all := maps.Clone(commands)
	maps.Copy(all, others)
	return all
}

// trust returns what the person has agreed to so far, the project files that define agents or what they may do, which
// are the configuration's and the flow's, and those that do not: once they do, the person is asked.
func (w *workplace) trust(f control.Found) (t *config.Trust, commands, others map[string][]byte, err error) {
	commands, others = map[string][]byte{}, map[string][]byte{}
	if f.DefinesAgents {
		maps.Copy(commands, f.Files)
	} else {
		maps.Copy(others, f.Files)
	}
	project := config.ProjectFile(w.workspace)
	from := []string{w.settings.Setup.From}
	for _, v := range w.settings.Agents {
		from = append(from, v.From)
	}
	if slices.ContainsFunc(from, func(place string) bool { return strings.HasPrefix(place, project) }) {
		commands[project] = w.settings.Project
	} else if w.settings.Project != nil {
		others[project] = w.settings.Project
	}
	t, err = config.OpenTrust(w.home)
	return t, commands, others, err
}

func changedFiles(changed []config.Changed) string {
	var names []string
	for _, c := range changed {
		names = append(names, c.File)
	}
	return strings.Join(names, ", ")
}

// openThread opens the workplace of the current directory and finds the thread that was
// typed; see view.Reader.Find.
func (a *app) openThread(ctx context.Context, typed string) (*workplace, store.Thread, error) {
	w, err := a.open(ctx, "")
	if err != nil {
		return nil, store.Thread{}, err
	}
	row, err := w.threadID(ctx, typed)
	return w, row, err
}

// openThreads is openThread for several threads.
func (a *app) openThreads(ctx context.Context, typed []string) (*workplace, []store.Thread, error) {
	w, err := a.open(ctx, "")
	if err != nil {
		return nil, nil, err
	}
	rows := make([]store.Thread, len(typed))
	for i, name := range typed {
		if rows[i], err = w.threadID(ctx, name); err != nil {
			return nil, nil, err
		}
	}
	return w, rows, nil
}

// threadID finds the thread that was typed, and refuses a step.
func (w *workplace) threadID(ctx context.Context, typed string) (store.Thread, error) {
	row, step, err := w.view().Find(ctx, typed)
	if err == nil && step != "" {
		err = usagef("%s is a step: a task or a part of one is wanted", text.Safe(typed))
	}
	return row, err
}

// watch returns a function that notifies the person of driven tasks, or nil if they want no notifications.
func (a *app) watch(w *workplace) func(ctx context.Context, row store.Thread) (stop func()) {
	to := w.settings.Notify.V
	if len(to.Command) == 0 && to.Webhook == "" {
		return nil
	}
	return func(ctx context.Context, row store.Thread) (stop func()) {
		return notify.Watch(ctx, w.view(), a.notifier(notify.Config{To: to, Dir: w.home, Log: a.log}), row)
	}
}

// notifier returns the sender of notifications, one for all workplaces: the person's own configuration says where to.
func (a *app) notifier(cfg notify.Config) *notify.Sender {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.sender == nil {
		a.sender = notify.NewSender(cfg)
	}
	return a.sender
}
