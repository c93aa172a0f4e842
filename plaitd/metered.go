package main

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/plaitd/postgres"
)

// metered counts what this process does with the record.
type metered struct {
	commits         prometheus.Histogram
	failures        *prometheus.CounterVec
	lost, takeovers atomic.Int64

	mu      sync.Mutex
	record  *postgres.Store   // nil until it is open
	running map[string]string // attempts that have begun here and not ended, by thread
}

func newMetered() *metered {
	return &metered{
		commits: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "plait_record_commit_seconds",
			Help: "How long commits took, with those that failed.", Buckets: commitBuckets}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "plait_worker_attempts_failed_total",
			Help: "Attempts that failed, by kind."}, []string{"kind"}),
		running: map[string]string{},
	}
}

// open opens a record whose use is counted.
func (m *metered) open(ctx context.Context, cfg postgres.Config) (store.Store, error) {
	s, err := postgres.Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.record = s
	return meteredStore{s, m}, nil
}

// agents returns how many attempts have begun here and not ended.
func (m *metered) agents() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.running)
}

// silence returns the time since the record last answered.
func (m *metered) silence() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.record == nil {
		return 0
	}
	return m.record.Silence()
}

// committed counts a change of an attempt.
func (m *metered) committed(c store.AttemptChange) {
	m.mu.Lock()
	defer m.mu.Unlock()
	a := c.Row
	if a.Status == store.AttemptRunning {
		m.running[a.Thread] = a.ID
		return
	}
	own := m.running[a.Thread] == a.ID
	if own {
		delete(m.running, a.Thread)
	}
	if c.From == store.AttemptRunning && a.Status == store.AttemptInterrupted && !own {
		m.takeovers.Add(1)
	}
	if a.Status == store.AttemptFailed && c.From != a.Status && a.Failure != nil {
		m.failures.WithLabelValues(string(a.Failure.Kind)).Inc()
	}
}

// meteredStore is a record whose use is counted.
type meteredStore struct {
	*postgres.Store
	*metered
}

func (s meteredStore) Commit(ctx context.Context, b store.Batch) error {
	began := time.Now()
	err := s.Store.Commit(ctx, b)
	s.commits.Observe(time.Since(began).Seconds())
	if err == nil {
		for _, a := range b.Attempts {
			s.committed(a)
		}
	}
	return err
}

func (s meteredStore) Acquire(ctx context.Context, name string) (store.Lease, error) {
	l, err := s.Store.Acquire(ctx, name)
	thread, is := strings.CutPrefix(name, store.ThreadLease(""))
	if err != nil || !is {
		return l, err
	}
	return &meteredLease{Lease: l, of: s.metered, thread: thread}, nil
}

// meteredLease is the lease of a thread. Nothing of the thread runs here once it is released.
type meteredLease struct {
	store.Lease
	of     *metered
	thread string
	once   sync.Once
}

func (l *meteredLease) Release() error {
	l.once.Do(func() {
		select {
		case <-l.Lost():
			l.of.lost.Add(1)
		default:
		}
		l.of.mu.Lock()
		defer l.of.mu.Unlock()
		delete(l.of.running, l.thread)
	})
	return l.Lease.Release()
}
