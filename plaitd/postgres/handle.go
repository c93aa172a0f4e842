package postgres

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/proc"
)

// A handle is a process that has the store open.
type handle struct {
	id    string
	owner string // for display
	host  string
	boot  string // boot of the host, and pid namespace
	pid   int64
	start int64
}

const handleColumns = "id, owner, host, boot, pid, start"

// thisProcess returns a new handle.
func thisProcess() (handle, error) {
	host, err := os.Hostname()
	if err != nil {
		return handle{}, err
	}
	random := make([]byte, 16)
	rand.Read(random)
	h := handle{id: hex.EncodeToString(random), host: store.Text(host), boot: bootID(), pid: int64(os.Getpid())}
	h.start, _ = proc.Identify(os.Getpid())
	h.owner = fmt.Sprintf("process %d on %s, since %s", h.pid, h.host, time.Now().Format("2006-01-02 15:04:05"))
	return h, nil
}

// bootID identifies the boot and pid namespace in which a pid means a process: containers of
// one host have their own pids. It is empty if unknown.
func bootID() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	room, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(boot)) + " " + room
}

// lives reports whether the process behind a handle with recent heartbeats may be alive:
// for one on the same host the system knows immediately.
func (s *Store) lives(h handle) bool {
	if h.id == s.me.id || s.me.boot == "" || h.host != s.me.host || h.boot != s.me.boot || h.start == 0 {
		return true
	}
	return s.cfg.Alive(int(h.pid), h.start)
}

func (s *Store) handleOf(ctx context.Context, id string) (h handle, found bool, err error) {
	q := query{sql: "SELECT " + handleColumns + " FROM plait.handles"}
	q.and("id = ?", id)
	rows, err := many(ctx, s.reads, "handle", q, func(rows pgx.Rows) (h handle, err error) {
		err = rows.Scan(&h.id, &h.owner, &h.host, &h.boot, &h.pid, &h.start)
		return h, err
	})
	if err != nil || len(rows) == 0 {
		return h, false, err
	}
	return rows[0], true, nil
}

// A clock derives the server's time from this process's clock and how far that has moved
// since the server last sent its time.
type clock struct {
	mu    sync.Mutex
	at    time.Time // this process's time when the server's was there
	there time.Time
	trip  time.Duration // the round trip of that answer
	heard time.Time     // when the server last answered
}

// Silence returns the time since the server last answered a heartbeat.
func (s *Store) Silence() time.Duration {
	s.clock.mu.Lock()
	defer s.clock.mu.Unlock()
	return time.Since(s.clock.heard)
}

// Now returns the server's time.
func (s *Store) Now() time.Time {
	s.clock.mu.Lock()
	defer s.clock.mu.Unlock()
	return s.clock.there.Add(time.Since(s.clock.at))
}

// set notes the server's time, requested at asked. For a minute no answer with a much longer
// round trip replaces it.
func (c *clock) set(asked time.Time, there time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.heard = time.Now()
	trip := c.heard.Sub(asked)
	if !c.at.IsZero() && trip > 2*c.trip && time.Since(c.at) < time.Minute {
		return
	}
	c.at, c.there, c.trip = asked.Add(trip/2), there, trip
}

// beat tells the server that this process lives, and receives the leases it holds.
func (s *Store) beat(ctx context.Context) error {
	before, dropped := s.held.mine()
	var asked time.Time
	var now int64
	var version int
	var names []string
	var tokens []int64
	err := on(ctx, s.pulse, func(c *pgx.Conn) error {
		asked = time.Now() // connecting and logging in are not part of the round trip
		const q = "SELECT r_now, r_version, r_names, r_tokens FROM plait.beat($1, $2, $3, $4, $5, $6, $7)"
		return c.QueryRow(ctx, q, s.me.id, s.me.owner, s.me.host, s.me.boot, s.me.pid, s.me.start, s.cfg.TTL.Milliseconds()).
			Scan(&now, &version, &names, &tokens)
	})
	if err != nil {
		return err
	}
	s.clock.set(asked, time.UnixMilli(now))
	s.newer.Store(version > len(migrations))
	have := map[store.Fence]bool{}
	for i, name := range names {
		have[store.Fence{Name: name, Token: tokens[i]}] = true
	}
	had := map[store.Fence]bool{} // a lease taken since the request is not in the answer
	for _, f := range before {
		had[f] = true
	}
	s.held.lose(func(f store.Fence) bool { return had[f] && !have[f] })
	if s.held.asking.TryLock() { // while none is being taken, one that we do not know of is one whose answer was lost
		for f := range have {
			if !had[f] && !s.held.has(f) {
				s.held.drop(f.Name, f.Token)
			}
		}
		s.held.asking.Unlock()
	}
	for _, f := range dropped {
		if !have[f] || s.release(ctx, f) == nil {
			s.held.settled(f)
		}
	}
	return nil
}

// keepApplied is how long outcomes are remembered, and keepHandles how long silent processes are.
const (
	keepApplied = time.Hour
	keepHandles = 24 * time.Hour
	tidyEvery   = 10 * time.Minute
)

// live sends heartbeats until the store closes. If the server does not answer for long
// enough, all leases are lost.
func (s *Store) live() {
	heard, tidied := time.Now(), time.Time{}
	timer := time.NewTimer(s.cfg.Beat)
	defer timer.Stop()
	for {
		select {
		case <-s.closing:
			return
		case <-s.soon:
		case <-timer.C:
		}
		asked := time.Now()
		left := s.cfg.Lost - asked.Sub(heard)
		if left <= 0 {
			s.held.lose(func(store.Fence) bool { return true })
			left = s.cfg.Beat
		}
		ctx, cancel := context.WithTimeout(s.ctx, min(left, s.cfg.Beat))
		err := s.beat(ctx)
		cancel()
		next := s.cfg.Beat
		if err == nil {
			heard = asked
		} else {
			next = min(s.cfg.Beat/5, max(s.cfg.Lost-time.Since(heard), minNap))
		}
		timer.Reset(next)
		if err == nil && time.Since(tidied) > tidyEvery {
			tidied = time.Now()
			s.tidy()
		}
	}
}

// beatSoon has a heartbeat sent now.
func (s *Store) beatSoon() {
	select {
	case s.soon <- struct{}{}:
	default:
	}
}

// tidy removes rows that no process will ask for again.
func (s *Store) tidy() {
	ctx, cancel := context.WithTimeout(s.ctx, s.cfg.Try)
	defer cancel()
	on(ctx, s.readers, func(c *pgx.Conn) error { // on failure the next call does it
		const q = `WITH a AS (DELETE FROM plait.applied WHERE at < plait.millis() - $1)
			DELETE FROM plait.handles h WHERE until < plait.millis() - $2
				AND NOT EXISTS (SELECT 1 FROM plait.leases l WHERE l.handle = h.id)
				AND NOT EXISTS (SELECT 1 FROM plait.uploads u WHERE u.handle = h.id)`
		_, err := c.Exec(ctx, q, keepApplied.Milliseconds(), keepHandles.Milliseconds())
		return err
	})
}

// leave tells the server that this process holds nothing any more.
func (s *Store) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	on(ctx, s.pulse, func(c *pgx.Conn) error { // an error is harmless: its heartbeats stop
		_, err := c.Exec(ctx, "DELETE FROM plait.handles WHERE id = $1", s.me.id)
		return err
	})
}
