package lock_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/sys/lock"
)

// childDir makes the test binary a process that holds a lock until it is killed.
const childDir = "PLAIT_TEST_LOCKS"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		if _, err := (lock.Locks{Dir: dir}).Acquire("one"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println("held")
		time.Sleep(time.Hour) // a select of nothing would be a deadlock
	}
	os.Exit(m.Run())
}

func TestOnce(t *testing.T) {
	locks := lock.Locks{Dir: filepath.Join(t.TempDir(), "a", "locks")} // created on demand
	held := func(want bool) {
		t.Helper()
		owner, is, err := locks.Holder("one")
		if err != nil || is != want || strings.HasPrefix(owner, fmt.Sprintf("process %d on ", os.Getpid())) != want {
			t.Errorf("held by %q: %v, %v, want %v", owner, is, err, want)
		}
	}
	held(false)
	l, err := locks.Acquire("one")
	if err != nil {
		t.Fatal(err)
	}
	held(true)
	_, err = locks.Acquire("one")
	other, ok := errors.AsType[*lock.HeldError](err)
	if !ok || other.Name != "one" || !strings.HasPrefix(other.Owner, "process ") {
		t.Fatalf("got %v, want who holds it", err)
	}
	two, err := locks.Acquire("two")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(l.Release(), two.Release()); err != nil {
		t.Fatal(err)
	}
	held(false)
	next, err := locks.Acquire("one")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Release(); err != nil { // the second time; must not release what another holds
		t.Error(err)
	}
	held(true)
	if err := next.Release(); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(locks.Dir); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestNames(t *testing.T) {
	locks := lock.Locks{Dir: t.TempDir()}
	for _, name := range []string{"", ".", "..", "a/b", "../x", `a\b`, "a\x00", ".hidden", strings.Repeat("x", 300)} {
		if l, err := locks.Acquire(name); err == nil {
			t.Errorf("%q was taken", name)
			l.Release()
		}
		if _, held, err := locks.Holder(name); err == nil || held {
			t.Errorf("%q was looked at", name)
		}
	}
	nowhere := lock.Locks{}
	for range 2 { // nothing is kept apart
		if l, err := nowhere.Acquire("one"); err != nil {
			t.Error(err)
		} else {
			defer l.Release()
		}
	}
}

// Many acquire and release in turn, and look: no two hold it together, and no look turns anyone away.
func TestRace(t *testing.T) {
	locks := lock.Locks{Dir: t.TempDir()}
	var holding, taken atomic.Int32
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() {
			for range 50 {
				if i%3 == 0 {
					if _, _, err := locks.Holder("one"); err != nil {
						t.Error(err)
					}
					continue
				}
				l, err := locks.Acquire("one")
				if _, ok := errors.AsType[*lock.HeldError](err); ok {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				taken.Add(1)
				if holding.Add(1) != 1 {
					t.Error("held twice")
				}
				holding.Add(-1)
				if err := l.Release(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if taken.Load() == 0 {
		t.Error("nobody got it")
	}
}

// A lock ends with its process, and can be taken as soon as that has been killed, although kill returns
// before its locks are gone.
func TestKilled(t *testing.T) {
	locks := lock.Locks{Dir: t.TempDir()}
	for range 5 {
		c := exec.Command(os.Args[0])
		c.Env = append(os.Environ(), childDir+"="+locks.Dir)
		c.Stderr = os.Stderr
		out, err := c.StdoutPipe()
		if err == nil {
			err = c.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "held\n" {
			t.Fatalf("the child said %q, %v", line, err)
		}
		owner, held, err := locks.Holder("one")
		if want := fmt.Sprintf("process %d on ", c.Process.Pid); err != nil || !held || !strings.HasPrefix(owner, want) {
			t.Errorf("held by %q: %v, %v, want %s…", owner, held, err, want)
		}
		if err := c.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		l, err := locks.Acquire("one")
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Release(); err != nil {
			t.Fatal(err)
		}
		c.Wait()
	}
}
