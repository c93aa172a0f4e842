// Package attempt runs an agent once for a step of a thread: it puts the prompt together, chooses the session,
// records what the agent does and asks, and turns its answer into the parts of a step.
//
// It takes a thread's position and a role to run, and returns the parts of a step, or a failure that it has
// recorded. The shape of an attempt:
//
//	Prepare   the row and its prompt, which the caller commits (batch A)
//	Run       the agent works; news goes out as agent.item, questions as gates
//	extract   output → meta, text, artifacts, evidence
//
// Laws:
//
//   - It never moves a head: the caller commits the step (batch B), otherwise the result is lost.
//   - What an agent does wrong is recorded, not returned. An error means that the record could not
//     be kept: stop.
//   - Raw before parsed: an agent's output is on disk before it is parsed, raw but for known secrets. Hashes are of
//     what is kept.
//
// The package holds no rule about roles (flow does) and starts no process itself (agents do).
package attempt

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"path/filepath"
	"sync"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/engine/briefing"
	"github.com/plait-run/plait/internal/engine/evidence"
	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/engine/session"
	"github.com/plait-run/plait/internal/files/worktree"
	"github.com/plait-run/plait/internal/record"
	"github.com/plait-run/plait/internal/record/prompt"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/sys/proc"
	"github.com/plait-run/plait/internal/sys/secret"
)

// ErrInterrupted as the cause of a cancelled context asks to stop the agent
// and leave the thread as it is, to be resumed.
var ErrInterrupted = errors.New("interrupted")

// Desks opens the directories of a task's instances.
type Desks interface {
	// Open opens the directory of an instance for an attempt.
	Open(row store.Thread, instance, attempt string, v agent.Vendor) (agent.Directory, error)
	// Left calls read with the logs of an attempt whose owner died, if there are any.
	Left(row store.Thread, instance, attempt string, read func(events, stderr io.Reader) error) error
	// Attached returns the files that every agent of a task receives.
	Attached(row store.Thread) []agent.Attachment
}

// A Host describes where agents are started on a machine.
type Host struct {
	Home string // agents keep their own files below it, by task; "": they have no place
	// Scratch is where commands of agents keep files other than those of the task. None of them outlive the
	// task. "": there is no such place.
	Scratch string
	Bin     string      // the plait executable, for PLAIT_BIN
	Cell    *proc.Cell  // the sandbox around programs of agents, nil: only those that agents make themselves
	Secrets *secret.Set // what is not written down, whoever says it
	// Name and Boot identify the machine and its boot. Only processes of both can be ended here; "": all can.
	Name, Boot string
}

// Config configures a Runner.
type Config struct {
	Store interface {
		store.Objects
		store.Index
		store.Journal
	}
	Record *record.Reader
	Gates  *gate.Service
	Desks  Desks
	Trees  *worktree.Trees
	Agents Agents
	Host   Host
	Player Player // nil: attempts are made by the agents alone
	Now    func() time.Time
	// Ready returns why this machine cannot work now; nil: there is no other that could.
	Ready func(context.Context) error
}

// A Player supplies recorded answers when an attempt is replayed.
type Player interface {
	// Play returns the agent that makes an attempt in place of a, and its request.
	Play(ctx context.Context, row store.Thread, a agent.Agent, req agent.Request) (agent.Agent, agent.Request, error)
	// Accepted reports whether the recorded step of a role at a visit is an answer with this meta and text. By the
	// rules of its time it was valid.
	Accepted(ctx context.Context, row store.Thread, role string, visit int, meta json.RawMessage, text string) (bool,
		error)
	// Points reports whether the join that a path leads to was recorded with a pointer, see
	// thread.JoinDraft.
	Points(ctx context.Context, path store.Thread) (bool, error)
}

// A Recorded agent knows what its session held after the recorded attempt, nil if that is not recorded.
type Recorded interface {
	agent.Agent
	Memory() *thread.Memory
}

// A Runner makes attempts. Methods may be called concurrently, for different threads.
type Runner struct {
	cfg      Config
	prompts  *prompt.Assembler
	evidence *evidence.Collector
	sessions *session.Keeper
	briefer  *briefing.Briefer

	linking sync.Mutex // held while a scratch directory is made
}

// New returns a runner; it touches nothing.
func New(cfg Config) *Runner {
	nodes := cfg.Record.Nodes()
	entries := evidence.New(evidence.Config{Store: cfg.Store, Nodes: nodes, Secrets: cfg.Host.Secrets, Now: cfg.Now})
	return &Runner{
		cfg: cfg, prompts: prompt.NewAssembler(nodes), evidence: entries,
		briefer: briefing.New(briefing.Config{Store: cfg.Store, Record: cfg.Record, Gates: cfg.Gates, Evidence: entries,
			Desks: cfg.Desks, Home: cfg.Host.Home}),
		sessions: session.NewKeeper(session.Config{Store: cfg.Store, Nodes: nodes, Home: cfg.Host.home,
			Secrets: cfg.Host.Secrets, Replays: cfg.Player != nil}),
	}
}

func (e *Runner) now() int64 { return e.cfg.Now().UnixMilli() }

// home returns the directory, outside every workspace, where the agents of a task keep their own files; "" if
// there is none.
func (h Host) home(task string) string {
	if h.Home == "" {
		return ""
	}
	return filepath.Join(h.Home, "homes", task)
}

// Millis returns a time in Unix milliseconds, zero for none.
func Millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}
