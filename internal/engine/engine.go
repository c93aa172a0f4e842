// Package engine takes one thread one step further: decide, attempt, run the
// agent, extract, commit.
//
// In goes the name of a thread and the head to start from; out comes the row as
// it is afterwards. The shape of a step:
//
//	decide    flow.Next over the record: pure
//	batch A   prompt, attempt row, attempt.started      before the process
//	run       the agent works; news goes out as agent.item
//	extract   output → meta, text, artifacts
//	batch B   nodes, head, row, attempt row, events     the step exists
//
// Laws:
//
//   - Step is keyed by (thread, from) and safe to repeat: the first commit wins,
//     a later one adopts it or is superseded.
//   - One commit point per step: a crash before batch B leaves an attempt without
//     a step, one after it leaves nothing to do.
//   - What an agent does wrong is recorded, not returned. An error from Step
//     means that the record could not be kept: stop.
//   - One goroutine drives a thread at a time; the caller sees to that.
//
// The engine holds no rule about roles (flow does), starts no process itself
// (agents do) and never waits for a person.
package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/dag"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/gate"
	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/thread"
)

// ErrInterrupted as the cause of a cancelled context asks Step to stop the agent
// and leave the thread as it is, to be resumed.
var ErrInterrupted = errors.New("interrupted")

// A Worker is the agent that does a role's work, and what it is called.
type Worker struct {
	Agent agent.Agent
	Name  string
	Idle  time.Duration // time without output, zero: none
	// Summarises says that the agent can be asked to summarise a conversation.
	Summarises bool
}

// A Desk is the directory of one instance, open for one attempt.
type Desk interface {
	// Agent returns what the agent is given. The artifacts directory is empty
	// and the logs are ready to be appended to.
	Agent() agent.Desk
	// Transcript and Stderr return what this attempt added to the logs.
	Transcript() (io.ReadCloser, int64, error)
	Stderr() (io.ReadCloser, int64, error)
	// Artifacts returns the artifacts directory, held open since it was made.
	Artifacts() *os.Root
	// Keep writes files for the agent to read into the context directory.
	Keep(name string, data []byte) error
	// Close notes the session and closes the desk.
	Close(session string) error
}

// A Slot is the right of an agent to be at work, until Release. Between Pause and
// Resume the agent waits for a person, and others may be at work in its place.
type Slot interface {
	Pause()
	Resume(ctx context.Context) error
	// Rest says that nothing of the agent goes on until a person answers; Wake ends that.
	// The channel is closed when the same holds for all of the task. It is nil where people's
	// answers are waited for.
	Rest() (quiet <-chan struct{})
	Wake()
	Release()
}

// Config is what an engine works with.
type Config struct {
	Store interface {
		store.Objects
		store.Index
		store.Journal
	}
	Reader *thread.Reader

	// Worker returns the agent for a role. Its error blocks nothing and
	// records nothing: it is returned from Step.
	Worker func(row store.Thread, name string, role flow.Role) (Worker, error)
	// Desk opens the desk of an instance.
	Desk func(row store.Thread, instance, attempt string) (Desk, error)
	// Home returns the directory of a task for what agents keep to themselves.
	// Nil: they have none.
	Home func(task string) string
	// Approvals returns how a thread's requests for approval are dealt with.
	// Nil: people are asked.
	Approvals func(row store.Thread) (Approvals, error)
	// Notes returns what people noted for a task, oldest first. after names the last
	// attempt that was told, whose notes are left out, or is "". Nil: nothing.
	Notes func(ctx context.Context, row store.Thread, after string) ([]string, error)
	// Attached returns what every agent of a task is handed. Nil: nothing.
	Attached func(row store.Thread) []Attachment
	// Limits returns what bounds a thread.
	Limits func(row store.Thread, def *flow.Definition) (flow.Limits, error)
	// Slot waits until one more agent of a task may be at work. Nil: any number may.
	Slot func(ctx context.Context, row store.Thread, role flow.Role) (Slot, error)
	// Tree returns the working tree of a path or child that is about to be made.
	// Nil: its parent's.
	Tree func(ctx context.Context, parent, row store.Thread) (string, error)
	// Snapshot returns the git tree of a thread's working tree, kept under a name
	// of the thread's; "" when there is no git. Nil: nobody asks.
	Snapshot func(ctx context.Context, row store.Thread, name string) (string, error)

	Now     func() time.Time // nil: time.Now
	Backoff time.Duration    // before the second try after a fault, doubled each time; zero: 1 s
	Full    bool             // look past compact marks when a prompt is assembled
	Bin     string           // the plait executable, for PLAIT_BIN
}

// An Attachment is a file that an agent is handed, and what its prompt says of it.
type Attachment struct {
	Line string
	Name string // in the context directory; "": there is no file
	Data []byte
}

// An Engine steps threads. Make one with New.
type Engine struct {
	cfg   Config
	gates *gate.Book

	ledger ledger

	mu      sync.Mutex
	cursors map[string]*cursor
	seeds   map[string]*cursor // of paths that have not begun
	bundles map[dag.Hash]*thread.Bundle
	flows   map[string]*flow.Definition // by bundle hash and flow name, of actions by their thread or fork

	evidence map[string]*proven    // by task
	plans    map[dag.Hash]*planned // by the step that planned
}

// New returns an engine; it touches nothing.
func New(cfg Config) *Engine {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Home == nil {
		cfg.Home = func(string) string { return "" }
	}
	if cfg.Approvals == nil {
		cfg.Approvals = func(store.Thread) (Approvals, error) { return Approvals{}, nil }
	}
	if cfg.Backoff == 0 {
		cfg.Backoff = time.Second
	}
	return &Engine{
		seeds: make(map[string]*cursor),
		cfg:   cfg, gates: gate.New(gate.Config{Store: cfg.Store, Now: cfg.Now}), cursors: make(map[string]*cursor),
		bundles: make(map[dag.Hash]*thread.Bundle), plans: make(map[dag.Hash]*planned), flows: make(map[string]*flow.Definition),
	}
}

func (e *Engine) now() int64 { return e.cfg.Now().UnixMilli() }

// Definition returns the flow a thread runs, from the bundle its start names.
func (e *Engine) Definition(ctx context.Context, row store.Thread) (*flow.Definition, error) {
	def, err := e.pinned(ctx, row.Bundle, row.Flow)
	if err != nil {
		return nil, err
	}
	return e.acting(ctx, row, def)
}

// pinned returns a flow of a bundle, decoded once.
func (e *Engine) pinned(ctx context.Context, bundle dag.Hash, name string) (*flow.Definition, error) {
	return e.kept(bundle.String()+"/"+name, func() (*flow.Definition, error) {
		b, err := e.cfg.Reader.Bundle(ctx, bundle)
		if err != nil {
			return nil, err
		}
		raw, ok := b.Flows[name]
		if !ok {
			return nil, fmt.Errorf("bundle %s: no flow %q: %w", bundle.Short(), name, store.ErrNotFound)
		}
		def := new(flow.Definition)
		if err := json.Unmarshal(raw, def); err != nil {
			return nil, fmt.Errorf("bundle %s: flow %q: %w", bundle.Short(), name, err)
		}
		return def, nil
	})
}

// kept returns the definition that is kept under key, and makes it if there is none.
func (e *Engine) kept(key string, read func() (*flow.Definition, error)) (*flow.Definition, error) {
	e.mu.Lock()
	def := e.flows[key]
	e.mu.Unlock()
	if def != nil {
		return def, nil
	}
	def, err := read()
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.flows[key] = def
	return def, nil
}
