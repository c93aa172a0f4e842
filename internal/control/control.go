// Package control is the embedded driver: it begins threads, drives them step by
// step until nothing goes on without a person, and brings them back after a
// crash.
//
// In go a flow and a prompt, or a thread id; out comes the thread's row when it
// has ended or is blocked. Laws:
//
//   - One process drives a task at a time: the one that holds its lease.
//   - Processes meet only in the store: a wish (cancel, more input) is a record,
//     and the owner wakes.
//   - What is committed is never run again. What a crash cut off runs again when
//     its role allows it, else a person is asked.
//   - Views are drawn after the fact, and never read.
//
// The package decides nothing that flow decides, and reads no configuration
// file: it is handed what it needs.
package control

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/config"
	"github.com/plait-run/plait/internal/engine"
	"github.com/plait-run/plait/internal/event"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/gate"
	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/task"
	"github.com/plait-run/plait/internal/thread"
)

// Config is what a controller works with.
type Config struct {
	Store    store.Store
	Home     string           // PLAIT_HOME: where views are drawn
	Settings *config.Settings // what a person has set
	// Agent makes an agent from its definition. workspace is where relative
	// paths of the definition start.
	Agent   func(name string, def flow.Agent, o AgentOptions) (agent.Agent, error)
	Bin     string           // the plait executable
	Now     func() time.Time // nil: time.Now
	Random  io.Reader        // of root ids; nil: crypto/rand
	Backoff time.Duration    // see engine.Config
	Still   time.Duration    // how long notes have not changed when they are read; zero: 300 ms
	Looks   bool             // for changed notes now and then; else the system is asked to tell too
}

// AgentOptions say what an agent is made for.
type AgentOptions struct {
	Workspace string
	Offline   string // the scenario of a scripted model, or ""
}

// A Controller drives threads. Methods may be called concurrently.
type Controller struct {
	cfg    Config
	gates  *gate.Book
	reader *thread.Reader
	views  *views
	notes  notebook
}

// New returns a controller; it touches nothing.
func New(cfg Config) *Controller {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Random == nil {
		cfg.Random = rand.Reader
	}
	if cfg.Settings == nil {
		cfg.Settings = &config.Settings{}
	}
	reader := thread.NewReader(cfg.Store)
	return &Controller{
		cfg: cfg, gates: gate.New(gate.Config{Store: cfg.Store, Now: cfg.Now}), reader: reader,
		views: &views{
			draw: thread.Views{Dir: cfg.Home, Index: cfg.Store}, board: &task.DirWriter{Store: cfg.Store, Reader: reader}, leases: cfg.Store,
		},
	}
}

// Reader returns the reader over the controller's store.
func (c *Controller) Reader() *thread.Reader { return c.reader }

// Options is what a task was started with; it is kept in its row, so that a
// resume goes on in the same way.
type Options struct {
	Agent  string            `json:"agent,omitempty"` // for every role
	Roles  map[string]string `json:"roles,omitempty"` // for single roles
	Limits flow.Limits       `json:"limits"`          // over the flow's and the configuration's

	Approve        string        `json:"approve,omitempty"`        // see engine.Approvals
	ApproveExpires flow.Duration `json:"approveExpires,omitempty"` // zero: never
	Offline        string        `json:"offline,omitempty"`        // the scenario of a scripted model
	Merge          string        `json:"merge,omitempty"`          // MergeAuto, MergeAsk or MergeKeep
}

// With returns o with what over sets in its place.
func (o Options) With(over Options) Options {
	o.Agent = cmp.Or(over.Agent, o.Agent)
	o.Approve = cmp.Or(over.Approve, o.Approve)
	o.ApproveExpires = cmp.Or(over.ApproveExpires, o.ApproveExpires)
	o.Offline = cmp.Or(over.Offline, o.Offline)
	o.Merge = cmp.Or(over.Merge, o.Merge)
	roles := make(map[string]string, len(o.Roles)+len(over.Roles))
	for _, from := range []map[string]string{o.Roles, over.Roles} {
		for role, name := range from {
			roles[role] = name
		}
	}
	o.Roles, o.Limits = roles, config.Override(o.Limits, over.Limits)
	return o
}

// empty tells whether o says nothing.
func (o Options) empty() bool {
	return len(o.Roles) == 0 && o.Agent == "" && o.Limits == (flow.Limits{}) && o.Approve == "" && o.ApproveExpires == 0 && o.Offline == "" && o.Merge == ""
}

func optionsOf(row store.Thread) (Options, error) {
	var o Options
	if len(row.Options) > 0 {
		if err := json.Unmarshal(row.Options, &o); err != nil {
			return o, fmt.Errorf("thread %s: options: %w", row.ID, err)
		}
	}
	return o, nil
}

// ErrUsage marks errors that a person can mend by asking differently.
var ErrUsage = errors.New("usage")

// usage returns an error that wraps ErrUsage without naming it.
func usage(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

type usageError struct{ error }

func (e usageError) Unwrap() []error { return []error{ErrUsage, e.error} }

// A Spec is a task to be begun.
type Spec struct {
	Bundle    thread.Bundle
	Prompt    string
	Workspace string // absolute
	Tree      string // working tree, when it is not the workspace
	ID        string // empty: drawn
	Options   Options
}

// Begin makes a pending root thread. It checks that every role has an agent
// before anything is written.
func (c *Controller) Begin(ctx context.Context, s Spec) (store.Thread, error) {
	now := c.cfg.Now()
	id := s.ID
	var err error
	if id == "" {
		id, err = thread.NewID(now, c.cfg.Random)
	} else if id, err = thread.ParseID(id); err != nil {
		err = usageError{err}
	}
	if err != nil {
		return store.Thread{}, err
	}
	opts, err := json.Marshal(s.Options)
	if err != nil {
		return store.Thread{}, err
	}
	row := store.Thread{ID: id, Workspace: s.Workspace, Tree: s.Tree, Options: opts, CreatedAt: now.UnixMilli()}
	def := new(flow.Definition)
	if err := json.Unmarshal(s.Bundle.Flows[s.Bundle.Name], def); err != nil {
		return store.Thread{}, fmt.Errorf("flow %s: %w", s.Bundle.Name, err)
	}
	limits, err := c.limits(row, def)
	if err != nil {
		return store.Thread{}, err
	}
	objects, row, err := thread.Begin(thread.Beginning{Row: row, Bundle: s.Bundle, Prompt: s.Prompt, MaxRounds: limits.MaxRounds})
	if err != nil {
		return store.Thread{}, err
	}
	if err := c.checkAgents(row, s.Bundle); err != nil {
		return store.Thread{}, err
	}
	events := []store.Event{event.New(row, row.CreatedAt, event.TaskCreated{Flow: row.Flow, Bundle: row.Bundle, Start: row.Start})}
	if len(def.Plans()) > 0 {
		events = append(events, event.New(row, row.CreatedAt, event.ControllerChanged{State: event.Init, Head: row.Head}))
	}
	err = c.cfg.Store.Commit(ctx, store.Batch{Objects: objects, Threads: []store.ThreadChange{{Row: row}}, Events: events})
	if errors.Is(err, store.ErrConflict) {
		return store.Thread{}, fmt.Errorf("thread %s exists already: %w", id, err)
	}
	if err != nil {
		return store.Thread{}, fmt.Errorf("begin thread %s: %w", id, err)
	}
	return row, c.begun(ctx, row)
}

// begun draws what people see of a new task.
func (c *Controller) begun(ctx context.Context, row store.Thread) error {
	err := task.At(row.Workspace, row.ID).Create()
	if err == nil {
		err = c.views.directory(ctx, row.ID, false)
	}
	if err == nil {
		err = c.views.flush(ctx, row.Bundle)
	}
	var held *store.HeldError
	if errors.As(err, &held) {
		return nil // others draw for too long; it is drawn when it is driven
	}
	return err
}

// newEngine returns an engine that reads; for a drive, one that does its work.
func (c *Controller) newEngine(full bool, d *drive) *engine.Engine {
	cfg := engine.Config{
		Store: watched{c.cfg.Store, c.views}, Reader: c.reader, Worker: c.worker, Desk: openDesk, Limits: c.limits,
		Home: c.home, Approvals: approvals, Now: c.cfg.Now, Backoff: c.cfg.Backoff, Full: full, Bin: c.cfg.Bin,
		Notes: c.noted, Attached: attached,
	}
	if d != nil {
		cfg.Slot, cfg.Tree, cfg.Snapshot = d.slots.take, d.pathTree, d.snapshot
	}
	return engine.New(cfg)
}

// definition returns the flow that a thread runs.
func (c *Controller) definition(ctx context.Context, row store.Thread) (*flow.Definition, error) {
	return c.newEngine(false, nil).Definition(ctx, row)
}

// home is where agents keep what is their own about a task: outside every
// workspace.
func (c *Controller) home(task string) string { return filepath.Join(c.cfg.Home, "homes", task) }

func approvals(row store.Thread) (engine.Approvals, error) {
	o, err := optionsOf(row)
	return engine.Approvals{Policy: o.Approve, Expires: time.Duration(o.ApproveExpires)}, err
}

// limits returns what bounds a thread: the flow's limits capped by the
// configuration's, and what the task was started with over both.
func (c *Controller) limits(row store.Thread, def *flow.Definition) (flow.Limits, error) {
	o, err := optionsOf(row)
	return config.Override(config.Cap(def.Limits, c.cfg.Settings.Limits), o.Limits), err
}

func (c *Controller) limitsOf(ctx context.Context, row store.Thread) (flow.Limits, error) {
	def, err := c.definition(ctx, row)
	if err != nil {
		return flow.Limits{}, err
	}
	return c.limits(row, def)
}
