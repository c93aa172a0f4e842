package proc_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/sys/proc"
	"github.com/plait-run/plait/internal/testing/agenttest"
)

func TestDaemonsEnd(t *testing.T) {
	t.Parallel()
	for _, options := range []string{"", "keep", "clear", "keep clear", "flood", "flood clear"} {
		for _, stay := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s stay=%t", options, stay), func(t *testing.T) {
				t.Parallel()
				args := strings.Fields(options)
				if stay {
					args = append(args, "stay")
				}
				cfg := fakeConfig(t, "daemon", args...)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				out := newWatched()
				var daemon string
				cfg.Line = func(b []byte, _ bool) error {
					if _, err := strconv.Atoi(string(b)); err == nil {
						daemon = string(b)
						if stay {
							cancel()
						}
					}
					return nil
				}
				cfg.Stdout, cfg.MaxBytes = out, 1<<40
				if strings.Contains(options, "flood") {
					cfg.Stdout = nil // it writes until it is ended
				}
				res := mustRun(ctx, t, cfg)
				gone(t, daemon, 1)
				if res.Swept != 1 {
					t.Errorf("swept %d processes, want 1", res.Swept)
				}
				if stay != (res.Reason == proc.Cancelled) {
					t.Errorf("got reason %q", res.Reason)
				}
			})
		}
	}
}

func TestBrood(t *testing.T) {
	t.Parallel()
	const n = 200
	cfg := fakeConfig(t, "brood", strconv.Itoa(n))
	var out bytes.Buffer
	cfg.Stdout = &out
	mustRun(t.Context(), t, cfg)
	gone(t, out.String(), n)
}

func TestRunsDoNotEndEachOther(t *testing.T) {
	t.Parallel()
	long := fakeConfig(t, "daemon", "clear", "stay")
	ctx, cancel := context.WithCancel(t.Context())
	out := newWatched()
	long.Stdout = out
	var wg sync.WaitGroup
	var res proc.Result
	wg.Go(func() { res = mustRun(ctx, t, long) })
	<-out.wrote
	for range 4 {
		wg.Go(func() { mustRun(t.Context(), t, fakeConfig(t, "daemon", "clear")) })
	}
	mustRun(t.Context(), t, fakeConfig(t, "brood", "5"))
	daemon, err := strconv.Atoi(strings.TrimSpace(out.String()))
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := proc.Identify(daemon); !ok {
		t.Error("a run's daemon was ended by another run")
	}
	cancel()
	wg.Wait()
	if res.Reason != proc.Cancelled {
		t.Errorf("the long run ended with %+v", res)
	}
	gone(t, out.String(), 1)
}

// startController runs a fake agent under a controller in another process, and
// returns that process once the agent has printed its first line, and the line.
func startController(t *testing.T, tag string, argv []string) (*exec.Cmd, string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(self, append([]string{"controller", tag}, argv...)...)
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return c, line
}

func TestSweepAfterACrash(t *testing.T) {
	t.Parallel()
	for _, options := range [][]string{{"stay"}, {"clear", "stay"}, {"headless", "stay"}} {
		t.Run(options[0], func(t *testing.T) {
			t.Parallel()
			tag := newTag()
			c, line := startController(t, tag, agenttest.Fake("daemon", options...))
			other := fakeConfig(t, "hang")
			other.Tag = tag + "1" // begins with the tag but differs
			other.Env = proc.Environ(nil, nil, nil, other.Tag)
			ctx, cancel := context.WithCancel(t.Context())
			out := newWatched()
			other.Stdout = out
			var wg sync.WaitGroup
			wg.Go(func() {
				if res := mustRun(ctx, t, other); res.Reason != proc.Cancelled {
					t.Errorf("a run with another tag ended with %+v", res)
				}
			})
			<-out.wrote
			c.Process.Kill()
			c.Wait()
			if daemon, _ := strconv.Atoi(strings.TrimSpace(line)); daemon == 0 {
				t.Fatalf("the agent printed %q", line)
			} else if _, ok := proc.Identify(daemon); !ok {
				t.Fatal("the daemon ended with the controller: nothing is tested")
			}
			killed, err := proc.Sweep(t.Context(), tag)
			if err != nil || killed != 2 {
				t.Errorf("Sweep killed %d and returned %v, want the agent and its daemon", killed, err)
			}
			gone(t, line, 1)
			if left := agenttest.Tagged(tag); len(left) > 0 {
				t.Errorf("processes %v are left", left)
			}
			if killed, err := proc.Sweep(t.Context(), tag); killed != 0 || err != nil {
				t.Errorf("a second Sweep killed %d and returned %v", killed, err)
			}
			cancel()
			wg.Wait()
		})
	}
}

func TestSweepRefusesNoTag(t *testing.T) {
	if killed, err := proc.Sweep(t.Context(), ""); err == nil || killed != 0 {
		t.Errorf("Sweep without a tag killed %d and returned %v", killed, err)
	}
}

// TestPlaitInsidePlait runs an agent that is itself a controller and is killed
// before it can clean up.
func TestPlaitInsidePlait(t *testing.T) {
	t.Parallel()
	cfg := fakeConfig(t, "hang")
	self := cfg.Path
	inner := newTag()
	cfg.Args = append([]string{"controller", inner}, agenttest.Fake("daemon", "clear", "stay")...)
	cfg.Path, cfg.Signals = self, []syscall.Signal{syscall.SIGKILL}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := newWatched()
	cfg.Stdout = out
	go func() { <-out.wrote; cancel() }()
	mustRun(ctx, t, cfg)
	gone(t, out.String(), 1)
	if left := agenttest.Tagged(inner); len(left) > 0 {
		t.Errorf("processes %v of the inner run are left", left)
	}
}

func TestOrphansAreReaped(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, mode := range [][]string{{"brood", "5"}, {"daemon", "keep"}, {"daemon", "keep", "headless"}} {
		out, err := exec.Command(self,
			append([]string{"subreaper"}, agenttest.Fake(mode[0], mode[1:]...)...)...).Output()
		if got, want := string(out), "other exit 7\nchildren 0\n"; err != nil || got != want {
			t.Errorf("%v: got %q and error %v, want %q", mode, got, err, want)
		}
	}
}

func TestIdentity(t *testing.T) {
	t.Parallel()
	c := exec.Command(agenttest.Fake("hang")[0], agenttest.Fake("hang")[1:]...)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	pid := c.Process.Pid
	start, ok := proc.Identify(pid)
	if !ok || start <= 0 || !proc.Alive(pid, start) {
		t.Fatalf("a running process has start %d, %t", start, ok)
	}
	if proc.Alive(pid, start+1) {
		t.Error("a process with another start time is called alive")
	}
	if err := proc.Kill(pid, start+1); err != nil || !proc.Alive(pid, start) {
		t.Errorf("Kill with another start time returned %v; alive: %t", err, proc.Alive(pid, start))
	}
	if err := proc.Kill(pid, start); err != nil {
		t.Errorf("Kill returned %v", err)
	}
	// It is dead but not reaped: its id is taken, but it is not alive.
	if _, ok := proc.Identify(pid); ok || proc.Alive(pid, start) {
		t.Error("a killed process is called alive")
	}
	c.Wait()
	if err := proc.Kill(pid, start); err != nil {
		t.Errorf("Kill of a process that is gone returned %v", err)
	}
}

func TestNoDescriptorIsLeft(t *testing.T) {
	// Not parallel: it counts what the whole process has open.
	count := func() int {
		names, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(names)
	}
	cfg := fakeConfig(t, "exit", "0")
	mustRun(t.Context(), t, cfg)
	before := count()
	for range 10 {
		cfg.Stdin = strings.NewReader("prompt")
		mustRun(t.Context(), t, cfg)
		bad := cfg
		bad.Path = "/no/such/program"
		if _, err := run(t.Context(), t, bad); err == nil {
			t.Fatal("a missing program was started")
		}
		garbage := cfg
		garbage.Path = "/proc/self/exe/x"
		run(t.Context(), t, garbage)
	}
	daemon := fakeConfig(t, "daemon", "keep")
	mustRun(t.Context(), t, daemon)
	deadline := time.Now().Add(2 * time.Minute)
	for count() > before && time.Now().Before(deadline) {
		time.Sleep(10 * time.Millisecond)
	}
	if after := count(); after > before {
		t.Errorf("%d descriptors are open, %d before", after, before)
	}
}
