package pgtest_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/plait-run/plait/plaitd/pgtest"
)

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(context.Background()) })
	return c
}

func do(t *testing.T, url, sql string) {
	t.Helper()
	if _, err := connect(t, url).Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
}

func ask(t *testing.T, url, sql string) (answer string) {
	t.Helper()
	if err := connect(t, url).QueryRow(t.Context(), sql).Scan(&answer); err != nil {
		t.Fatal(err)
	}
	return answer
}

func TestShared(t *testing.T) {
	s := pgtest.Shared(t)
	a, b := s.Database(t), s.Database(t)
	do(t, a, "CREATE TABLE x (n int)")
	do(t, b, "CREATE TABLE x (n int)") // another database
	if got := ask(t, a, "SELECT rolsuper::text FROM pg_roles WHERE rolname = current_user"); got != "false" {
		t.Error("tests are superusers, as which too much works")
	}
	if c, err := pgx.Connect(t.Context(), strings.Replace(a, "plait:", "plait:x", 1)); err == nil {
		c.Close(t.Context())
		t.Error("any password will do")
	}
}

func TestCrash(t *testing.T) {
	s := pgtest.Start(t, pgtest.Config{Settings: map[string]string{"max_connections": "20"}})
	url := s.Database(t)
	if got := ask(t, url, "SHOW max_connections"); got != "20" {
		t.Errorf("max_connections is %s", got)
	}
	if got := ask(t, url, "SHOW fsync"); got != "on" {
		t.Errorf("fsync is %s: what a test commits is not durable", got)
	}
	do(t, url, "CREATE TABLE x AS SELECT 'kept' AS what")
	s.Stop(pgtest.Immediate)
	if _, err := pgx.Connect(t.Context(), url); err == nil {
		t.Fatal("a stopped server answers")
	}
	s.Start()
	if got := ask(t, url, "SELECT what FROM x"); got != "kept" {
		t.Error(got)
	}
	s.Stop(pgtest.Fast)
	s.Start()
}

func TestFullDisk(t *testing.T) {
	s := pgtest.Start(t, pgtest.Config{Disk: "120m"})
	url := s.Database(t)
	do(t, url, "CREATE TABLE x (data bytea)")
	c := connect(t, url)
	var err error
	for range 200 {
		if _, err = c.Exec(t.Context(), "INSERT INTO x SELECT sha512(n::text::bytea) FROM generate_series(1, 20000) "+
			"n"); err != nil {
			break
		}
	}
	if err == nil {
		t.Fatal("the disk is not full")
	}
	s.Grow("400m")
	s.Stop(pgtest.Immediate) // a server whose log cannot grow has ended by itself
	s.Start()
	do(t, url, "INSERT INTO x SELECT ''")
}

// TestGone kills a test binary, and checks that its server goes with it.
func TestGone(t *testing.T) {
	if os.Getenv("PLAIT_PGTEST_VICTIM") != "" {
		s := pgtest.Start(t, pgtest.Config{})
		ask(t, s.Database(t), "SELECT 'it runs'")
		fmt.Println("server", s.Data())
		select {}
	}
	pgtest.Shared(t) // skips if there is no Postgres
	cmd := exec.Command(os.Args[0], "-test.run=^TestGone$")
	cmd.Env = append(os.Environ(), "PLAIT_PGTEST_VICTIM=1")
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	dir := ""
	for in := bufio.NewScanner(out); dir == "" && in.Scan(); {
		dir, _ = strings.CutPrefix(in.Text(), "server ")
		if dir == in.Text() {
			dir = ""
		}
	}
	pid, _, _ := strings.Cut(read(t, dir+"/postmaster.pid"), "\n")
	cmd.Process.Kill()
	cmd.Wait()
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		_, err := os.Stat(dir)
		_, runs := os.Stat("/proc/" + pid)
		if err != nil && runs != nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("a minute later: directory %v, process %v", err, runs)
		}
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
