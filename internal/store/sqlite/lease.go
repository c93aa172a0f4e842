package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/plait-run/plait/internal/store"
)

// dyingFor is how long Acquire waits for a process that was killed and has not let go yet.
const dyingFor = 2 * time.Second

var errLeaseName = errors.New("a name has only letters, digits, dots and dashes")

// A lease is a locked file. The system lets go of the lock when the file is
// closed, and so when the process dies, however it dies.
//
// The lock is that of flock, of which can be known only by trying. So that others
// can look without trying, the holder marks the file too: see mark and marked.
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
	case !store.LeaseName(name):
		err = errLeaseName
	}
	if err != nil {
		return nil, fmt.Errorf("lease %q: %w", name, err)
	}
	path := filepath.Join(s.cfg.Dir, "leases", name)
	asked := time.Now()
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
			err = mark(f)
		}
		if err == nil {
			return &lease{f: f}, nil
		}
		owner := ownerOf(f)
		f.Close()
		switch err {
		case syscall.EINTR:
		case syscall.EWOULDBLOCK:
			var pid int
			if fmt.Sscanf(owner, "process %d", &pid); dying(pid) && time.Since(asked) < dyingFor {
				time.Sleep(5 * time.Millisecond)
				continue
			}
			return nil, &store.HeldError{Name: name, Owner: owner}
		default:
			return nil, fmt.Errorf("lease %q: %w", name, err)
		}
	}
}

// Holder reports whether somebody holds the lease called name, and who.
func (s *Store) Holder(ctx context.Context, name string) (owner string, held bool, err error) {
	err = s.alive(ctx)
	if err == nil && !store.LeaseName(name) {
		err = errLeaseName
	}
	for again := err == nil; again; {
		owner, held, again, err = look(filepath.Join(s.cfg.Dir, "leases", name))
	}
	if err != nil {
		return "", false, fmt.Errorf("look at lease %q: %w", name, err)
	}
	return owner, held, nil
}

// look reads who holds the lease kept at path. Again says that the name got another
// file meanwhile.
func look(path string) (owner string, held, again bool, err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, false, nil
	}
	if err != nil {
		return "", false, false, err
	}
	defer f.Close()
	held, err = marked(f)
	switch {
	case err != nil:
		return "", false, false, err
	case held:
		return ownerOf(f), true, false, nil
	}
	return "", false, !same(f, path), nil
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
