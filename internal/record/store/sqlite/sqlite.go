// Package sqlite keeps a store in one directory: rows, events and small objects
// in an SQLite database, large blobs in files next to it.
//
//	plait.db             and plait.db-wal, plait.db-shm while it is open
//	objects/ab/<hash>    blobs over 256 KiB
//	objects/tmp/         blobs being staged
//	leases/<name>        locks; the holder is written inside
//
// The contract is that of package store. Laws beyond it:
//
//   - One goroutine writes at a time. Batches that wait while it syncs share the
//     next transaction and its one sync; a batch that fails is left out of it.
//   - Event positions are assigned inside that transaction, which SQLite grants
//     to one process at a time: no gaps, whichever process writes.
//   - A loose file exists before the row that names it, and is removed after it.
//   - A lease is an operating system lock, which dies with its process, and a
//     number that grows each time the lease is taken.
//
// Any number of processes may have one directory open. The package never
// repairs anything: it reports damage and leaves it as it is.
package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/plait-run/plait/internal/record/store"
)

// Config configures a store. Only Dir is required.
type Config struct {
	Dir      string           // created, readable by its owner only, if missing
	Now      func() time.Time // nil: time.Now
	ReadOnly bool             // open an existing store and change nothing in it
	// Upgrading is called before the schema of an older store is brought up to date; nil: nobody is told.
	Upgrading func(Upgrade)

	why error // why it is read-only, if that was not asked for
}

const (
	// readerCount bounds concurrent reads. A connection costs two file
	// descriptors and at most 2 MB of cache.
	readerCount = 6
	// checkpointPages is the length at which the log is merged into the
	// database: 32 MiB. Merging costs two syncs, whatever the length.
	checkpointPages = 4096
	// busyTimeout is how long opening waits for other processes.
	busyTimeout = 20 * time.Second
)

// A Store is one process's handle on a directory. Methods may be called
// concurrently.
type Store struct {
	reads // each on its own connection, or on the writer's: see readSoon

	cfg      Config
	readers  *readers
	writing  chan struct{} // semaphore: its holder has the writer's connection and alone touches the next three fields
	writer   *sqlite.Conn
	together int           // requests in the last transaction
	last     *reached      // numbers assigned up to the last transaction; nil if it failed or there was none
	queue    chan *request // received by the writing goroutine
	news     store.Broadcast
	recent   recent
	log      logWatch
	found    int         // schema version before it was brought up to date; 0 for a new store
	file     os.FileInfo // the database, as opened

	broken  atomic.Pointer[error]
	once    sync.Once
	closing chan struct{}
}

var _ store.Store = (*Store)(nil)

// Open opens the store in cfg.Dir, creating it if it is missing, and brings an
// older schema up to date. It returns ErrNewer if a newer Plait made the store.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	s := &Store{
		cfg:     cfg,
		queue:   make(chan *request),
		writing: make(chan struct{}, 1),
		closing: make(chan struct{}),
	}
	s.reads = reads{store: s, with: s.read, soon: s.readSoon}
	err := s.open(ctx)
	if err == nil {
		s.file, err = os.Stat(s.database())
	}
	if err != nil {
		if !cfg.ReadOnly && errors.Is(unix.Access(cfg.Dir, unix.W_OK), syscall.EROFS) {
			// SQLite reports this as a failure to size its shared memory.
			err = fmt.Errorf("it is on a read-only file system: %w", syscall.EROFS)
		}
		return nil, fmt.Errorf("open store %s: %w", cfg.Dir, err)
	}
	return s, nil
}

// OpenHome opens the store in dir, read-only if it exists on a file system that is read-only or full. It tells
// the person on stderr before it upgrades the store.
func OpenHome(ctx context.Context, dir string) (store.Store, error) {
	s, err := Open(ctx, Config{Dir: dir, Upgrading: func(u Upgrade) { fmt.Fprintln(os.Stderr, u) }})
	if why := unwritable(err); why != nil {
		if _, missing := os.Stat(filepath.Join(dir, "plait.db")); missing == nil {
			read, failed := Open(ctx, Config{Dir: dir, ReadOnly: true, why: why})
			if failed == nil {
				return read, nil
			}
			err = errors.Join(why, failed)
		}
	}
	if err != nil {
		return nil, err // not s, which would be a non-nil interface
	}
	return s, nil
}

func (s *Store) open(ctx context.Context) error {
	if s.cfg.ReadOnly {
		return s.openReadOnly(ctx)
	}
	if err := makeDirs(s.cfg.Dir); err != nil {
		return err
	}
	unlock, err := lockDir(ctx, s.cfg.Dir)
	if err != nil {
		return err
	}
	defer unlock()

	if err := makeDatabase(s.database()); err != nil {
		return err
	}
	c, err := sqlite.OpenConn(s.database(), sqlite.OpenReadWrite)
	if err != nil {
		return s.explain(ctx, err)
	}
	if err := s.setUp(c); err != nil {
		c.Close()
		return s.explain(ctx, err)
	}
	s.readers = newReaders(func() (*sqlite.Conn, error) {
		c, err := sqlite.OpenConn(s.database(), sqlite.OpenReadWrite)
		if err == nil {
			if err = sqlitex.ExecuteTransient(c, "PRAGMA query_only = ON", nil); err != nil {
				c.Close()
			}
		}
		return c, err
	})
	first, err := s.readers.take(ctx)
	if err != nil {
		c.Close()
		return s.explain(ctx, err)
	}
	s.readers.put(first)
	s.writer = c
	return nil
}

// setUp makes c the writer's connection and brings the schema up to date.
func (s *Store) setUp(c *sqlite.Conn) error {
	c.SetBusyTimeout(busyTimeout)
	var err error
	if s.found, err = migrate(c, s.cfg.Now(), s.keep); err != nil {
		return err
	}
	for _, q := range []string{
		"PRAGMA synchronous = FULL",
		// On macOS fsync leaves bytes in the disk's cache. Elsewhere these change nothing.
		"PRAGMA fullfsync = ON",
		"PRAGMA checkpoint_fullfsync = ON",
		fmt.Sprintf("PRAGMA wal_autocheckpoint = %d", checkpointPages),
		// Gives back the space of an unusually long log.
		fmt.Sprintf("PRAGMA journal_size_limit = %d", 4*checkpointPages*4096),
		"PRAGMA cache_size = -16384",
		"PRAGMA temp_store = MEMORY",
	} {
		if err := sqlitex.ExecuteTransient(c, q, nil); err != nil {
			return err
		}
	}
	// From here on the writer does its own waiting, see lock.
	c.SetBusyTimeout(0)
	return nil
}

// openReadOnly opens an existing store. Where not even the files that readers
// share can be created, the database is read as it is on disk, which is correct
// only if no log waits to be merged into it.
func (s *Store) openReadOnly(ctx context.Context) error {
	if info, err := os.Stat(s.cfg.Dir); err != nil {
		return err
	} else if !info.IsDir() {
		return syscall.ENOTDIR
	}
	if _, err := os.Stat(s.database()); err != nil {
		return err
	}
	var errs []error
	for _, immutable := range []bool{false, true} {
		if immutable {
			if info, err := os.Stat(s.database() + "-wal"); err == nil && info.Size() > 0 {
				errs = append(errs, errors.New(
					"its log is not merged: open it for writing, or copy it to where that can be done"))
				break
			}
		}
		err := s.openPool(ctx, immutable)
		if err == nil {
			return nil
		}
		errs = append(errs, s.explain(ctx, err))
		s.broken.Store(nil)
		code := sqlite.ErrCode(err).ToPrimary()
		if code != sqlite.ResultCantOpen && code != sqlite.ResultReadOnly && code != sqlite.ResultIOErr {
			break
		}
	}
	return errors.Join(errs...)
}

func (s *Store) openPool(ctx context.Context, immutable bool) error {
	path, err := filepath.Abs(s.database())
	if err != nil {
		return err
	}
	uri := url.URL{Scheme: "file", Path: path, RawQuery: "mode=ro"}
	if immutable {
		uri.RawQuery += "&immutable=1"
	}
	pool := newReaders(func() (*sqlite.Conn, error) {
		return sqlite.OpenConn(uri.String(), sqlite.OpenReadOnly, sqlite.OpenURI)
	})
	c, err := pool.take(ctx)
	if err == nil {
		var v int
		v, err = version(c.Conn)
		pool.put(c)
		if err == nil && v < len(migrations) {
			err = fmt.Errorf("its schema has version %d, open it for writing once to bring it to %d",
				v, len(migrations))
		}
	}
	if err != nil {
		pool.close()
		return err
	}
	s.readers = pool
	return nil
}

// Close waits for the running transaction and closes the database. Batches
// still waiting fail; leases stay with the process.
func (s *Store) Close() error {
	var err error
	s.once.Do(func() {
		close(s.closing)
		s.writing <- struct{}{} // never released
		err = s.readers.close()
		if s.writer != nil {
			err = errors.Join(err, s.writer.Close())
		}
	})
	if err != nil {
		return fmt.Errorf("close store %s: %w", s.cfg.Dir, err)
	}
	return nil
}

func (s *Store) database() string { return filepath.Join(s.cfg.Dir, "plait.db") }

// Now returns the machine's time: all users of the store are on that machine.
func (s *Store) Now() time.Time { return s.cfg.Now() }

// ID returns an empty id: the record is where its directory is.
func (s *Store) ID() string { return "" }

func (s *Store) now() int64 { return s.cfg.Now().UnixMilli() }

// makeDirs creates the layout and refuses a directory that everyone can write
// to: whoever can plant a database can plant work.
func makeDirs(dir string) error {
	if dir == "" {
		return errors.New("no directory given")
	}
	_, err := os.Stat(dir)
	fresh := errors.Is(err, fs.ErrNotExist)
	if fresh {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		return err
	case !info.IsDir():
		return syscall.ENOTDIR
	case info.Mode().Perm()&0o002 != 0:
		return errors.New("everyone can write to it: make it yours with chmod 700")
	}
	const writable = 2 // W_OK
	if err := syscall.Access(dir, writable); errors.Is(err, syscall.EROFS) {
		return fmt.Errorf("not writable: %w", err)
	} else if err != nil {
		return fmt.Errorf("not writable: %w", err)
	}
	for _, sub := range []string{"objects/tmp", "leases"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			return err
		}
	}
	if fresh {
		return errors.Join(syncDir(dir), syncDir(filepath.Dir(dir)))
	}
	return nil
}

// makeDatabase creates an empty file that only its owner can read; SQLite gives the
// files next to it the same mode. It never touches an existing file: closing any
// descriptor of a file drops the locks that SQLite holds on it in this process.
func makeDatabase(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return f.Close()
}

// lockDir keeps processes that open the same directory apart: switching a new
// database to WAL mode is the one thing that SQLite does not let two do concurrently.
func lockDir(ctx context.Context, dir string) (unlock func(), err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if err != syscall.EWOULDBLOCK && err != syscall.EINTR {
			f.Close()
			return nil, fmt.Errorf("lock: %w", err)
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
}
