// Package postgres keeps a store in a Postgres database that several machines share.
// Blobs over 256 KiB go to a bucket next to it, or into the database in pieces.
//
// Package store has the contract. Laws beyond it:
//
//   - A commit is one statement, and so one transaction and one round trip, for all
//     waiting batches of this process. A refused batch is undone alone.
//   - The lock is taken first: the commits of all processes are serialized, and
//     positions rise without gaps in commit order.
//   - If an answer is lost, the group is sent again: it has an id, which is recorded
//     in its transaction, and is applied once.
//   - Bytes are written before the row that names them, under a key that is never
//     reused, and deleted after it.
//   - All times are the server's.
//
// docs/postgres.md describes the layout. The package never repairs anything, and
// changes the schema only in Migrate.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/proc"
)

// MinConns is the least number of connections that a store works with.
const MinConns = 6

// Config says where a store is. Only URL is needed.
type Config struct {
	URL    string // of the database: postgres://user@host/database, or KEY=VALUE …
	Direct string // the same past a transaction-mode pooler, to listen and migrate; empty: URL is no pooler
	Bucket Bucket // for large blobs; nil: they are kept in the database
	Conns  int    // most connections, at least MinConns; zero: 10

	// Alive reports whether the process of this host with that pid that began at start
	// is alive. nil: proc.Alive.
	Alive func(pid int, start int64) bool

	// Durations; zero means the default given here.
	Patience time.Duration // for an answer, all tries together: 30 s
	Try      time.Duration // for one try: 10 s
	Whole    time.Duration // for one try that reads a whole table: 10 min
	Look     time.Duration // between two looks for events when none are announced: 2 s
	Beat     time.Duration // between two heartbeats: 5 s
	TTL      time.Duration // how long others consider a silent process alive: store.LeaseTTL
	Lost     time.Duration // how long this process keeps its leases without an answer: store.LeaseLost
}

func (c Config) withDefaults() Config {
	for d, n := range map[*time.Duration]time.Duration{
		&c.Patience: 30 * time.Second, &c.Try: 10 * time.Second, &c.Whole: 10 * time.Minute, &c.Look: 2 * time.Second,
		&c.Beat: 5 * time.Second, &c.TTL: store.LeaseTTL, &c.Lost: store.LeaseLost,
	} {
		if *d == 0 {
			*d = n
		}
	}
	if c.Conns == 0 {
		c.Conns = 10
	}
	c.Conns = max(c.Conns, MinConns)
	if c.Alive == nil {
		c.Alive = proc.Alive
	}
	return c
}

// own is how many connections are not for reading: one to listen, one for heartbeats, which
// nothing may delay, one to commit, and one to sweep or take a lease meanwhile.
const own = 4

// lockKey is the advisory lock under which everything is written: "plait" in ASCII.
const lockKey = 0x706c616974

// A Store is one process's handle on a database. Methods may be called concurrently.
type Store struct {
	reads // each on its own connection

	cfg     Config
	readers *pgxpool.Pool
	writers *pgxpool.Pool
	pulse   *pgxpool.Pool
	queue   chan *request
	news    store.Broadcast
	last    atomic.Int64  // the highest position that is known to be committed
	told    chan struct{} // buffers one request to announce events
	me      handle
	id      string // of the record
	clock   clock
	newer   atomic.Bool // the schema is now newer than this program
	held    holding
	soon    chan struct{} // buffers one request for a heartbeat

	once    sync.Once
	closing chan struct{}
	ctx     context.Context // ends with the store
	end     context.CancelFunc
	running sync.WaitGroup
}

var _ store.Store = (*Store)(nil)

var errClosed = errors.New("store is closed")

// Open opens the store in a database that Migrate has prepared. It returns ErrNewer if a
// newer Plait has migrated it since.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	cfg = cfg.withDefaults()
	s := &Store{
		cfg:     cfg,
		queue:   make(chan *request),
		told:    make(chan struct{}, 1),
		held:    holding{leases: map[store.Fence]*lease{}, dropped: map[string]int64{}},
		soon:    make(chan struct{}, 1),
		closing: make(chan struct{}),
	}
	s.reads = reads{store: s, with: s.read, whole: s.readWhole}
	s.ctx, s.end = context.WithCancel(context.WithoutCancel(ctx))
	if err := s.open(ctx); err != nil {
		s.end()
		for _, p := range []*pgxpool.Pool{s.readers, s.writers, s.pulse} {
			if p != nil {
				p.Close()
			}
		}
		return nil, fmt.Errorf("open store: %w", err)
	}
	for _, f := range []func(){s.write, s.listen, s.tell, s.live} {
		s.running.Go(f)
	}
	return s, nil
}

func (s *Store) open(ctx context.Context) error {
	var err error
	if s.me, err = thisProcess(); err != nil {
		return err
	}
	if s.readers, err = s.cfg.pool(s.ctx, s.cfg.Conns-own); err != nil {
		return err
	}
	if s.writers, err = s.cfg.pool(s.ctx, 2); err != nil {
		return err
	}
	if s.pulse, err = s.cfg.pool(s.ctx, 1); err != nil {
		return err
	}
	return s.insist(ctx, s.cfg.Try, s.greeting, s.greet)
}

// greet checks that the database has a record with this program's schema, and sends the first heartbeat.
func (s *Store) greet(ctx context.Context) error {
	v := 0
	err := on(ctx, s.writers, func(c *pgx.Conn) (err error) {
		if v, err = version(ctx, c); err == nil {
			s.id, err = identify(ctx, c)
		}
		return err
	})
	switch {
	case err != nil:
		return err
	case v == 0:
		return errors.New("the database holds no record yet: run plaitd migrate")
	case v < len(migrations):
		return fmt.Errorf("its schema has version %d, this Plait needs %d: run plaitd migrate", v, len(migrations))
	}
	return s.beat(ctx)
}

// identify returns what tells this database from all others, and stays with it when another server takes over. A copy
// that is made of a dump is another. If the role may not read the server's identifier, only the database's own
// identifies it.
func identify(ctx context.Context, c *pgx.Conn) (id string, err error) {
	const q = "SELECT system_identifier || '-' || oid FROM pg_control_system(), pg_database" +
		" WHERE datname = current_database()"
	err = c.QueryRow(ctx, q).Scan(&id)
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok && pgErr.Code == "42501" { // insufficient_privilege
		err = c.QueryRow(ctx, "SELECT oid::text FROM pg_database WHERE datname = current_database()").Scan(&id)
	}
	return id, err
}

// ID returns an id of the database.
func (s *Store) ID() string { return s.id }

// pool returns a pool of at most n connections. None is opened before it is needed.
func (c Config) pool(ctx context.Context, n int) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(c.URL)
	if err != nil {
		return nil, err
	}
	cfg.MaxConns = int32(n)
	cfg.MinConns = 0
	// Idle connections close soon enough for another host that finds none left: it waits for Patience.
	cfg.MaxConnIdleTime = 15 * time.Second
	cfg.HealthCheckPeriod = 5 * time.Second
	if c.Direct != "" {
		// A pooler may send each statement to a different connection, which has no statements prepared by name.
		cfg.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	}
	settle(cfg.ConnConfig, c.Direct != "")
	return pgxpool.NewWithConfig(ctx, cfg)
}

// settle has the server stop work whose client has given up or is gone. A pooler refuses the settings for the
// latter.
func settle(c *pgx.ConnConfig, pooled bool) {
	if c.ConnectTimeout == 0 || c.ConnectTimeout > 5*time.Second {
		c.ConnectTimeout = 5 * time.Second
	}
	c.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.CancelRequestContextWatcherHandler{Conn: conn, DeadlineDelay: time.Second}
	}
	if !pooled {
		// Detect a host that has vanished: what it had begun holds locks until then.
		for key, value := range map[string]string{"idle": "10", "interval": "5", "count": "3"} {
			c.RuntimeParams["tcp_keepalives_"+key] = value
		}
	}
}

// Close waits for the commit in progress, gives back the leases still held, and closes
// all connections. Waiting batches fail.
func (s *Store) Close() error {
	s.once.Do(func() {
		close(s.closing)
		s.end()
		s.running.Wait()
		s.leave()
		s.readers.Close()
		s.writers.Close()
		s.pulse.Close()
	})
	return nil
}

// alive returns an error if the store is closing or ctx is done.
func (s *Store) alive(ctx context.Context) error {
	select {
	case <-s.closing:
		return errClosed
	default:
		return ctx.Err()
	}
}
