package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// A Bouncer is PgBouncer in front of a server: a client gets one of few connections with it, for a transaction.
type Bouncer struct {
	t    testing.TB
	s    *Server
	file string
	port int
	cmd  *exec.Cmd
}

// NewBouncer starts PgBouncer in transaction mode, with at most conns connections to each database. It ends with
// the test. If it is not installed the test is skipped, or fails if CI is set.
func NewBouncer(t testing.TB, s *Server, conns int) *Bouncer {
	t.Helper()
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		program = "/usr/sbin/pgbouncer" // not in everyone's PATH
		_, err = os.Stat(program)
	}
	switch {
	case err != nil && os.Getenv("CI") != "":
		t.Fatalf("PgBouncer for tests: %v: make setup", err)
	case err != nil:
		t.Skip("NOT TESTED WITH PGBOUNCER: it is not installed: make setup")
	}
	dir, err := s.shop.room()
	if err != nil {
		t.Fatal(err)
	}
	b := &Bouncer{t: t, s: s, file: dir + "/pgbouncer.ini"}
	if b.port, err = freePort(); err != nil {
		t.Fatal(err)
	}
	_, port, _ := strings.Cut(s.Addr(), ":")
	for name, text := range map[string]string{
		dir + "/users": fmt.Sprintf("%q %q\n", owner, s.shop.password),
		b.file: fmt.Sprintf("[databases]\n* = host=127.0.0.1 port=%s\n[pgbouncer]\n"+
			"listen_addr = 127.0.0.1\nlisten_port = %d\n"+
			"unix_socket_dir =\nauth_type = scram-sha-256\nauth_file = %s/users\npool_mode = transaction\n"+
			"default_pool_size = %d\nmax_client_conn = 500\n", port, b.port, dir, conns),
	} {
		if err := errors.Join(os.WriteFile(name, []byte(text), 0o600), s.shop.give(name)); err != nil {
			t.Fatal(err)
		}
	}
	b.cmd = &exec.Cmd{Path: program}
	b.Start()
	t.Cleanup(b.Stop)
	return b
}

// URL returns a database's URL through the pooler.
func (b *Bouncer) URL(direct string) string {
	u, err := url.Parse(direct)
	if err != nil {
		panic(err) // not one of a Server
	}
	u.Host = "127.0.0.1:" + strconv.Itoa(b.port)
	return u.String()
}

// Stop kills the pooler.
func (b *Bouncer) Stop() {
	if b.cmd.Process != nil {
		b.cmd.Process.Kill()
		b.cmd.Wait()
	}
}

// Start starts the pooler, again after Stop, at the same address, and returns when it answers.
func (b *Bouncer) Start() {
	b.t.Helper()
	said := &strings.Builder{}
	b.cmd = &exec.Cmd{
		Path: b.cmd.Path, Args: []string{"pgbouncer", b.file}, Dir: b.s.shop.dir, Stdout: said, Stderr: said,
		SysProcAttr: &syscall.SysProcAttr{Credential: b.s.shop.as, Setpgid: true},
	}
	if err := b.cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		c, err := pgx.Connect(ctx, b.URL(b.s.URL("postgres")))
		if err == nil {
			c.Close(ctx)
		}
		cancel()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			b.Stop()
			b.t.Fatalf("PgBouncer does not answer: %v\n%s", err, said)
		}
	}
}
