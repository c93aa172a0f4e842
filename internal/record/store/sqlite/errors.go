package sqlite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"

	"zombiezen.com/go/sqlite"

	"github.com/plait-run/plait/internal/record/store"
)

var (
	errClosed   = errors.New("store is closed")
	errReadOnly = fmt.Errorf("store is read-only: %w", syscall.EROFS)
	errFull     = fmt.Errorf("disk full: %w", syscall.ENOSPC)
)

// unwritable returns why a file system has no room for the files with which SQLite opens a database, or does not take
// them; nil if err says neither.
func unwritable(err error) error {
	switch {
	case errors.Is(err, syscall.EROFS):
		return errReadOnly
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), sqlite.ErrCode(err) == sqlite.ResultIOErrSHMSize:
		return errFull
	}
	return nil
}

// readOnly returns why nothing can be written.
func (s *Store) readOnly() error { return cmp.Or(s.cfg.why, errReadOnly) }

// isSQLite reports whether err is SQLite's rather than ours.
func isSQLite(err error) bool {
	return err != nil && sqlite.ErrCode(err) != sqlite.ResultError
}

// explain says in our words what an error of SQLite or of the system means. A
// failed read or write of the database breaks the store: what the kernel and
// SQLite hold in memory may be ahead of the disk. A full or read-only disk does
// not: SQLite has rolled the transaction back, and the next one may succeed.
// Nor does damage that a reader meets, or it could not look for more.
func (s *Store) explain(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	switch code := sqlite.ErrCode(err); code.ToPrimary() {
	case sqlite.ResultFull:
		return errFull
	case sqlite.ResultReadOnly:
		return fmt.Errorf("%s cannot be written: %w", s.database(), syscall.EROFS)
	case sqlite.ResultCorrupt, sqlite.ResultNotADB:
		return fmt.Errorf("%s is damaged (%w): %w", s.database(), err, store.ErrCorrupt)
	case sqlite.ResultCantOpen:
		if gone := s.present(); gone != nil {
			return gone
		}
		return fmt.Errorf("%s: %w", s.database(), err)
	case sqlite.ResultIOErr:
		if code == sqlite.ResultIOErrNoMem {
			break
		}
		return s.halt(fmt.Errorf("%s: %w (%s): %w", s.database(), err, code, store.ErrBroken))
	case sqlite.ResultInterrupt:
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("disk full: %w", err)
	case errors.Is(err, syscall.EROFS):
		return fmt.Errorf("read-only file system: %w", err)
	}
	return err
}

// halt stops the store permanently. The first reason is the one that counts.
func (s *Store) halt(why error) error {
	s.broken.CompareAndSwap(nil, &why)
	return why
}

// alive returns the reason that nothing can continue, if there is one.
func (s *Store) alive(ctx context.Context) error {
	if why := s.broken.Load(); why != nil {
		if errors.Is(*why, store.ErrBroken) {
			return *why
		}
		return fmt.Errorf("%w: %w", store.ErrBroken, *why)
	}
	select {
	case <-s.closing:
		return errClosed
	default:
		return ctx.Err()
	}
}

// synced syncs a file or directory. A failure, unless the disk is full, breaks
// the store: the kernel may have thrown the unwritten pages away, and a second
// try would succeed without them.
func (s *Store) synced(f *os.File) error {
	err := f.Sync()
	if err == nil || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return err
	}
	return s.halt(fmt.Errorf("%w: %w", err, store.ErrBroken))
}
