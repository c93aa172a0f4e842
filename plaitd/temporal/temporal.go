// Package temporal is the engine of a team that runs Temporal.
//
// Tasks are poked by id; the engine calls Work on the hosts that serve it. Temporal decides where and when, and keeps
// nothing that the record lacks: it is sent only ids of tasks, threads and hosts, labels, and tokens, never a text,
// not even an error's. It may be unavailable, and it may lose everything.
//
// A task is a workflow that calls Reconcile and starts another for each thread that may be driven (loop.go); that one
// has one activity, Drive, on a task queue that reaches the right host. Each host polls the queues of its name and
// labels (serve.go).
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

	"github.com/plait-run/plait/internal/engine/dispatch"
)

// Config says where Temporal is, and how patient the engine is.
type Config struct {
	// Client says where the server is: HostPort, Namespace, and credentials. See Environment.
	Client client.Options
	// Prefix begins the names of task queues and workflows; "": plait. Records that share a namespace need one
	// each, the workers of a record the same.
	Prefix string
	Log    *slog.Logger // nil: nothing is logged

	Prefer    time.Duration // how long a thread waits for its preferred host; zero: 30 s
	Again     time.Duration // the first pause before a retry after an error; zero: 1 s
	Heartbeat time.Duration // how long a host may be silent; zero: 30 s
	Look      time.Duration // how often to check what others may have started; zero: 30 s
}

// Environment returns the configuration from the variables of Temporal's own programs: TEMPORAL_ADDRESS,
// TEMPORAL_NAMESPACE, TEMPORAL_API_KEY, TEMPORAL_TLS_CLIENT_CERT_PATH and the others, or the file that they name. An
// error says which of them is wrong, and repeats no secret.
func Environment() (Config, error) {
	options, err := envconfig.LoadDefaultClientOptions()
	if err != nil {
		return Config{}, fmt.Errorf("read the configuration of Temporal: %w", err)
	}
	return Config{Client: options}, nil
}

// An Engine has work done through Temporal. Make one with New.
type Engine struct {
	client client.Client
	loop   loop
	log    *slog.Logger
}

var _ dispatch.Engine = (*Engine)(nil)

var prefixes = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9.-]{0,49}$`)

// New returns an engine. It does not connect yet: an error means that the configuration is invalid.
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

// Close closes the connection. No Serve may be running any more.
func (e *Engine) Close() error {
	e.client.Close()
	return nil
}

// Ping returns an error if Temporal does not answer.
func (e *Engine) Ping(ctx context.Context) error {
	_, err := e.client.CheckHealth(ctx, nil)
	return err
}

// pokePatience is how long Poke tries to reach Temporal.
const pokePatience = 10 * time.Second

// Poke signals the workflow of a task, starting it if there is none. It fails if Temporal is unavailable for 10 s.
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

// warnings drops log records below warnings.
type warnings struct{ slog.Handler }

func (w warnings) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && w.Handler.Enabled(ctx, level)
}

func (w warnings) WithAttrs(attrs []slog.Attr) slog.Handler {
	return warnings{w.Handler.WithAttrs(attrs)}
}
func (w warnings) WithGroup(name string) slog.Handler { return warnings{w.Handler.WithGroup(name)} }
