package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// descendants is what is known of a run's processes: here, the leader's group.
type descendants struct {
	leader int
	start  int64
}

// launch starts a process.
func launch(path string, argv []string, attr *os.ProcAttr, _ uint64) (*os.Process, error) {
	return os.StartProcess(path, argv, attr)
}

// markOf returns 0: there are no marks here.
func markOf(string) uint64 { return 0 }

// Marked reports false: there are no marks here.
func Marked() bool { return false }

// MarkedBy reports false: there are no marks here.
func MarkedBy(string) bool { return false }

func newDescendants(leader int, _ string, _ uint64) *descendants {
	k := &descendants{leader: leader}
	k.start, _ = Identify(leader)
	return k
}

func (k *descendants) find() {}

func (k *descendants) signal(sig unix.Signal) {
	unix.Kill(-k.leader, sig)
	if sig != unix.SIGKILL {
		unix.Kill(-k.leader, unix.SIGCONT)
	}
}

// end ends what is left of the group.
func (k *descendants) end(wait, grace time.Duration) (swept int, left []int) {
	begin, last := time.Now(), unix.Signal(0)
	for unix.Kill(-k.leader, 0) == nil {
		past := time.Since(begin)
		sig := unix.Signal(0)
		switch {
		case past >= wait+grace+killWait:
			return swept, []int{k.leader}
		case past >= wait+grace:
			sig = unix.SIGKILL
		case past >= wait:
			sig = unix.SIGTERM
		}
		if sig != last {
			swept, last = 1, sig
			k.signal(sig)
		}
		time.Sleep(5 * time.Millisecond)
	}
	return swept, nil
}

// await waits for the child and reaps it: there is no portable way to wait
// without reaping.
func await(child *os.Process) *os.ProcessState {
	state, err := child.Wait()
	if err != nil {
		return nil
	}
	return state
}

// reap returns the status that await collected.
func reap(child *os.Process, state *os.ProcessState) *os.ProcessState { return state }

// Sweep finds nothing here: other processes' environments are not read.
func Sweep(ctx context.Context, tag string) (killed int, err error) {
	if tag == "" {
		return 0, errors.New("sweep processes: no tag given")
	}
	return 0, ctx.Err()
}

// Identify returns the start time of a process, in microseconds. ok is false
// when there is no such process or it has ended.
func Identify(pid int) (start int64, ok bool) {
	const zombie = 5 // SZOMB
	info, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil || int(info.Proc.P_pid) != pid || info.Proc.P_stat == zombie {
		return 0, false
	}
	t := info.Proc.P_starttime
	return t.Sec*1e6 + int64(t.Usec), true
}

// Alive reports whether the process exists and is the one that started at start.
func Alive(pid int, start int64) bool {
	now, ok := Identify(pid)
	return ok && now == start
}

// Kill kills the process that started at start, and its group if it leads one.
// It is not an error if the process is gone already.
func Kill(pid int, start int64) error {
	if !Alive(pid, start) {
		return nil
	}
	err := unix.Kill(pid, unix.SIGKILL)
	if group, e := unix.Getpgid(pid); e == nil && group == pid {
		unix.Kill(-pid, unix.SIGKILL)
	}
	if err != nil && err != unix.ESRCH {
		return fmt.Errorf("kill process %d: %w", pid, err)
	}
	return nil
}

// BecomeSubreaper does nothing here: init takes the orphans.
func BecomeSubreaper() error { return nil }
