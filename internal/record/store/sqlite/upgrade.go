package sqlite

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// An Upgrade is what opening an older store does to it.
type Upgrade struct {
	From, To int    // versions of the schema
	Copy     string // the file that keeps the database as it was
}

func (u Upgrade) String() string {
	return fmt.Sprintf("plait: this record has schema %d: it is upgraded to %d, and %s keeps it as it was",
		u.From, u.To, u.Copy)
}

// keep copies the database, which has an older schema, to a file next to it, named by that schema and the time. Since
// SQLite copies, what is still in the log is in it too. The caller holds the lock that writers need. A redaction
// removes such files.
func (s *Store) keep(version int) error {
	u := Upgrade{From: version, To: len(migrations), Copy: filepath.Join(s.cfg.Dir, fmt.Sprintf("plait-schema%d-%s.db",
		version, s.cfg.Now().UTC().Format("20060102T150405Z")))}
	if err := s.roomForCopy(u); err != nil {
		return err
	}
	if s.cfg.Upgrading != nil {
		s.cfg.Upgrading(u)
	}
	if err := s.copyTo(u.Copy); err != nil {
		return fmt.Errorf("copy the database before its schema is upgraded: %w", errors.Join(err, os.Remove(u.Copy)))
	}
	return nil
}

// roomForCopy refuses an upgrade for which the disk may be too small: it needs about as much again as the copy.
func (s *Store) roomForCopy(u Upgrade) error {
	var need int64
	for _, name := range []string{s.database(), s.database() + "-wal"} {
		if info, err := os.Stat(name); err == nil {
			need += 2 * info.Size()
		}
	}
	var disk unix.Statfs_t
	if err := unix.Statfs(s.cfg.Dir, &disk); err != nil {
		return fmt.Errorf("find the free space: %w", err)
	}
	if free := int64(disk.Bavail) * int64(disk.Bsize); free < need {
		return fmt.Errorf("it has schema %d: to upgrade it to %d and keep a copy takes %d MB, and %d MB are free; "+
			"nothing was changed", u.From, u.To, need>>20+1, free>>20)
	}
	return nil
}

// copyTo writes what is committed to a new file, durably.
func (s *Store) copyTo(name string) error {
	if err := makeDatabase(name); err != nil { // readable by its owner only
		return err
	}
	c, err := sqlite.OpenConn(s.database(), sqlite.OpenReadOnly)
	if err != nil {
		return err
	}
	err = sqlitex.ExecuteTransient(c, "VACUUM INTO ?", &sqlitex.ExecOptions{Args: []any{name}})
	if err = errors.Join(err, c.Close()); err != nil {
		return err
	}
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close(), syncDir(s.cfg.Dir))
}
