package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/lock"
)

var errLeaseName = errors.New("a name may contain only letters, digits, dots and dashes")

// A lease is a locked file, so that it ends with its process, and a token in the
// database, so that batches can be checked against it.
type lease struct {
	*lock.Lock
	fence store.Fence
}

// Fence returns what batches under the lease carry.
func (l lease) Fence() store.Fence { return l.fence }

// Lost is never closed: the system frees the lock when its process dies, and not before.
func (l lease) Lost() <-chan struct{} { return nil }

func (s *Store) locks() lock.Locks {
	return lock.Locks{Dir: filepath.Join(s.cfg.Dir, "leases"), Now: s.cfg.Now}
}

// Acquire takes the lease called name, or returns a *store.HeldError. It waits only for a holder that is dying.
func (s *Store) Acquire(ctx context.Context, name string) (store.Lease, error) {
	err := s.alive(ctx)
	switch {
	case err != nil:
	case s.cfg.ReadOnly:
		err = s.readOnly()
	case !store.LeaseName(name):
		err = errLeaseName
	}
	if err != nil {
		return nil, fmt.Errorf("lease %q: %w", name, err)
	}
	held, err := s.locks().Acquire(name)
	if other, ok := errors.AsType[*lock.HeldError](err); ok {
		return nil, &store.HeldError{Name: name, Owner: other.Owner}
	}
	if err != nil {
		return nil, fmt.Errorf("lease: %w", err)
	}
	l := lease{Lock: held, fence: store.Fence{Name: name}}
	err = s.submit(ctx, grouped, func(t *tx) error {
		_, err := first(t.Conn, takeLease, func(r *row) { l.fence.Token = r.int() }, name)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("lease %q: %w", name, errors.Join(err, held.Release()))
	}
	return l, nil
}

// Holder reports whether the lease called name is held, and by whom.
func (s *Store) Holder(ctx context.Context, name string) (owner string, held bool, err error) {
	err = s.alive(ctx)
	if err == nil && !store.LeaseName(name) {
		err = errLeaseName
	}
	if err == nil {
		owner, held, err = s.locks().Holder(name)
	}
	if err != nil {
		return "", false, fmt.Errorf("look at lease %q: %w", name, err)
	}
	return owner, held, nil
}

// Holders returns the owners of those leases in names that are held.
func (s *Store) Holders(ctx context.Context, names []string) (map[string]string, error) {
	owners := map[string]string{}
	for _, name := range names {
		owner, held, err := s.Holder(ctx, name)
		if err != nil {
			return nil, err
		}
		if held {
			owners[name] = owner
		}
	}
	return owners, nil
}

// Held returns the owners of held leases whose names begin with prefix: each has a file.
func (s *Store) Held(ctx context.Context, prefix string) (map[string]string, error) {
	if !store.LeaseName(prefix) {
		return nil, fmt.Errorf("look at leases %q: %w", prefix, errLeaseName)
	}
	files, err := os.ReadDir(s.locks().Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("look at leases: %w", err)
	}
	var names []string
	for _, f := range files {
		if strings.HasPrefix(f.Name(), prefix) {
			names = append(names, f.Name())
		}
	}
	return s.Holders(ctx, names)
}
