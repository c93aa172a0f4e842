package proc_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/plait-run/plait/internal/sys/proc"
	"github.com/plait-run/plait/internal/testing/agenttest"
)

// TestMain also serves as the programs that need their own process: the fake agent,
// a controller that runs one, and a subreaper.
func TestMain(m *testing.M) {
	agenttest.FakeMain()
	if len(os.Args) > 2 {
		switch os.Args[1] {
		case "controller":
			os.Exit(controller(os.Args[2], os.Args[3:]))
		case "lists": // a controller on a kernel without close_range
			proc.CloseListed()
			cmd := exec.Command(os.Args[3], os.Args[4:]...)
			cmd.Stdout = os.Stdout
			cmd.Run()
			os.Exit(0)
		case "subreaper":
			os.Exit(subreaper(os.Args[2:]))
		}
	}
	goleak.VerifyTestMain(m)
}

// controller runs a command under a tag, as Plait would, printing what it prints.
func controller(tag string, argv []string) int {
	_, err := proc.Run(context.Background(), proc.Config{
		Path: argv[0], Args: argv[1:], Dir: "/", Tag: tag,
		Env:    proc.Environ(nil, nil, nil, tag),
		Stdout: os.Stdout, Grace: 100 * time.Millisecond,
	})
	if err != nil {
		return 1
	}
	return 0
}

// subreaper runs a command that leaves orphans behind, next to a child that proc
// does not know of, and prints how many children it has in the end.
func subreaper(argv []string) int {
	if err := proc.BecomeSubreaper(); err != nil {
		fmt.Println(err)
		return 1
	}
	other := exec.Command("sh", "-c", "exit 7")
	if err := other.Start(); err != nil {
		fmt.Println(err)
		return 1
	}
	_, err := proc.Run(context.Background(), proc.Config{
		Path: argv[0], Args: argv[1:], Dir: "/", Tag: "subreaper", Grace: 100 * time.Millisecond,
	})
	if err != nil {
		fmt.Println(err)
	}
	other.Wait()
	fmt.Println("other exit", other.ProcessState.ExitCode())
	fmt.Println("children", len(childrenOf(os.Getpid())))
	return 0
}

// childrenOf returns the children of pid, dead ones included.
func childrenOf(pid int) (pids []int) {
	names, _ := os.ReadDir("/proc")
	for _, d := range names {
		b, err := os.ReadFile("/proc/" + d.Name() + "/stat")
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(b), ") ")
		if f := strings.Fields(rest); len(f) > 1 && f[1] == strconv.Itoa(pid) {
			n, _ := strconv.Atoi(d.Name())
			pids = append(pids, n)
		}
	}
	return pids
}

var tags atomic.Int64

func newTag() string { return fmt.Sprintf("proctest-%d-%d", os.Getpid(), tags.Add(1)) }

// quick keeps a program under the race detector from sleeping a second when it exits.
var quick = map[string]string{"GORACE": "atexit_sleep_ms=0"}

// fakeConfig is a Config that runs the fake agent in a mode.
func fakeConfig(t *testing.T, mode string, args ...string) proc.Config {
	t.Helper()
	argv := agenttest.Fake(mode, args...)
	tag := newTag()
	return proc.Config{
		Path: argv[0], Args: argv[1:], Dir: t.TempDir(), Tag: tag,
		Env: proc.Environ(nil, quick, nil, tag), Grace: 200 * time.Millisecond,
	}
}

// run runs cfg with a guard against hanging and checks that nothing is left.
func run(ctx context.Context, t *testing.T, cfg proc.Config) (proc.Result, error) {
	t.Helper()
	type outcome struct {
		res proc.Result
		err error
	}
	over := make(chan outcome, 1)
	go func() {
		res, err := proc.Run(ctx, cfg)
		over <- outcome{res, err}
	}()
	select {
	case o := <-over:
		if left := agenttest.Tagged(cfg.Tag); len(left) > 0 {
			t.Errorf("Run returned, but processes %v are left", left)
		}
		if len(o.res.Left) > 0 {
			t.Errorf("Run could not end %v", o.res.Left)
		}
		return o.res, o.err
	case <-time.After(time.Minute):
		t.Fatal("Run did not return")
		panic("unreachable")
	}
}

// mustRun is run for a child that starts and has no error.
func mustRun(ctx context.Context, t *testing.T, cfg proc.Config) proc.Result {
	t.Helper()
	res, err := run(ctx, t, cfg)
	if err != nil {
		t.Fatalf("Run returned %v", err)
	}
	return res
}

// A watched buffer reports when it is first written to.
type watched struct {
	mu    sync.Mutex
	b     bytes.Buffer
	wrote chan struct{}
	once  sync.Once
}

func newWatched() *watched { return &watched{wrote: make(chan struct{})} }

func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, err := w.b.Write(p)
	w.once.Do(func() { close(w.wrote) })
	return n, err
}

func (w *watched) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.String()
}

// gone fails the test unless every process whose id is on a line of text has ended.
func gone(t *testing.T, text string, want int) {
	t.Helper()
	pids := strings.Fields(text)
	if len(pids) != want {
		t.Fatalf("the child printed %q, want %d process ids", text, want)
	}
	for _, f := range pids {
		pid, err := strconv.Atoi(f)
		if err != nil {
			t.Fatalf("%q is not a process id", f)
		}
		if _, ok := proc.Identify(pid); ok {
			t.Errorf("process %d is left", pid)
		}
	}
}
