// Package sqlite keeps a store in one directory: rows, events and small objects
// in an SQLite database, large blobs in files beside it.
//
//	plait.db             and plait.db-wal, plait.db-shm while it is open
//	objects/ab/<hash>    blobs over 256 KiB
//	objects/tmp/         blobs being staged
//	leases/<name>        locks; who holds them is written inside
//
// In and out goes what package store says. Laws, beyond those of store:
//
//   - One goroutine writes at a time. Batches that wait while it syncs share the
//     next transaction and its one sync; one that fails is taken out of it.
//   - Positions of events are given out inside that transaction, which SQLite
//     lets one process at a time have: no gaps, whoever else writes.
//   - A loose file exists before the row that names it, and is removed after it.
//   - A lease is a lock of the operating system, which dies with its process, and
//     a number that grows each time that it is taken.
//
// Any number of processes may have one directory open. The package never
// repairs anything: what is damaged is named and left as it is.
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

	"github.com/plait-run/plait/internal/store"
)

// Config says where a store is. Only Dir is needed.
type Config struct {
	Dir      string           // made, readable by its owner only, when missing
	Now      func() time.Time // nil: time.Now
	ReadOnly bool             // open what is there and change nothing in it
}

const (
	// readerCount bounds reads at a time. A connection costs two file
	// descriptors and at most 2 MB of cache.
	readerCount = 6
	// checkpointPages is how long the log may grow before it is merged into
	// the database: 16 MiB. Merging costs two syncs, whatever the length.
	checkpointPages = 4096
	// busyTimeout is how long opening waits for other processes.
	busyTimeout = 20 * time.Second
)

// A Store is one process's handle on a directory. Methods may be called
// concurrently.
type Store struct {
	reads // each on a connection of its own

	cfg      Config
	readers  *readers
	writing  chan struct{} // holds one thing, of who has the writer's connection: the only one to touch the next three
	writer   *sqlite.Conn
	together int           // requests in the last transaction
	last     *reached      // by the last transaction, nil: it failed, or there was none
	queue    chan *request // received by who writes
	news     broadcast
	recent   recent
	log      logWatch
	found    int         // version of the schema before it was brought up to date, 0: the store is new
	file     os.FileInfo // the database, as it was opened

	broken  atomic.Pointer[error]
	once    sync.Once
	closing chan struct{}
}

var _ store.Store = (*Store)(nil)

// Open opens the store in cfg.Dir, making it when missing, and brings an older
// schema up to date. ErrNewer when a newer Plait made it.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	s := &Store{
		cfg:     cfg,
		queue:   make(chan *request),
		writing: make(chan struct{}, 1),
		closing: make(chan struct{}),
		news:    broadcast{ch: make(chan struct{})},
	}
	s.reads = reads{store: s, with: s.read, soon: s.readSoon}
	err := s.open(ctx)
	if err == nil {
		s.file, err = os.Stat(s.database())
	}
	if err != nil {
		if !cfg.ReadOnly && errors.Is(unix.Access(cfg.Dir, unix.W_OK), syscall.EROFS) {
			// SQLite words this as a failure to size its shared memory.
			err = fmt.Errorf("it lies on a read-only file system: %w", syscall.EROFS)
		}
		return nil, fmt.Errorf("open store %s: %w", cfg.Dir, err)
	}
	return s, nil
}

// OpenHome opens the store in a directory, for reading alone where there is one on a read-only disk.
func OpenHome(ctx context.Context, dir string) (store.Store, error) {
	s, err := Open(ctx, Config{Dir: dir})
	if errors.Is(err, syscall.EROFS) {
		if _, missing := os.Stat(filepath.Join(dir, "plait.db")); missing == nil {
			s, err = Open(ctx, Config{Dir: dir, ReadOnly: true})
		}
	}
	if err != nil {
		return nil, err // not s: it would be an interface that is not nil
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

// setUp makes c the writer's connection and the schema current.
func (s *Store) setUp(c *sqlite.Conn) error {
	c.SetBusyTimeout(busyTimeout)
	var err error
	if s.found, err = migrate(c); err != nil {
		return err
	}
	for _, q := range []string{
		"PRAGMA synchronous = FULL",
		fmt.Sprintf("PRAGMA wal_autocheckpoint = %d", checkpointPages),
		// Gives the space of an unusually long log back.
		fmt.Sprintf("PRAGMA journal_size_limit = %d", 4*checkpointPages*4096),
		"PRAGMA cache_size = -16384",
		"PRAGMA temp_store = MEMORY",
	} {
		if err := sqlitex.ExecuteTransient(c, q, nil); err != nil {
			return err
		}
	}
	// From here on the writer waits by itself, see begin.
	c.SetBusyTimeout(0)
	return nil
}

// openReadOnly opens what is there. Where not even the files that readers share
// can be made, the database is read as it lies, which is right only if no log
// waits to be merged into it.
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

// Close waits for the transaction under way and closes the database. Batches
// that still wait fail; leases stay with the process.
func (s *Store) Close() error {
	var err error
	s.once.Do(func() {
		close(s.closing)
		s.writing <- struct{}{} // for good
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

// Now returns the time of the machine: all who share the store are on it.
func (s *Store) Now() time.Time { return s.cfg.Now() }

func (s *Store) now() int64 { return s.cfg.Now().UnixMilli() }

// makeDirs makes the layout and refuses a directory that others can write to:
// whoever can plant a database can plant work.
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
		return fmt.Errorf("cannot be written: %w", err)
	} else if err != nil {
		return fmt.Errorf("may not be written: %w", err)
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

// makeDatabase makes an empty file that only its owner can read; SQLite gives the
// files beside it the same mode. It never touches one that exists: closing any
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

// lockDir keeps processes that open one directory apart: switching a new
// database to its log is the one thing that SQLite does not let two do at once.
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
