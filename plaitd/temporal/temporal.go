// Package temporal is the engine of a team that runs Temporal.
//
// In go the ids of tasks; out come calls of Work on the hosts that serve it. Temporal decides where and when these are
// made, and keeps nothing that the record does not have: what is sent to it are ids of tasks, threads and
// hosts, labels, and tokens, never a text, not even that of an error. It may be away, and it may lose all it has.
//
// A task is a workflow that calls Reconcile and starts another for each thread that may be driven (loop.go); that one
// has one activity, Drive, on a task queue by which it reaches the right host. Whoever serves polls the queues of
// its own name and labels (serve.go).
package temporal

import (
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"time"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
	"go.temporal.io/sdk/log"

	"github.com/plait-run/plait/internal/dispatch"
)

// Config is where Temporal is, and how patient the engine is.
type Config struct {
	// Client says where the server is: HostPort, Namespace, and what it takes to be let in. See Environment.
	Client client.Options
	// Prefix is what the names of task queues and workflows begin with; "": plait. Records that share a namespace
	// need one each, the workers of a record the same.
	Prefix string
	Log    *slog.Logger // nil: nothing is said

	Prefer    time.Duration // how long a thread waits for the host that it prefers; zero: 30 s
	Again     time.Duration // how long after an error it is tried again, at first; zero: 1 s
	Heartbeat time.Duration // how long a host may be silent; zero: 30 s
	Look      time.Duration // how often what others may have begun is looked at; zero: 30 s
}

// Environment returns the configuration that the variables of Temporal's own programs give: TEMPORAL_ADDRESS,
// TEMPORAL_NAMESPACE, TEMPORAL_API_KEY, TEMPORAL_TLS_CLIENT_CERT_PATH and the others, or the file that they name. An
// error says which of them is wrong, and repeats no secret.
func Environment() (Config, error) {
	options, err := envconfig.LoadDefaultClientOptions()
	if err != nil {
		return Config{}, fmt.Errorf("read the configuration of Temporal: %w", err)
	}
	return Config{Client: options}, nil
}

// An Engine has work done by way of Temporal. Make one with New.
type Engine struct {
	client client.Client
	loop   loop
	log    *slog.Logger
}

var _ dispatch.Engine = (*Engine)(nil)

var prefixes = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9.-]{0,49}$`)

// New returns an engine. It does not connect yet: an error says that the configuration makes no sense.
func New(cfg Config) (*Engine, error) {
	if cfg.Prefix == "" {
		cfg.Prefix = "plait"
	}
	if !prefixes.MatchString(cfg.Prefix) {
		return nil, fmt.Errorf("invalid prefix %q: want letters, digits, dots and dashes, 50 at most", cfg.Prefix)
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	cfg.Client.Logger = log.NewStructuredLogger(slog.New(warnings{cfg.Log.Handler()}))
	c, err := client.NewLazyClient(cfg.Client)
	if err != nil {
		return nil, fmt.Errorf("configure the client of Temporal: %w", err)
	}
	return &Engine{client: c, log: cfg.Log, loop: loop{
		prefix: cfg.Prefix, prefer: or(cfg.Prefer, 30*time.Second), again: or(cfg.Again, time.Second),
		heartbeat: or(cfg.Heartbeat, 30*time.Second), look: or(cfg.Look, 30*time.Second),
	}}, nil
}

func or(d, otherwise time.Duration) time.Duration {
	if d == 0 {
		return otherwise
	}
	return d
}

// Close closes the connection. Nothing may be served any more.
func (e *Engine) Close() error {
	e.client.Close()
	return nil
}

// pokePatience is how long the engine may be away before Poke gives up.
const pokePatience = 10 * time.Second

// Poke signals the workflow of a task, and starts it if there is none. It fails when Temporal is away for 10 s.
func (e *Engine) Poke(ctx context.Context, task string) error {
	ctx, cancel := context.WithTimeout(ctx, pokePatience)
	defer cancel()
	options := client.StartWorkflowOptions{
		ID: e.loop.taskID(task), TaskQueue: e.loop.tasks(),
		WorkflowIDReusePolicy: enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
	}
	_, err := e.client.SignalWithStartWorkflow(ctx, options.ID, pokeSignal, nil, options, taskType, task)
	if err != nil {
		return fmt.Errorf("poke task %s at Temporal: %w", task, err)
	}
	return nil
}

// warnings drops what a log is told of ordinary life.
type warnings struct{ slog.Handler }

func (w warnings) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && w.Handler.Enabled(ctx, level)
}

func (w warnings) WithAttrs(attrs []slog.Attr) slog.Handler {
	return warnings{w.Handler.WithAttrs(attrs)}
}
func (w warnings) WithGroup(name string) slog.Handler { return warnings{w.Handler.WithGroup(name)} }
