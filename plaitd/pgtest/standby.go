package pgtest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Standby starts a server that follows s, and makes s report no commit before the standby has it too. It is
// stopped when the test ends.
func (s *Server) Standby(t testing.TB) *Server {
	t.Helper()
	dir, err := s.shop.room()
	if err != nil {
		t.Fatal(err)
	}
	next := &Server{t: t, shop: s.shop, config: s.config, dir: dir}
	s.Tool(t, nil, "pg_basebackup", "--dbname="+s.url(admin, "postgres"), "--pgdata="+next.Data(), "--write-recovery-conf",
		"--checkpoint=fast", "--no-sync")
	if next.port, err = freePort(); err != nil {
		t.Fatal(err)
	}
	next.Start()
	t.Cleanup(func() { next.stop(Immediate) })
	ctx := t.Context()
	if err := s.Admin(ctx, "ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()"); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		err := s.follows(ctx)
		if err == nil {
			return next
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// follows returns an error while commits do not wait for a standby yet.
func (s *Server) follows(ctx context.Context) error {
	c, err := pgx.Connect(ctx, s.url(admin, "postgres"))
	if err != nil {
		return err
	}
	defer c.Close(ctx)
	var n int
	err = c.QueryRow(ctx, "SELECT count(*) FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum')").Scan(&n)
	if err == nil && n == 0 {
		err = fmt.Errorf("no standby follows %s", s.Addr())
	}
	return err
}

// Promote makes a standby take over.
func (s *Server) Promote() {
	s.t.Helper()
	if err := s.Admin(s.t.Context(), "SELECT pg_promote()"); err != nil {
		s.t.Fatal(err)
	}
}
