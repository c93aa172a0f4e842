// Package control is the API behind people's commands and pages: it begins tasks, finds flows, forks, cancels,
// removes, records requests, and drives a task with the embedded driver.
//
// It takes a flow and a prompt, or the id of a thread, and returns the thread's row once the thread has ended
// or is blocked. Laws:
//
//   - One process drives a task at a time: the one that holds its lease. A task of the team
//     is driven by workers, thread by thread.
//   - Processes meet only in the store: a request (cancel, resume, more input) is a record, and
//     the driver of the task acts on it.
//   - What is committed is never run again. What a crash cut off runs again if its role
//     allows it; otherwise a person is asked.
//   - Views are drawn after the fact, and never read.
//
// The package decides nothing that flow or engine decide, and reads no configuration file: the caller passes
// what it needs. It takes whole ids only.
package control

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/app/config"
	"github.com/plait-run/plait/internal/engine"
	"github.com/plait-run/plait/internal/engine/attempt"
	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/files/worktree"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/sys/lock"
	"github.com/plait-run/plait/internal/sys/proc"
	"github.com/plait-run/plait/internal/sys/secret"
	"github.com/plait-run/plait/internal/view"
	"github.com/plait-run/plait/internal/view/advice"
	"github.com/plait-run/plait/internal/view/search"
	"github.com/plait-run/plait/internal/view/taskdir"
)

// Config configures a controller.
type Config struct {
	Store    store.Store
	Home     string           // PLAIT_HOME: where views are drawn
	Scratch  string           // where tasks have scratch space for the commands of agents, or ""
	Settings *config.Settings // a person's settings
	// Agent makes an agent from its definition. Relative paths of the definition start at workspace.
	Agent   func(name string, def flow.Agent, o AgentOptions) (agent.Agent, error)
	Bin     string       // the plait executable
	Cell    *proc.Cell   // see attempt.Host
	Secrets *secret.Set  // what is not written down
	Log     *slog.Logger // ids, kinds and durations, never texts; nil: none
	// Watch, if set, is called with the root thread of each task before the task is driven. The function that
	// it returns is called when the driving has ended.
	Watch         func(ctx context.Context, row store.Thread) (stop func())
	NoAgents      error            // why no agent can start here, and so no task can begin; nil: agents can
	Now           func() time.Time // nil: the store's
	Backoff       time.Duration    // see engine.Config
	NotesDebounce time.Duration    // read notes once they have not changed for this long; zero: 300 ms
	Worker        string           // see engine.Config
	Place         worktree.Place   // for tasks without a directory of a person; nil: not supported here
	Program       taskdir.Program  // the program that people type
	Signing       *gate.Signing    // how answers to approvals are signed; nil: they need not be
	PollNotes     bool             // poll for changed notes; otherwise the system is also asked to notify
}

// Types of lower rooms, for the rooms above.
type (
	AgentOptions = attempt.AgentOptions
	Options      = record.Options
)

// How much of a conversation agents see.
const (
	ContextFull    = record.ContextFull
	ContextSummary = record.ContextSummary
)

// What happens at a join to files that paths changed in their own worktrees.
const (
	MergeAuto = record.MergeAuto
	MergeAsk  = record.MergeAsk
	MergeKeep = record.MergeKeep
)

// A Controller drives threads. Methods may be called concurrently.
type Controller struct {
	cfg    Config
	gates  *gate.Service
	reader *thread.Reader
	record *record.Reader
	locks  lock.Locks // of this machine
	host   attempt.Host
	views  *views
	trees  *worktree.Trees
	player engine.Player // of a replay
}

// New returns a controller; it touches nothing.
func New(cfg Config) *Controller {
	if cfg.Now == nil {
		cfg.Now = cfg.Store.Now
	}
	if cfg.Settings == nil {
		cfg.Settings = &config.Settings{}
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	reader := thread.NewReader(cfg.Store)
	host := attempt.Host{Home: cfg.Home, Scratch: cfg.Scratch, Bin: cfg.Bin, Cell: cfg.Cell, Secrets: cfg.Secrets}
	host.Name, host.Boot = proc.Machine()
	var locks lock.Locks
	if cfg.Home != "" {
		locks.Dir = filepath.Join(cfg.Home, "locks")
	}
	trees := worktree.New(worktree.Config{Store: cfg.Store, Reader: reader, Setup: cfg.Settings.Setup.V, Cell: cfg.Cell,
		Place: cfg.Place, Secrets: cfg.Secrets, Discard: cfg.Settings.Discards()})
	return &Controller{
		cfg: cfg, trees: trees, reader: reader,
		gates:  gate.New(gate.Config{Store: cfg.Store, Now: cfg.Now, Signing: cfg.Signing}),
		record: record.New(reader, cfg.Store), locks: locks, host: host,
		views: &views{
			draw:  thread.Views{Dir: cfg.Home, Record: cfg.Store.ID(), Index: cfg.Store},
			board: &taskdir.DirWriter{Store: cfg.Store, Reader: reader, Program: cfg.Program}, locks: locks, journal: cfg.Store,
			index: search.New(&view.Reader{Store: cfg.Store, Nodes: reader, ReadOnly: true}, cfg.Home, worktree.Changed),
		},
	}
}

// Reader returns the reader over the controller's store.
func (c *Controller) Reader() *thread.Reader { return c.reader }

// ErrUsage marks errors that a person can fix by asking differently.
var ErrUsage = attempt.ErrUsage

// usage returns an error that wraps ErrUsage without naming it.
func usage(format string, args ...any) error { return attempt.Usage(format, args...) }

// suggest returns a usage error whose text mentions what can be done instead: args may be options.
func suggest(format string, args ...any) error { return usage("%w", advice.Textf(format, args...)) }

// A Spec describes a task to begin.
type Spec struct {
	Bundle    thread.Bundle
	Prompt    string
	Workspace string  // absolute
	Tree      string  // working tree, when it is not the workspace
	Upload    *Upload // for a task that workers do; nil: they have the same directory
	ID        string  // empty: generated
	Options   Options
}

// check refuses texts that cannot be kept, and directories that agents cannot work in.
func (s Spec) check(ctx context.Context) error {
	texts := map[string]string{
		"the path of the workspace": s.Workspace, "the path of the tree": s.Tree, "the prompt": s.Prompt,
	}
	for what, s := range texts {
		if err := checkText(what, s); err != nil {
			return err
		}
	}
	for _, dir := range []string{s.Workspace, s.Tree} {
		if dir == "" {
			continue
		}
		if _, err := worktree.UnderGit(ctx, dir); err != nil {
			return usage("%w", err)
		}
	}
	return nil
}

// Begin makes a pending root thread. It checks that every role has an agent
// before anything is written.
func (c *Controller) Begin(ctx context.Context, s Spec) (store.Thread, error) {
	if err := s.check(ctx); err != nil {
		return store.Thread{}, err
	}
	if c.cfg.NoAgents != nil && s.Options.On != OnTeam {
		return store.Thread{}, c.cfg.NoAgents
	}
	now := c.cfg.Now()
	id, err := c.newID(s.ID, now)
	if err != nil {
		return store.Thread{}, err
	}
	if err := c.keeps(ctx, &s); err != nil {
		return store.Thread{}, err
	}
	opts, err := json.Marshal(s.Options)
	if err != nil {
		return store.Thread{}, err
	}
	row := store.Thread{ID: id, Workspace: s.Workspace, Tree: s.Tree, Options: opts, CreatedAt: now.UnixMilli()}
	working := row
	if s.Upload != nil {
		working.Workspace = s.Upload.Workspace
	}
	if err := c.agents().Check(working, s.Bundle); err != nil {
		return store.Thread{}, err
	}
	begun := false
	defer func() { // also if the upload fails: it may have been staged
		if s.Upload != nil && !begun {
			c.cfg.Store.Commit(context.WithoutCancel(ctx), store.Batch{Unpin: []string{uploadPin(id)}})
		}
	}()
	uploaded, err := c.upload(ctx, s.Upload, &row)
	if err != nil {
		return store.Thread{}, err
	}
	def := new(flow.Definition)
	if err := json.Unmarshal(s.Bundle.Flows[s.Bundle.Name], def); err != nil {
		return store.Thread{}, fmt.Errorf("flow %s: %w", s.Bundle.Name, err)
	}
	limits, err := record.Limits(row, def, c.cfg.Settings.Limits)
	if err != nil {
		return store.Thread{}, err
	}
	objects, row, err := thread.Begin(thread.NewTask{Row: row, Bundle: s.Bundle, Prompt: s.Prompt,
		MaxRounds: limits.MaxRounds})
	if errors.Is(err, dag.ErrTooLarge) {
		return store.Thread{}, usage("the prompt or the flow does not fit into the record: each may have %d bytes, as JSON; "+
			"put what is long into a file", dag.MaxBytes)
	}
	if err != nil {
		return store.Thread{}, err
	}
	working.Flow = row.Flow
	if err := c.agents().Fits(working, def, s.Prompt); err != nil {
		return store.Thread{}, err
	}
	events := []store.Event{event.New(row, row.CreatedAt, event.TaskCreated{By: gate.Person(), Flow: row.Flow,
		Bundle: row.Bundle, Start: row.Start})}
	if len(def.Plans()) > 0 {
		events = append(events,
			event.New(row, row.CreatedAt, event.ControllerChanged{State: event.Init, Head: row.Head}))
	}
	row, err = c.commitRoot(ctx, store.Batch{Objects: append(objects, uploaded...),
		Threads: []store.ThreadChange{{Row: row}}, Events: events, Unpin: []string{uploadPin(id)}})
	if errors.Is(err, store.ErrConflict) {
		return store.Thread{}, fmt.Errorf("thread %s exists already: %w", id, err)
	}
	if err != nil {
		return store.Thread{}, fmt.Errorf("begin thread %s: %w", id, err)
	}
	begun = true
	return row, c.afterCreate(ctx, row)
}

// keeps sets which of what happens a task keeps: what was asked for, and what the settings say.
func (c *Controller) keeps(ctx context.Context, s *Spec) error {
	s.Options.Record = s.Options.Record || c.cfg.Settings.Record.V
	s.Options.WaitForReset = s.Options.WaitForReset || c.cfg.Settings.Wait.V
	s.Options.Sessions = s.Options.Sessions || c.cfg.Settings.Sessions.V
	s.Options.KeepFiles = s.Options.KeepFiles || c.cfg.Settings.Keep.V || s.Options.On == OnTeam
	asked := s.Options.KeepsFiles()
	if s.Options.Files == nil && c.cfg.Settings.Files.V {
		s.Options.Files = &c.cfg.Settings.Files.V
	}
	if s.Options.KeepsFiles() && s.Upload == nil {
		err := worktree.Whole(ctx, cmp.Or(s.Tree, s.Workspace))
		if err != nil && asked {
			return usage("the files of steps cannot be kept: %w", err)
		}
		if err != nil {
			s.Options.Files = nil
		}
	}
	return nil
}

// checkText refuses what cannot be kept in every store, or be shown.
func checkText(what, s string) error {
	if store.IsText(s) {
		return nil
	}
	return usage("%s is not valid UTF-8, or has a NUL: %.40q", what, s)
}

// newID returns the id of a new task: the one asked for, or a generated one.
func (c *Controller) newID(asked string, now time.Time) (string, error) {
	if asked == "" {
		return thread.NewID(now, rand.Reader)
	}
	id, err := thread.ParseID(asked)
	if err != nil {
		err = usage("%w", err)
	}
	return id, err
}

// commitRoot commits a batch whose first row is a new root thread, and gives that thread its short name.
func (c *Controller) commitRoot(ctx context.Context, b store.Batch) (store.Thread, error) {
	row := &b.Threads[0].Row
	for {
		short, err := thread.ShortID(ctx, c.cfg.Store, row.ID)
		if err != nil {
			return *row, err
		}
		row.Short = short
		err = c.cfg.Store.Commit(ctx, b)
		if err == nil && c.cfg.Place != nil {
			return c.cfg.Store.Thread(ctx, row.ID) // with its directories here
		}
		if !errors.Is(err, store.ErrConflict) {
			return *row, err
		}
		again, readErr := thread.ShortID(ctx, c.cfg.Store, row.ID)
		if readErr != nil || again == short {
			return *row, err
		}
		// Another task took the name meanwhile, perhaps this one: if so, the next commit reports it.
		if _, readErr = c.cfg.Store.Thread(ctx, row.ID); readErr == nil {
			return *row, err
		}
	}
}

// afterCreate draws the views of a new task.
func (c *Controller) afterCreate(ctx context.Context, row store.Thread) error {
	var err error
	if c.cfg.Place != nil && c.cfg.Place.Has(row) {
		err = os.MkdirAll(row.Workspace, 0o755)
	}
	if err == nil {
		err = taskdir.At(row.Workspace, row.ID).Create(c.cfg.Program, Team(row))
	}
	if err == nil {
		err = c.views.directory(ctx, row.ID, false)
	}
	if err == nil {
		err = c.views.flush(ctx, row)
	}
	return ignoreBusy(err) // otherwise it is drawn when it is driven
}

// ignoreBusy returns the error of drawing views of what is committed, nil if another process is still drawing: a view
// that is out of date is no failure of the commit.
func ignoreBusy(err error) error {
	var held *lock.HeldError
	if errors.As(err, &held) {
		return nil
	}
	return err
}

// newEngine returns an engine. With wait, it waits for people's answers.
func (c *Controller) newEngine(wait bool) *engine.Engine { return engine.New(c.engineConfig(wait)) }

func (c *Controller) engineConfig(wait bool) engine.Config {
	return engine.Config{
		Store: c.cfg.Store, Reader: c.reader, Desks: taskdir.Desks{}, Trees: c.trees,
		Agents: c.agents(), Player: c.player, Signing: c.cfg.Signing,
		Limits: c.cfg.Settings.Limits, Machine: c.cfg.Settings.Machine.V,
		Locks: c.locks, Host: c.host, Log: c.cfg.Log, Now: c.cfg.Now, Backoff: c.cfg.Backoff, Wait: wait,
		Worker: c.cfg.Worker,
	}
}

// Agents returns the names of the available agents, in order.
func (c *Controller) Agents() []string { return c.agents().Names() }

// agents returns the agents that a person has defined, and their prices.
func (c *Controller) agents() attempt.Agents {
	set := c.cfg.Settings
	a := attempt.Agents{Defined: make(map[string]flow.Agent, len(set.Agents)), Default: set.Default.V,
		Prices: make(flow.Prices, len(set.Prices)), Make: c.cfg.Agent}
	for name, def := range set.Agents {
		a.Defined[name] = def.V
	}
	for model, p := range set.Prices {
		a.Prices[model] = p.V
	}
	return a
}

// Gates returns the gate service.
func (c *Controller) Gates() *gate.Service { return c.gates }
