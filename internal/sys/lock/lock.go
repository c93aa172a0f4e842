// Package lock keeps processes of one machine apart: each lock is a file that one process holds.
//
// It takes a directory and a name, and returns a lock or its holder. Hosts that share a record are
// kept apart by leases of the store instead.
//
// Laws:
//
//   - A lock ends with Release or with its process, however that dies, and never by age.
//   - The holder is written inside, and can be looked up without taking the lock.
//
// The package does not know what a lock is for. Release removes the file; a killed process leaves it.
package lock

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// dyingFor is how long Acquire waits for a killed process that has not released the lock yet.
const dyingFor = 2 * time.Second

var errName = errors.New("the name must be a file name without a leading dot")

// Locks are the locks in a directory.
type Locks struct {
	Dir string           // created, readable by its owner only, if missing; "": nothing is kept apart
	Now func() time.Time // nil: time.Now
}

// A HeldError says who holds a lock.
type HeldError struct {
	Name  string
	Owner string // "process 4711 on host, since 2006-01-02 15:04:05"
}

func (e *HeldError) Error() string { return e.Name + " is held by " + e.Owner }

// A Lock is a locked file. The system releases the lock when the file is closed, and
// so when the process dies, however it dies.
//
// The lock is taken with flock, whose state can be learned only by trying. So that
// others can look without trying, the holder also marks the file: see mark and marked.
type Lock struct {
	once sync.Once
	f    *os.File
	err  error
}

// Acquire takes the lock called name, or returns a *HeldError. It waits only for a holder that is dying.
func (l Locks) Acquire(name string) (*Lock, error) {
	path, err := l.path(name)
	if err != nil {
		return nil, err
	}
	if l.Dir == "" {
		return &Lock{}, nil
	}
	asked := time.Now()
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if errors.Is(err, fs.ErrNotExist) {
			if err = os.MkdirAll(l.Dir, 0o700); err == nil {
				continue
			}
		}
		if err != nil {
			return nil, fmt.Errorf("lock %q: %w", name, err)
		}
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil && !same(f, path) {
			// Its holder removed it between our opening and locking it: a lock
			// on a file without a name excludes no one.
			f.Close()
			continue
		}
		if err == nil {
			err = l.sign(f)
		}
		if err == nil {
			err = mark(f)
		}
		if err == nil {
			return &Lock{f: f}, nil
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
			return nil, &HeldError{Name: name, Owner: owner}
		default:
			return nil, fmt.Errorf("lock %q: %w", name, err)
		}
	}
}

// Holder reports whether any process, including this one, holds the lock called name, and which:
// see HeldError.Owner. It takes nothing: it never turns away a process that acquires the lock.
// The answer may be outdated when Holder returns.
func (l Locks) Holder(name string) (owner string, held bool, err error) {
	path, err := l.path(name)
	for again := err == nil && l.Dir != ""; again; {
		owner, held, again, err = look(path)
	}
	if err != nil {
		return "", false, fmt.Errorf("look at lock %q: %w", name, err)
	}
	return owner, held, nil
}

func (l Locks) path(name string) (string, error) {
	if name == "" || name[0] == '.' || len(name) > 200 || strings.ContainsAny(name, "/\\\x00") {
		return "", fmt.Errorf("lock %q: %w", name, errName)
	}
	return filepath.Join(l.Dir, name), nil
}

// look reads who holds the lock at path. again reports that the name got another
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

// sign writes the holder into f, replacing what a dead holder wrote.
func (l Locks) sign(f *os.File) error {
	host, err := os.Hostname()
	if err != nil {
		host = "this host"
	}
	now := time.Now
	if l.Now != nil {
		now = l.Now
	}
	text := fmt.Sprintf("process %d on %s, since %s\n", os.Getpid(), host, now().Format("2006-01-02 15:04:05"))
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err = f.WriteAt([]byte(text), 0)
	return err
}

// ownerOf reads who holds f. A holder that has just locked it may not have signed it yet.
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

// Release gives the lock back. It may be called twice.
func (l *Lock) Release() error {
	l.once.Do(func() {
		if l.f == nil {
			return
		}
		// While we hold the lock nobody else can, so the name is ours to remove.
		l.err = errors.Join(os.Remove(l.f.Name()), l.f.Close())
	})
	return l.err
}
