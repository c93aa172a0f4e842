package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/plait-run/plait/internal/record/store"
)

var errLeaseName = errors.New("a name may contain only letters, digits, dots and dashes")

// releasePatience is how long Release keeps trying to tell the server.
const releasePatience = 5 * time.Second

// A holding is the set of leases of this process.
type holding struct {
	asking sync.Mutex // one request at a time: a lease of ours that we do not know of is one whose answer was lost

	mu      sync.Mutex
	leases  map[store.Fence]*lease
	dropped map[string]int64 // tokens of leases whose release the server could not be told
}

// A lease is a row that names this process's handle, with a token that was never given out before.
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

// Acquire takes the lease called name, or immediately returns a *store.HeldError.
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
		return nil, fmt.Errorf("the schema was migrated to a newer version; this process takes no new work: %w",
			store.ErrNewer)
	}
	s.held.asking.Lock()
	defer s.held.asking.Unlock()
	for asked := time.Now(); ; {
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
				// The next round takes it: from a dead process, or from this one, which
				// released it or never received the answer to an earlier request.
				s.held.drop(name, held)
				if took := time.Since(asked); took > s.cfg.Patience {
					return nil, fmt.Errorf("no answer for %s", took.Round(time.Second))
				}
				continue
			}
			return nil, &store.HeldError{Name: name, Owner: h.owner}
		}
		l := &lease{s: s, fence: store.Fence{Name: name, Token: token}, lost: make(chan struct{})}
		s.held.add(l)
		return l, nil
	}
}

// Holder returns the owner of the lease called name and reports whether it is held.
func (s *Store) Holder(ctx context.Context, name string) (owner string, held bool, err error) {
	owners, err := s.Holders(ctx, []string{name})
	owner, held = owners[name]
	return owner, held, err
}

// Holders returns the owners of those of the named leases that are held.
func (s *Store) Holders(ctx context.Context, names []string) (map[string]string, error) {
	for _, name := range names {
		if !store.LeaseName(name) {
			return nil, fmt.Errorf("look at lease %q: %w", name, errLeaseName)
		}
	}
	return s.owners(ctx, "name = ANY (?)", names)
}

// Held returns the owners of the held leases whose names begin with prefix.
func (s *Store) Held(ctx context.Context, prefix string) (map[string]string, error) {
	if !store.LeaseName(prefix) {
		return nil, fmt.Errorf("look at leases %q: %w", prefix, errLeaseName)
	}
	return s.owners(ctx, "starts_with(name, ?) AND name >= ?", prefix, prefix)
}

// owners returns the owners of the held leases that meet a condition.
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

// Release gives the lease back. If the server cannot be told, this process notes that the
// lease is free: it can take it again, and tells the server after a later heartbeat.
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

// drop notes that a lease is free although the server still has a holder for it.
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

// settled forgets a dropped lease: the server knows, or it was a dead process's.
func (h *holding) settled(f store.Fence) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.dropped[f.Name] == f.Token {
		delete(h.dropped, f.Name)
	}
}

// lose tells the holders of the leases that lost picks. Within this process they stay held until
// they are released: its own agents must end first.
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

// check requests a heartbeat, which reveals lost leases, if a batch was refused although this
// process still holds one of the leases it was under.
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
