package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/plait-run/plait/internal/agent/codex"
	"github.com/plait-run/plait/internal/agent/host"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/store/sqlite"
)

// realCodex is the directory of the real Codex, found once with the environment
// of the test run.
var realCodex = sync.OnceValues(func() (string, error) {
	p, err := codex.NewHost(host.New(host.Config{})).Find(context.Background(), "")
	return filepath.Dir(p.Path), err
})

// needCodex is the condition [codex]: the real Codex is available. If nothing
// may be skipped, it fails when it is not.
func needCodex() (bool, error) {
	_, err := realCodex()
	if errors.As(err, new(*host.MissingError)) && os.Getenv("CI") == "" {
		fmt.Fprintln(os.Stderr, "NO REAL CODEX, SO ITS STORIES ARE SKIPPED:", err)
		return false, nil
	}
	return err == nil, err
}

// usage: awaitgate VAR [KIND]: waits until a gate, of that kind, is open and sets VAR to its id.
func awaitGate(ts *testscript.TestScript, neg bool, args []string) {
	ctx, s := context.Background(), openRecord(ts)
	defer s.Close()
	poll(ts, func() bool {
		open, err := s.Gates(ctx, store.GateFilter{State: store.GateOpen})
		ts.Check(err)
		for _, g := range open {
			if len(args) == 1 || string(g.Kind) == args[1] {
				ts.Setenv(args[0], g.ID)
				return true
			}
		}
		return false
	}, "no gate opened")
}

// usage: awaitgates N: waits until N gates are open.
func awaitGates(ts *testscript.TestScript, neg bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	ctx, s := context.Background(), openRecord(ts)
	defer s.Close()
	poll(ts, func() bool {
		open, err := s.Gates(ctx, store.GateFilter{State: store.GateOpen})
		ts.Check(err)
		return len(open) == want
	}, "there are not "+args[0]+" open gates")
}

// usage: awaitevent TYPE: waits until there is an event of that type.
func awaitEvent(ts *testscript.TestScript, neg bool, args []string) {
	ctx, s := context.Background(), openRecord(ts)
	defer s.Close()
	poll(ts, func() bool {
		events, err := s.Events(ctx, 0, store.EventFilter{Types: args})
		ts.Check(err)
		return len(events) > 0
	}, "there is no "+args[0])
}

// openRecord opens the store of a script once it is there.
func openRecord(ts *testscript.TestScript) *sqlite.Store {
	file := filepath.Join(ts.Getenv("PLAIT_HOME"), "plait.db")
	poll(ts, func() bool { _, err := os.Stat(file); return err == nil }, "there is no record")
	s, err := sqlite.Open(context.Background(), sqlite.Config{Dir: ts.Getenv("PLAIT_HOME")})
	ts.Check(err)
	return s
}

// usage: awaititem TEXT [THREAD]: waits until an agent, of that thread, reports an
// item that contains TEXT.
func awaitItem(ts *testscript.TestScript, neg bool, args []string) {
	ctx, s := context.Background(), openRecord(ts)
	defer s.Close()
	poll(ts, func() bool {
		events, err := s.Events(ctx, 0, store.EventFilter{})
		ts.Check(err)
		for _, ev := range events {
			if len(args) > 1 && ev.Thread != args[1] {
				continue
			}
			if ev.Type == "agent.item" && bytes.Contains(ev.Payload, []byte(args[0])) {
				return true
			}
		}
		return false
	}, "nothing was done that holds "+args[0])
}

// usage: [!] nocodex: no process runs that belongs to a Codex of this script,
// found by the home in its environment.
func noCodex(ts *testscript.TestScript, neg bool, args []string) {
	marks := []string{filepath.Join(ts.Getenv("PLAIT_HOME"), "homes"), "CODEX_HOME=" + ts.Getenv("WORK") + "/"}
	found := func() []int {
		var pids []int
		dirs, err := os.ReadDir("/proc")
		ts.Check(err)
		for _, d := range dirs {
			pid, err := strconv.Atoi(d.Name())
			if err != nil || !alive(pid) {
				continue
			}
			env, err := os.ReadFile(filepath.Join("/proc", d.Name(), "environ"))
			if err == nil && slices.ContainsFunc(marks, func(m string) bool { return bytes.Contains(env, []byte(m)) }) {
				pids = append(pids, pid)
			}
		}
		return pids
	}
	if neg {
		poll(ts, func() bool { return len(found()) > 0 }, "no Codex runs")
		return
	}
	if left := found(); len(left) > 0 {
		for _, pid := range left {
			line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			ts.Logf("%d: %q", pid, line)
		}
		ts.Fatalf("processes %v of Codex are left", left)
	}
}
