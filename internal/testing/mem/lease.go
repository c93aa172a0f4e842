package mem

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/plait-run/plait/internal/record/store"
)

var errLeaseName = errors.New("a name may contain only letters, digits, dots and dashes")

// A lease is held as long as contents has it under its name.
type lease struct {
	s     *Store
	c     *contents
	name  string
	owner string
	token int64
	lost  chan struct{} // closed by Silence, once it is no longer held
}

// Fence returns what batches under the lease carry.
func (l *lease) Fence() store.Fence { return store.Fence{Name: l.name, Token: l.token} }

// Lost is closed by Silence.
func (l *lease) Lost() <-chan struct{} { return l.lost }

// Acquire takes the lease called name.
func (s *Store) Acquire(ctx context.Context, name string) (store.Lease, error) {
	var l *lease
	err := s.changing(ctx, OpAcquire, func(c *contents) error {
		if !store.LeaseName(name) {
			return fmt.Errorf("lease %q: %w", name, errLeaseName)
		}
		if held, ok := c.leases[name]; ok {
			return &store.HeldError{Name: name, Owner: held.owner}
		}
		c.tokens[name]++
		l = &lease{s: s, c: c, name: name, token: c.tokens[name], lost: make(chan struct{}),
			owner: fmt.Sprintf("process %d on this host, since %s",
				os.Getpid(), s.cfg.Now().UTC().Format("2006-01-02 15:04:05"))}
		c.leases[name] = l
		return nil
	})
	if err != nil {
		return nil, err
	}
	return l, nil
}

// Holder reports whether the lease called name is held, and by whom.
func (s *Store) Holder(ctx context.Context, name string) (owner string, held bool, err error) {
	owners, err := s.Holders(ctx, []string{name})
	owner, held = owners[name]
	return owner, held, err
}

// Holders returns the owners of those leases in names that are held.
func (s *Store) Holders(ctx context.Context, names []string) (map[string]string, error) {
	owners := map[string]string{}
	err := s.reading(ctx, OpHolder, func(c *contents) error {
		for _, name := range names {
			if !store.LeaseName(name) {
				return fmt.Errorf("lease %q: %w", name, errLeaseName)
			}
			if l, ok := c.leases[name]; ok {
				owners[name] = l.owner
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return owners, nil
}

// Held returns the owners of held leases whose names begin with prefix.
func (s *Store) Held(ctx context.Context, prefix string) (map[string]string, error) {
	owners := map[string]string{}
	err := s.reading(ctx, OpHolder, func(c *contents) error {
		if !store.LeaseName(prefix) {
			return fmt.Errorf("leases %q: %w", prefix, errLeaseName)
		}
		for name, l := range c.leases {
			if strings.HasPrefix(name, prefix) {
				owners[name] = l.owner
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return owners, nil
}

// Release gives the lease back. A lease lost in a crash may belong to another holder by then.
func (l *lease) Release() error {
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	if l.c.leases[l.name] == l {
		delete(l.c.leases, l.name)
	}
	return nil
}
