// Package river is the engine of a team on River, a queue in Postgres: on the same server as the record, in
// its own schema, so that there is nothing else to run.
//
// Tasks are poked; the engine calls Work on the hosts. There are two kinds of jobs:
//
//	reconcile{task}             now, or later; unique while it is queued
//	drive{task, thread, token}  in the queue drives, host-ID or label-NAME; unique while it is queued or runs
//
// Jobs have one attempt and no timeout: what a job did is in the record. A dead host leaves its jobs running, until
// River discards them after an hour. They block nothing: the next drive of a thread has another token. If the host died
// before the token changed, the drive is queued once more after Prefer. The tables may be emptied at any time.
package river

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/riverqueue/river/rivertype"

	"github.com/plait-run/plait/internal/engine/dispatch"
)

// Schema is the default schema of the tables.
const Schema = "plait_river"

// Config says where the queue is.
type Config struct {
	URL    string // of the database, past any pooler in transaction mode: a queue listens
	Schema string // "": Schema
	Conns  int32  // most connections; zero: 6
	// Try bounds a request to the database, and the silence in its transaction; zero: 10 s.
	Try time.Duration
	// Tasks returns the tasks that have not ended: they are poked every Sweep, so that nothing stays lost.
	Tasks  func(ctx context.Context) ([]string, error)
	Sweep  time.Duration // zero: 30 s
	Prefer time.Duration // how long a thread waits for the host that it prefers, or that has taken it; zero: 30 s
	Again  time.Duration // how long after an error a task is looked at again; zero: 1 s
	Log    *slog.Logger  // for what goes wrong; nil: none
}

// An Engine is a connection to the queue. Make one with Open.
type Engine struct {
	cfg       Config
	pool      *pgxpool.Pool
	client    *river.Client[pgx.Tx] // only inserts
	insertion chan struct{}         // full while a job is inserted
}

var _ dispatch.Engine = (*Engine)(nil)

// Migrate creates the tables, or brings them up to date, and reports whether it changed anything.
func Migrate(ctx context.Context, cfg Config) (changed bool, err error) {
	cfg = cfg.withDefaults()
	pool, err := cfg.connect(ctx)
	if err != nil {
		return false, fmt.Errorf("migrate queue: %w", err)
	}
	defer pool.Close()
	if _, err := pool.Exec(ctx, "CREATE SCHEMA IF NOT EXISTS "+pgx.Identifier{cfg.Schema}.Sanitize()); err != nil {
		return false, fmt.Errorf("migrate queue: %w", err)
	}
	m, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Schema: cfg.Schema, Logger: cfg.Log})
	if err != nil {
		return false, fmt.Errorf("migrate queue: %w", err)
	}
	done, err := m.Migrate(ctx, rivermigrate.DirectionUp, nil)
	if err != nil {
		return false, fmt.Errorf("migrate queue: %w", err)
	}
	return len(done.Versions) > 0, nil
}

// GrantWorker grants a role what a worker needs of the queue: to change any row, but no table.
func GrantWorker(ctx context.Context, cfg Config, role string) error {
	cfg = cfg.withDefaults()
	pool, err := cfg.connect(ctx)
	if err != nil {
		return fmt.Errorf("grant role %s the queue: %w", role, err)
	}
	defer pool.Close()
	schema, to := pgx.Identifier{cfg.Schema}.Sanitize(), pgx.Identifier{role}.Sanitize()
	for _, may := range []string{"USAGE ON SCHEMA ", "SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA ",
		"USAGE, SELECT ON ALL SEQUENCES IN SCHEMA ", "EXECUTE ON ALL FUNCTIONS IN SCHEMA "} {
		if _, err := pool.Exec(ctx, "GRANT "+may+schema+" TO "+to); err != nil {
			return fmt.Errorf("grant role %s the queue: %w", role, err)
		}
	}
	return nil
}

// Outdated returns an error if the tables are not those that this program needs.
func Outdated(ctx context.Context, cfg Config) error {
	cfg = cfg.withDefaults()
	pool, err := cfg.connect(ctx)
	if err != nil {
		return fmt.Errorf("look at queue: %w", err)
	}
	defer pool.Close()
	m, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Schema: cfg.Schema, Logger: cfg.Log})
	if err != nil {
		return fmt.Errorf("look at queue: %w", err)
	}
	found, err := m.Validate(ctx, nil)
	if err != nil {
		return fmt.Errorf("look at queue: %w", err)
	}
	if !found.OK {
		return errors.New("the queue in schema " + cfg.Schema + " is missing, or older than this program")
	}
	return nil
}

func (c Config) withDefaults() Config {
	if c.Schema == "" {
		c.Schema = Schema
	}
	if c.Conns == 0 {
		c.Conns = 6
	}
	if c.Try == 0 {
		c.Try = 10 * time.Second
	}
	if c.Sweep == 0 {
		c.Sweep = 30 * time.Second
	}
	if c.Prefer == 0 {
		c.Prefer = 30 * time.Second
	}
	if c.Again == 0 {
		c.Again = time.Second
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

func (c Config) connect(ctx context.Context) (*pgxpool.Pool, error) {
	pc, err := pgxpool.ParseConfig(c.URL)
	if err != nil {
		return nil, errors.New("it names no database") // the parser's error repeats the password
	}
	pc.MaxConns = c.Conns
	if t := pc.ConnConfig.ConnectTimeout; t == 0 || t > c.Try {
		pc.ConnConfig.ConnectTimeout = c.Try
	}
	// The server ends a transaction whose host has vanished or been stopped: it holds locks that all others wait for.
	for key, value := range map[string]string{"tcp_keepalives_idle": "10", "tcp_keepalives_interval": "5",
		"tcp_keepalives_count": "3", "idle_in_transaction_session_timeout": strconv.FormatInt(c.Try.Milliseconds(), 10)} {
		pc.ConnConfig.RuntimeParams[key] = value
	}
	return pgxpool.NewWithConfig(ctx, pc)
}

// Open opens the queue. It connects when needed.
func Open(ctx context.Context, cfg Config) (*Engine, error) {
	cfg = cfg.withDefaults()
	pool, err := cfg.connect(ctx)
	if err != nil {
		return nil, fmt.Errorf("open queue: %w", err)
	}
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
		Schema: cfg.Schema, Logger: cfg.Log, FetchCooldown: cooldown,
	})
	if err != nil {
		pool.Close()
		return nil, fmt.Errorf("open queue: %w", err)
	}
	return &Engine{cfg: cfg, pool: pool, client: client, insertion: make(chan struct{}, 1)}, nil
}

// Close closes the connections. No Serve may be running any more.
func (e *Engine) Close() error {
	e.pool.Close()
	return nil
}

// Ping returns an error if the database does not answer.
func (e *Engine) Ping(ctx context.Context) error { return e.pool.Ping(ctx) }

// Poke announces that there may be something to do for a task.
func (e *Engine) Poke(ctx context.Context, task string) error {
	return e.reconcileAt(ctx, task, time.Time{})
}

// reconcileAt has a task looked at, now or later. One look that is queued is enough; a running one may have seen
// too little.
func (e *Engine) reconcileAt(ctx context.Context, task string, at time.Time) error {
	args := reconcileArgs{Task: task, Later: !at.IsZero()}
	for {
		r, err := e.insert(ctx, args, river.InsertOpts{Queue: anyQueue, ScheduledAt: at})
		if err != nil {
			return fmt.Errorf("poke task %s: %w", task, err)
		}
		switch {
		case !r.UniqueSkippedAsDuplicate:
			return nil
		case r.Job.State == rivertype.JobStateRunning:
			args.Turn++
		case args.Later && r.Job.ScheduledAt.After(at.Add(time.Millisecond)):
			if err := e.remove(ctx, r.Job.ID); err != nil {
				return err
			}
		default:
			return nil
		}
	}
}

// cooldown is the time in which River announces at most one job of a queue. A job that is not announced is found only
// when a host looks again.
const cooldown = river.FetchCooldownMin

// insert puts a job into a queue, unless it is there. Its transaction has a lock that others wait for: without a
// bound, a host that the network has cut off would hold it for as long as it lives. Jobs are inserted one at a time, a
// cooldown apart, so that each is announced.
func (e *Engine) insert(ctx context.Context, args river.JobArgs, o river.InsertOpts) (*rivertype.JobInsertResult,
	error) {
	ctx, cancel := context.WithTimeout(ctx, e.cfg.Try)
	defer cancel()
	select {
	case e.insertion <- struct{}{}:
		defer time.AfterFunc(2*cooldown, func() { <-e.insertion })
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	o.MaxAttempts, o.UniqueOpts = 1, once
	return e.client.Insert(ctx, args, &o)
}

// remove takes a job that has not begun out of the queue. It leaves one that has alone.
func (e *Engine) remove(ctx context.Context, id int64) error {
	ctx, cancel := context.WithTimeout(ctx, e.cfg.Try)
	defer cancel()
	_, err := e.client.JobDelete(ctx, id)
	if err != nil && !errors.Is(err, rivertype.ErrNotFound) && !errors.Is(err, rivertype.ErrJobRunning) {
		return fmt.Errorf("take a job out of the queue: %w", err)
	}
	return nil
}

// Queues that hosts take from.
const (
	anyQueue   = "any"
	hostQueues = "host-" // prefix of the hosts' own queues
)

func hostQueue(id string) string    { return hostQueues + plain(id) }
func labelQueue(name string) string { return "label-" + plain(name) }

var plainName = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// plain returns a name as queues allow it: lowercase letters, digits and single dashes. A hash replaces any other.
func plain(name string) string {
	if plainName.MatchString(name) && len(name) <= 50 {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return "x" + hex.EncodeToString(sum[:12])
}
