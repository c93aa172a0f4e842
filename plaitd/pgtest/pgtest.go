// Package pgtest runs Postgres for tests: real servers in temporary directories that ask for
// a password, and are gone with the test binary that started them, even if it is killed.
//
//	url := pgtest.Shared(t).Database(t)     // a database of its own on a server that tests share
//
//	s := pgtest.Start(t, pgtest.Config{})   // a server of its own, for a test that harms or measures it
//	s.Stop(pgtest.Immediate)
//	s.Start()
//
// Without Postgres on the machine a test is skipped, or fails if CI is set.
package pgtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// The roles of a server: the superuser, and the one that owns the databases of tests
// and may do nothing else.
const (
	admin = "postgres"
	owner = "plait"
)

// patience is how long a server may take to start or to stop on a busy machine.
const patience = time.Minute

// A Config says how a server differs from the default.
type Config struct {
	Settings map[string]string // for postgresql.conf
	Disk     string            // size of a file system for it alone, "100m": requires root
	Clock    time.Duration     // by which the server's clock is ahead of ours: requires Linux and gcc
}

// A Server is a Postgres server.
type Server struct {
	t      testing.TB
	shop   *workshop
	config Config
	dir    string
	port   int
	made   atomic.Int64 // databases

	mu   sync.Mutex
	cmd  *exec.Cmd
	done chan struct{} // closed when cmd has ended
}

// A Mode is how a server is stopped.
type Mode syscall.Signal

// The modes of pg_ctl stop that do not wait for clients. Immediate is a crash: the server
// recovers what was committed when it starts again.
const (
	Fast      = Mode(syscall.SIGINT)
	Immediate = Mode(syscall.SIGQUIT)
)

var shared struct {
	sync.Once
	*Server
}

// Shared returns the server that the tests of a binary share. No test may stop it: it does not
// wait for the disk, and loses everything if the machine stops.
func Shared(t testing.TB) *Server {
	t.Helper()
	w := enter(t)
	shared.Do(func() {
		s, err := newServer(w, Config{Settings: map[string]string{"fsync": "off"}})
		if err != nil {
			t.Error(err)
			return
		}
		shared.Server = s
	})
	if shared.Server == nil {
		t.Fatal("the server that tests share did not start")
	}
	return shared.Server
}

// Start starts a server for one test. It is stopped when the test ends.
func Start(t testing.TB, c Config) *Server {
	t.Helper()
	s, err := newServer(enter(t), c)
	if errors.Is(err, syscall.EPERM) && c.Disk != "" && os.Getenv("CI") == "" {
		t.Skipf("NOT TESTED: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.t = t
	t.Cleanup(func() {
		s.stop(Immediate)
		if t.Failed() {
			t.Logf("the end of what Postgres said:\n%s", s.said())
		}
		if s.config.Disk != "" {
			unmount(s.dir)
		}
		os.RemoveAll(s.dir)
	})
	return s
}

// enter returns the workshop, or skips the test.
func enter(t testing.TB) *workshop {
	t.Helper()
	w, err := open()
	if err == errNone && os.Getenv("CI") == "" {
		t.Skipf("NOT TESTED WITH POSTGRES: %v", err)
	}
	if err != nil {
		t.Fatalf("Postgres for tests: %v", err)
	}
	return w
}

func newServer(w *workshop, c Config) (*Server, error) {
	dir, err := w.room()
	if err != nil {
		return nil, err
	}
	s := &Server{shop: w, config: c, dir: dir}
	if c.Disk != "" {
		if err := mount(dir, c.Disk, false); err != nil {
			return nil, err
		}
		if err := w.give(dir); err != nil {
			return nil, err
		}
	}
	if out, err := exec.Command("cp", "-a", w.template(), s.Data()).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("copy a template: %w: %s", err, out)
	}
	// A port is free until another process takes it.
	for range 20 {
		if s.port, err = freePort(); err != nil {
			return nil, err
		}
		if err = s.start(); err == nil {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	return s, s.Admin(context.Background(), "CREATE ROLE "+owner+" LOGIN PASSWORD '"+w.password+"'")
}

// freePort returns a port that nothing listens on, outside the range from which
// connections get theirs by chance while the server is stopped.
func freePort() (port int, err error) {
	for range 100 {
		port = 20000 + rand.IntN(12000)
		var l net.Listener
		if l, err = net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port)); err == nil {
			return port, l.Close()
		}
	}
	return 0, fmt.Errorf("find a port: %w", err)
}

// Data returns the server's data directory.
func (s *Server) Data() string { return filepath.Join(s.dir, "data") }

// Addr returns the server's address.
func (s *Server) Addr() string { return "127.0.0.1:" + strconv.Itoa(s.port) }

// URL returns the URL of a database for the role that owns what tests make.
func (s *Server) URL(database string) string { return s.url(owner, database) }

func (s *Server) url(role, database string) string {
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword(role, s.shop.password), Host: s.Addr(),
		Path: database, RawQuery: "sslmode=disable",
	}
	return u.String()
}

// Database creates a database for one test and returns its URL. It stays until the server goes:
// dropping it would make the server write out all that others have in memory.
func (s *Server) Database(t testing.TB) string {
	t.Helper()
	name := "test" + strconv.FormatInt(s.made.Add(1), 10)
	if err := s.Admin(t.Context(), "CREATE DATABASE "+name+" OWNER "+owner); err != nil {
		t.Fatal(err)
	}
	return s.URL(name)
}

// Admin runs statements, each by itself, as the superuser.
func (s *Server) Admin(ctx context.Context, statements ...string) error {
	c, err := pgx.Connect(ctx, s.url(admin, "postgres"))
	if err != nil {
		return err
	}
	defer c.Close(ctx)
	for _, x := range statements {
		if _, err := c.Exec(ctx, x); err != nil {
			return fmt.Errorf("%s: %w", x, err)
		}
	}
	return nil
}

// Tool runs one of Postgres's programs, of the server's version, as a user would: with the password in its
// environment and in as its input. It returns the output.
func (s *Server) Tool(t testing.TB, in io.Reader, name string, args ...string) []byte {
	t.Helper()
	cmd := s.shop.command(name, args...)
	cmd.Env = append(cmd.Env, "PGPASSWORD="+s.shop.password)
	var said bytes.Buffer
	cmd.Stdin, cmd.Stderr = in, &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v: %s", name, err, &said)
	}
	return out
}

// Stop stops the server and returns when it is gone.
func (s *Server) Stop(m Mode) {
	s.t.Helper()
	if err := s.stop(m); err != nil {
		s.t.Fatal(err)
	}
}

// Start starts a stopped server, at the same address, and returns when it answers.
func (s *Server) Start() {
	s.t.Helper()
	if err := s.start(); err != nil {
		s.t.Fatal(err)
	}
}

// Clock sets how far the server's clock is ahead of ours when it is next started.
func (s *Server) Clock(ahead time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.config.Clock = ahead
}

// Grow changes the size of the server's own file system.
func (s *Server) Grow(size string) {
	s.t.Helper()
	if err := mount(s.dir, size, true); err != nil {
		s.t.Fatal(err)
	}
}

func (s *Server) start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd != nil {
		return fmt.Errorf("start Postgres: it runs")
	}
	args := []string{
		"-D", s.Data(), "-c", "port=" + strconv.Itoa(s.port), "-c", "listen_addresses=127.0.0.1", "-c",
		"unix_socket_directories=",
		"-c", "shared_buffers=32MB", "-c", "dynamic_shared_memory_type=mmap",
		"-c", "autovacuum_naptime=10min", // for each of a hundred databases
	}
	for k, v := range s.config.Settings {
		args = append(args, "-c", k+"="+v)
	}
	cmd := s.shop.command("postgres", args...)
	if s.config.Clock != 0 {
		wrong, err := s.wrongClock()
		if err != nil {
			return fmt.Errorf("start Postgres: %w", err)
		}
		cmd.Env = append(cmd.Env, "LD_PRELOAD="+wrong)
	}
	log, err := os.OpenFile(s.log(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start Postgres: %w", err)
	}
	done := make(chan struct{})
	go func() {
		cmd.Wait()
		close(done)
	}()
	for end := time.Now().Add(patience); ; {
		if err = s.answers(); err == nil {
			s.cmd, s.done = cmd, done
			return nil
		}
		select {
		case <-done:
			return fmt.Errorf("start Postgres: it ended:\n%s", s.said())
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(end) {
			cmd.Process.Signal(syscall.SIGQUIT)
			<-done
			return fmt.Errorf("start Postgres: %w\n%s", err, s.said())
		}
	}
}

// Answers reports whether the server takes connections. One whose disk is full may have ended.
func (s *Server) Answers() bool { return s.answers() == nil }

// answers checks that the server, and not another process at its port, takes our password.
func (s *Server) answers() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	c, err := pgx.Connect(ctx, s.url(admin, "postgres"))
	if err != nil {
		return err
	}
	return c.Close(ctx)
}

func (s *Server) stop(m Mode) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil {
		return nil
	}
	s.cmd.Process.Signal(syscall.Signal(m))
	select {
	case <-s.done:
		s.cmd = nil
		return nil
	case <-time.After(patience):
		return fmt.Errorf("stop Postgres: it goes on:\n%s", s.said())
	}
}

// log returns the server's log file, which is not on the server's own disk.
func (s *Server) log() string { return s.dir + ".log" }

// said returns the end of the server's log.
func (s *Server) said() string {
	data, err := os.ReadFile(s.log())
	if err != nil {
		return err.Error()
	}
	return string(data[max(0, len(data)-4000):])
}
