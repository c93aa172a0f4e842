package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/plait-run/plait/internal/record/store"
)

const (
	minNap = 20 * time.Millisecond
	maxNap = time.Second

	// unreachablePatience is how long Open tries to reach a server that does not answer at all.
	unreachablePatience = 5 * time.Second
)

// patiently runs f until it gets an answer, whatever happens to the connection or the server
// meanwhile, for at most Config.Patience. Each try may take Config.Try; what comes later is no answer.
func (s *Store) patiently(ctx context.Context, f func(ctx context.Context) error) error {
	return s.insist(ctx, s.cfg.Try, func(error) time.Duration { return s.cfg.Patience }, f)
}

// insist is patiently with another time for each try, and a patience that depends on the error.
func (s *Store) insist(ctx context.Context, each time.Duration, worth func(error) time.Duration,
	f func(ctx context.Context) error) error {
	asked := time.Now()
	for nap := minNap; ; nap = min(2*nap, maxNap) {
		if err := s.alive(ctx); err != nil {
			return err
		}
		try, cancel := context.WithTimeout(ctx, each)
		err := f(try)
		if err == nil {
			err = try.Err() // a commit that was canceled while it waited for a standby reports success
		}
		cancel()
		switch {
		case err == nil || ctx.Err() != nil || !passing(err):
			return explain(ctx, err)
		case time.Since(asked)+nap > worth(err):
			return fmt.Errorf("no answer for %s: %w", time.Since(asked).Round(time.Second), explain(ctx, err))
		}
		select {
		case <-time.After(nap):
		case <-s.closing:
			return errClosed
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// greeting returns how long to wait for a server that nothing is known of yet. One that answers with an error
// gets the usual patience; if nothing answers, the address may be wrong.
func (s *Store) greeting(err error) time.Duration {
	if _, ok := errors.AsType[*pgconn.PgError](err); ok {
		return s.cfg.Patience
	}
	return min(s.cfg.Patience, unreachablePatience)
}

// on runs f on a connection of p. What broke one connection has broken the others too.
func on(ctx context.Context, p *pgxpool.Pool, f func(*pgx.Conn) error) error {
	c, err := p.Acquire(ctx)
	if err != nil {
		return err
	}
	err = f(c.Conn())
	if !c.Conn().IsClosed() {
		c.Release()
		return err
	}
	// A broken connection frees its place immediately: the pool would keep it until the server
	// has answered once more, or for 15 s, and there are few.
	gone := c.Hijack()
	gone.PgConn().Conn().Close()
	if err != nil && ctx.Err() == nil {
		p.Reset()
	}
	return err
}

// passing reports whether a retry may succeed, or fail differently.
func passing(err error) bool {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch e.Code {
		case "57P01", "57P02", "57P03", // the server is stopping, has crashed, or is starting
			"57014",          // we canceled a try
			"57P05",          // idle for too long
			"53300",          // too many connections
			"55P03",          // a lock was not available in time
			"25006",          // the server has become a replica
			"40001", "40P01", // serialization, deadlock
			"PL005": // silent for too long: the next heartbeat repairs it
			return true
		}
		return strings.HasPrefix(e.Code, "08") && !isPooler(e)
	}
	for _, passes := range []error{
		context.DeadlineExceeded, io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, syscall.ECONNRESET, syscall.ECONNREFUSED,
		syscall.EPIPE,
		pgconn.ErrReadOnlyConnection, pgconn.ErrStandbyConnection, // target_session_attrs: no server has taken over yet
	} {
		if errors.Is(err, passes) {
			return true
		}
	}
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	return pgconn.SafeToRetry(err)
}

// isPooler reports whether err is PgBouncer's answer to a client that takes it for a server.
func isPooler(e *pgconn.PgError) bool {
	return e.Code == "08P01" && strings.Contains(e.Message, "unsupported startup parameter")
}

// explain puts what an error of the server means into our own words.
func explain(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		if isPooler(e) {
			return fmt.Errorf("a pooler answers there: set PLAIT_STORE_DIRECT to the server's own address (%w)", err)
		}
		switch e.Code {
		case "53300":
			return fmt.Errorf("the server has no connection left: raise max_connections, or lower PLAIT_STORE_CONNS (%w)", err)
		case "53100":
			return fmt.Errorf("the server's disk is full: %w (%w)", syscall.ENOSPC, err)
		case "XX001", "XX002":
			return fmt.Errorf("the database is damaged: %w (%w)", store.ErrCorrupt, err)
		}
	}
	return err
}

// refused parses the outcome of a batch: an SQLSTATE and a reason, or empty if it was applied.
func refused(result string) error {
	if result == "" {
		return nil
	}
	code, why, _ := strings.Cut(result, " ")
	switch code {
	case "PL001", "23505":
		return fmt.Errorf("%s: %w", why, store.ErrConflict)
	case "PL002":
		return fmt.Errorf("%s: %w", why, store.ErrNotFound)
	case "PL003":
		return fmt.Errorf("%s: %w", why, store.ErrFenced)
	case "PL004":
		return fmt.Errorf("%s: %w", why, errGivenUp)
	}
	return errors.New(result)
}
