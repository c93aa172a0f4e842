package agenttest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/agent"
)

var plain = []byte("the first line\nthe second line\n")

func (s suite) answers(t *testing.T) {
	y := newTry(t)
	s.run(t.Context(), t, s.make(t, Script{Text: plain, End: Done}), y, nil)
	if y.err != nil {
		t.Fatalf("Run returned %v", y.err)
	}
	if got, want := strings.TrimSpace(string(y.result.Output)), strings.TrimSpace(string(plain)); got != want {
		t.Errorf("got output %q, want %q", got, want)
	}
	if y.result.Truncated {
		t.Error("the output is called truncated")
	}
	if len(y.events) == 0 {
		t.Error("no event was emitted")
	}
	s.said(t, y, plain)
}

// said checks the raw log against what the agent was made to say.
func (s suite) said(t *testing.T, y *try, text []byte) {
	t.Helper()
	raw := y.raw.Bytes()
	if s.cfg.Exact {
		if !bytes.Equal(raw, text) {
			t.Errorf("the raw log is not what was said:\n got %q\nwant %q", raw, text)
		}
		return
	}
	raw = s.cfg.Said(raw)
	for line := range bytes.Lines(text) {
		if !bytes.Contains(raw, bytes.TrimSpace(line)) {
			t.Errorf("the raw log lacks %q", line)
		}
	}
}

func (s suite) rawBytes(t *testing.T) {
	if !s.cfg.Exact {
		t.Skip("the transcript of this kind is a protocol, not free bytes")
	}
	text := []byte("\xef\xbb\xbfbom\r\ninvalid \xff\xfe\xc3\x28\nnul \x00 here\n\n\x1b[31mred\x1b[0m \\ud800\n" +
		"no newline at the end")
	y := newTry(t)
	s.run(t.Context(), t, s.make(t, Script{Text: text, End: Done}), y, nil)
	if y.err != nil {
		t.Fatalf("Run returned %v", y.err)
	}
	s.said(t, y, text)
	if !bytes.Equal(y.result.Output, text) {
		t.Errorf("got output %q, want %q", y.result.Output, text)
	}
}

func (s suite) fails(t *testing.T) {
	y := newTry(t)
	s.run(t.Context(), t, s.make(t, Script{Text: plain, End: Fails}), y, nil)
	failure(t, y, agent.Infra)
	s.said(t, y, plain)
}

func (s suite) cancelledBefore(t *testing.T) {
	y := newTry(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s.run(ctx, t, s.make(t, Script{Text: plain, End: Done}), y, nil)
	failure(t, y, agent.Cancelled)
	if y.started.Load() != nil {
		t.Error("a process was started though the context had ended")
	}
}

// quickly checks that an agent ended soon after it had to.
func (s suite) quickly(t *testing.T, since time.Time) {
	t.Helper()
	if took := time.Since(since); took > s.cfg.Within {
		t.Errorf("the agent ended after %v, want at most %v", took, s.cfg.Within)
	}
}

func (s suite) cancelled(t *testing.T, end Ending) {
	y := newTry(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var at time.Time
	s.run(ctx, t, s.make(t, Script{Text: plain, End: end}), y, func(e agent.Event) error {
		// Wait until the agent has said something: then it is as stubborn as it gets.
		if at.IsZero() && len(y.raw.Bytes()) > 0 {
			at = time.Now()
			cancel()
		}
		return nil
	})
	failure(t, y, agent.Cancelled)
	s.quickly(t, at)
}

func (s suite) emitError(t *testing.T) {
	y := newTry(t)
	broken := errors.New("the record is full")
	var at time.Time
	s.run(t.Context(), t, s.make(t, Script{Text: plain, End: Hangs}), y, func(agent.Event) error {
		if !at.IsZero() {
			y.fault("emit was called after it returned an error")
		}
		at = time.Now()
		return broken
	})
	if !errors.Is(y.err, broken) {
		t.Fatalf("Run returned %v, want the error of emit", y.err)
	}
	s.quickly(t, at)
}

func (s suite) timeout(t *testing.T, set func(*agent.Request)) {
	y := newTry(t)
	set(&y.req)
	at := time.Now()
	s.run(t.Context(), t, s.make(t, Script{Text: plain, End: Hangs}), y, nil)
	failure(t, y, agent.TimedOut)
	s.quickly(t, at)
}

func (s suite) daemon(t *testing.T) {
	if s.cfg.NoProcess {
		t.Skip("this kind runs no process")
	}
	y := newTry(t)
	s.run(t.Context(), t, s.make(t, Script{Text: plain, End: Leaves}), y, nil)
	if y.err != nil {
		t.Fatalf("Run returned %v", y.err)
	}
}

func (s suite) environment(t *testing.T) {
	if s.cfg.NoProcess {
		t.Skip("this kind runs no process")
	}
	if _, err := os.Stat("/proc/self/environ"); err != nil {
		t.Skip("other processes' environments cannot be read here")
	}
	y := newTry(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	looked := 0
	s.run(ctx, t, s.make(t, Script{Text: plain, End: Hangs}), y, func(agent.Event) error {
		for _, pid := range Tagged(y.req.Tag) {
			env, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
			if err != nil {
				continue
			}
			looked++
			if bytes.Contains(env, []byte(canary)) ||
				bytes.Contains(append([]byte{0}, env...), []byte("\x00PLAIT_HOME=")) {
				y.fault("process %d was given a secret or PLAIT_HOME", pid)
			}
		}
		if looked > 0 {
			cancel()
		}
		return nil
	})
	failure(t, y, agent.Cancelled)
	if looked == 0 {
		t.Error("no process with the request's tag was seen while the agent ran")
	}
}

func (s suite) concurrent(t *testing.T) {
	const n = 4
	var wg sync.WaitGroup
	for i := range n {
		text := fmt.Appendf(nil, "run number %d says this\nand then %d\n", i, i)
		a, y := s.make(t, Script{Text: text, End: Done}), newTry(t)
		wg.Go(func() {
			y.result, y.err = a.Run(t.Context(), y.req, func(e agent.Event) error { return s.emit(y, e, nil) })
			y.returned.Store(true)
		})
		t.Cleanup(func() {
			s.check(t, y)
			s.said(t, y, text)
			if y.err != nil || !bytes.Equal(bytes.TrimSpace(y.result.Output), bytes.TrimSpace(text)) {
				t.Errorf("run %d: got output %q and error %v, want %q", i, y.result.Output, y.err, text)
			}
		})
	}
	wg.Wait()
}

// Tagged returns the processes in whose environment PLAIT_TAG is tag. It reads
// the process table itself, so as not to trust the code that it checks.
func Tagged(tag string) []int {
	names, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var pids []int
	for _, d := range names {
		pid, err := strconv.Atoi(d.Name())
		if err != nil {
			continue
		}
		env, err := os.ReadFile("/proc/" + d.Name() + "/environ")
		if err != nil {
			continue
		}
		for kv := range bytes.SplitSeq(env, []byte{0}) {
			if string(kv) == "PLAIT_TAG="+tag {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}
