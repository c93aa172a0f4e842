package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/plait-run/plait/internal/store"
)

var errLeaseName = errors.New("a name has only letters, digits, dots and dashes")

// releasePatience is how long Release tries to tell the server.
const releasePatience = 5 * time.Second

// A holding is the leases of this process.
type holding struct {
	asking sync.Mutex // one lease is asked for at a time: so a lease of ours that we do not know was meant for us

	mu      sync.Mutex
	leases  map[store.Fence]*lease
	dropped map[string]int64 // tokens of leases that the server could not be told to have been released
}

// A lease is a row that names this process's handle, with a token that was never given before.
type lease struct {
	s     *Store
	fence store.Fence
	lost  chan struct{}
	gone  bool // lost, under the holding's lock
	once  sync.Once
	err   error
}

func (l *lease) Fence() store.Fence { return l.fence }

func (l *lease) Lost() <-chan struct{} { return l.lost }

// Acquire takes the lease called name, or returns a *store.HeldError at once.
func (s *Store) Acquire(ctx context.Context, name string) (store.Lease, error) {
	l, err := s.acquire(ctx, name)
	if err != nil {
		if _, held := errors.AsType[*store.HeldError](err); held {
			return nil, err
		}
		return nil, fmt.Errorf("lease %q: %w", name, err)
	}
	return l, nil
}

func (s *Store) acquire(ctx context.Context, name string) (*lease, error) {
	switch {
	case !store.LeaseName(name):
		return nil, errLeaseName
	case s.newer.Load():
		return nil, fmt.Errorf("the schema has become newer, and this process takes nothing up any more: %w", store.ErrNewer)
	}
	s.held.asking.Lock()
	defer s.held.asking.Unlock()
	for {
		var token, held int64
		var holder *string
		dead := s.held.droppedToken(name)
		err := s.patiently(ctx, func(ctx context.Context) error {
			return on(ctx, s.writers, func(c *pgx.Conn) error {
				const q = "SELECT r_token, r_holder, coalesce(r_held, 0) FROM plait.acquire($1, $2, $3, $4)"
				return c.QueryRow(ctx, q, name, s.me.id, dead, int64(lockKey)).Scan(&token, &holder, &held)
			})
		})
		if err != nil {
			return nil, err
		}
		if token == 0 && holder != nil {
			h, found, err := s.handleOf(ctx, *holder)
			unheard := *holder == s.me.id && !s.held.has(store.Fence{Name: name, Token: held})
			switch {
			case err != nil:
				return nil, err
			case !found || !s.lives(h) || unheard:
				// The next round takes it: from the dead; or from this process, which let go of
				// it, or asked for it before and did not hear the answer.
				s.held.drop(name, held)
				continue
			}
			return nil, &store.HeldError{Name: name, Owner: h.owner}
		}
		l := &lease{s: s, fence: store.Fence{Name: name, Token: token}, lost: make(chan struct{})}
		s.held.add(l)
		return l, nil
	}
}

// Holder reports whether somebody holds the lease called name, and who.
func (s *Store) Holder(ctx context.Context, name string) (owner string, held bool, err error) {
	owners, err := s.Holders(ctx, []string{name})
	owner, held = owners[name]
	return owner, held, err
}

// Holders returns who holds those leases of names that somebody holds.
func (s *Store) Holders(ctx context.Context, names []string) (map[string]string, error) {
	for _, name := range names {
		if !store.LeaseName(name) {
			return nil, fmt.Errorf("look at lease %q: %w", name, errLeaseName)
		}
	}
	return s.owners(ctx, "name = ANY (?)", names)
}

// Held returns who holds the leases whose names begin with a prefix.
func (s *Store) Held(ctx context.Context, prefix string) (map[string]string, error) {
	if !store.LeaseName(prefix) {
		return nil, fmt.Errorf("look at leases %q: %w", prefix, errLeaseName)
	}
	return s.owners(ctx, "starts_with(name, ?) AND name >= ?", prefix, prefix)
}

// owners returns who holds the leases of a condition.
func (s *Store) owners(ctx context.Context, condition string, args ...any) (map[string]string, error) {
	type hold struct {
		handle
		fence store.Fence
	}
	q := query{sql: "SELECT " + handleColumns + ", name, token FROM plait.leases JOIN plait.handles ON id = handle"}
	q.and(condition+" AND until > plait.millis()", args...)
	found, err := many(ctx, s.reads, "leases", q, func(rows pgx.Rows) (h hold, err error) {
		err = rows.Scan(&h.id, &h.owner, &h.host, &h.boot, &h.pid, &h.start, &h.fence.Name, &h.fence.Token)
		return h, err
	})
	if err != nil {
		return nil, fmt.Errorf("look at leases: %w", err)
	}
	owners := make(map[string]string, len(found))
	for _, h := range found {
		if s.lives(h.handle) && h.fence.Token != s.held.droppedToken(h.fence.Name) {
			owners[h.fence.Name] = h.owner
		}
	}
	return owners, nil
}

// Release gives the lease back. If the server cannot be told, this process knows that nobody
// has it: it can take it again, and tells the server with its signs of life.
func (l *lease) Release() error {
	l.once.Do(func() {
		l.s.held.remove(l)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(l.s.ctx), releasePatience)
		defer cancel()
		if l.s.alive(ctx) != nil {
			return // Close has given it back
		}
		if err := l.s.release(ctx, l.fence); err != nil {
			l.s.held.drop(l.fence.Name, l.fence.Token)
			l.err = fmt.Errorf("release lease %q: %w", l.fence.Name, err)
		}
	})
	return l.err
}

func (s *Store) release(ctx context.Context, f store.Fence) error {
	return s.patiently(ctx, func(ctx context.Context) error {
		return on(ctx, s.writers, func(c *pgx.Conn) error {
			const q = "UPDATE plait.leases SET handle = '' WHERE name = $1 AND token = $2"
			_, err := c.Exec(ctx, q, f.Name, f.Token)
			return err
		})
	})
}

func (h *holding) add(l *lease) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.dropped, l.fence.Name)
	h.leases[l.fence] = l
}

func (h *holding) remove(l *lease) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.leases, l.fence)
}

func (h *holding) has(f store.Fence) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.leases[f] != nil
}

// drop notes that nobody has a lease who the server says has it.
func (h *holding) drop(name string, token int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.dropped[name] = max(h.dropped[name], token)
}

func (h *holding) droppedToken(name string) int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.dropped[name]
}

// mine returns the fences of what this process holds, and of what it could not release.
func (h *holding) mine() (held, dropped []store.Fence) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for f, l := range h.leases {
		if !l.gone {
			held = append(held, f)
		}
	}
	for name, token := range h.dropped {
		dropped = append(dropped, store.Fence{Name: name, Token: token})
	}
	return held, dropped
}

// settled forgets a lease that was dropped: the server knows, or it was of a dead process.
func (h *holding) settled(f store.Fence) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.dropped[f.Name] == f.Token {
		delete(h.dropped, f.Name)
	}
}

// lose tells the holders of those leases that lost picks. They are held until they are released,
// as far as this process goes: its own agents are to end first.
func (h *holding) lose(lost func(store.Fence) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for f, l := range h.leases {
		if lost(f) && !l.gone {
			l.gone = true
			close(l.lost)
		}
	}
}

// check asks for a sign of life, which tells what has been taken, if a batch under one of this
// process's leases was refused.
func (h *holding) check(fences []store.Fence, soon func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, f := range fences {
		if l := h.leases[f]; l != nil && !l.gone {
			soon()
			return
		}
	}
}
