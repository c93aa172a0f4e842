package attempt

import (
	"os/exec"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/proc"
)

// What is left of an attempt is ended only on the machine that ran it, and not after that has rebooted: its
// pids are other processes' then.
func TestEndElsewhere(t *testing.T) {
	for _, x := range []struct {
		name, host, boot string
		ends             bool
	}{
		{"here", "h", "b", true}, {"of an older version", "", "", true}, {"on another host", "other", "b", false},
		{"of another start of this host", "h", "before", false}, {"of another start of another", "other", "before", false},
	} {
		t.Run(x.name, func(t *testing.T) {
			h := newHouse(t, "read", nil)
			h.cfg.Host.Name, h.cfg.Host.Boot = "h", "b"
			cmd := exec.Command("sleep", "600")
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan struct{})
			go func() { cmd.Wait(); close(ended) }()
			defer func() { cmd.Process.Kill(); <-ended }()
			start, ok := proc.Identify(cmd.Process.Pid)
			if !ok {
				t.Fatal("the process is not there")
			}
			row := h.row
			a := store.Attempt{ID: "A.1", Thread: row.ID, From: row.Head, N: 1, Role: "work", Status: store.AttemptRunning,
				PID: cmd.Process.Pid, PIDStart: start, Host: x.host, Boot: x.boot}
			if err := h.store.Forge(t.Context(), store.Batch{Attempts: []store.AttemptChange{{Row: a}}}); err != nil {
				t.Fatal(err)
			}
			if err := h.End(t.Context(), &row, &a); err != nil {
				t.Fatal(err)
			}
			if now, err := h.store.Attempt(t.Context(), a.ID); err != nil || now.Status != store.AttemptInterrupted {
				t.Errorf("the attempt is %s, %v", now.Status, err)
			}
			if !x.ends {
				if !proc.Alive(cmd.Process.Pid, start) {
					t.Error("a process was killed that is none of the attempt's")
				}
				return
			}
			select {
			case <-ended:
			case <-time.After(time.Minute):
				t.Error("its process goes on")
			}
		})
	}
}
