package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/plait-run/plait/internal/store"
)

// A lease is a locked file. The system lets go of the lock when the file is
// closed, and so when the process dies, however it dies.
type lease struct {
	once sync.Once
	f    *os.File
	err  error
}

// Acquire takes the lease called name, or returns a *store.HeldError at once.
func (s *Store) Acquire(ctx context.Context, name string) (store.Lease, error) {
	err := s.alive(ctx)
	switch {
	case err != nil:
	case s.cfg.ReadOnly:
		err = errReadOnly
	case !leaseName(name):
		err = errors.New("a name has only letters, digits, dots and dashes")
	}
	if err != nil {
		return nil, fmt.Errorf("lease %q: %w", name, err)
	}
	path := filepath.Join(s.cfg.Dir, "leases", name)
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, fmt.Errorf("lease %q: %w", name, err)
		}
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil && !same(f, path) {
			// Its holder removed it between our opening and locking it: a lock
			// on a file without a name excludes nobody.
			f.Close()
			continue
		}
		if err == nil {
			err = s.sign(f)
		}
		if err == nil {
			return &lease{f: f}, nil
		}
		owner := ownerOf(f)
		f.Close()
		switch err {
		case syscall.EINTR:
		case syscall.EWOULDBLOCK:
			return nil, &store.HeldError{Name: name, Owner: owner}
		default:
			return nil, fmt.Errorf("lease %q: %w", name, err)
		}
	}
}

// sign writes into f who holds it, in place of what a dead holder wrote.
func (s *Store) sign(f *os.File) error {
	host, err := os.Hostname()
	if err != nil {
		host = "this host"
	}
	text := fmt.Sprintf("process %d on %s, since %s\n", os.Getpid(), host, s.cfg.Now().Format("2006-01-02 15:04:05"))
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err = f.WriteAt([]byte(text), 0)
	return err
}

// ownerOf reads who holds f. A holder that has just locked it has not signed yet.
func ownerOf(f *os.File) string {
	b := make([]byte, 512)
	n, _ := f.ReadAt(b, 0)
	if line, _, ok := strings.Cut(string(b[:n]), "\n"); ok && line != "" {
		return line
	}
	return "another process"
}

func same(f *os.File, path string) bool {
	here, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(path)
	return err == nil && os.SameFile(here, there)
}

// Release gives the lease back.
func (l *lease) Release() error {
	l.once.Do(func() {
		// While we hold the lock nobody else can, so the name is ours to remove.
		l.err = errors.Join(os.Remove(l.f.Name()), l.f.Close())
	})
	return l.err
}

// leaseName tells whether name is a file name of harmless letters.
func leaseName(name string) bool {
	if name == "" || name[0] == '.' || len(name) > 200 {
		return false
	}
	for _, r := range name {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.', r == '-':
		default:
			return false
		}
	}
	return true
}
