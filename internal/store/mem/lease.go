package mem

import (
	"context"
	"fmt"
	"os"

	"github.com/plait-run/plait/internal/store"
)

// A lease is held while it is the one that contents know by its name.
type lease struct {
	c     *contents
	name  string
	owner string
}

// Acquire takes the lease called name.
func (s *Store) Acquire(ctx context.Context, name string) (store.Lease, error) {
	var l *lease
	err := s.changing(ctx, OpAcquire, func(c *contents) error {
		if !leaseName(name) {
			return fmt.Errorf("lease %q: a name has only letters, digits, dots and dashes", name)
		}
		if held, ok := c.leases[name]; ok {
			return &store.HeldError{Name: name, Owner: held.owner}
		}
		l = &lease{c: c, name: name, owner: fmt.Sprintf("process %d on this host, since %s",
			os.Getpid(), s.cfg.Now().UTC().Format("2006-01-02 15:04:05"))}
		c.leases[name] = l
		return nil
	})
	if err != nil {
		return nil, err
	}
	return l, nil
}

// Release gives the lease back. A lease lost in a crash is someone else's by then.
func (l *lease) Release() error {
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	if l.c.leases[l.name] == l {
		delete(l.c.leases, l.name)
	}
	return nil
}

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
