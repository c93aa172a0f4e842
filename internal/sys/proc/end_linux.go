package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// await waits until the child has ended and leaves it unreaped, so that its id
// still names it and its group.
func await(child *os.Process) *os.ProcessState {
	for {
		err := unix.Waitid(unix.P_PID, child.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			return nil
		}
	}
}

// reap reaps a child that has ended and returns its status.
func reap(child *os.Process, _ *os.ProcessState) *os.ProcessState {
	state, err := child.Wait()
	if err != nil {
		return nil
	}
	return state
}

// Sweep kills every process that has the tag, in its environment or as its mark,
// and their descendants, until two searches in a row find none. It returns how many
// it killed. It is for what a crashed Plait has left behind.
func Sweep(ctx context.Context, tag string) (killed int, err error) {
	if tag == "" {
		return 0, errors.New("sweep processes: no tag given")
	}
	k := &descendants{tag: tag, mark: markOf(tag), seen: make(map[int]int64)}
	var left []int
	for range 3 {
		if err := ctx.Err(); err != nil {
			return killed, fmt.Errorf("sweep processes of %s: %w", tag, err)
		}
		var n int
		n, left = k.end(0, 0)
		killed += n
		if len(left) == 0 {
			return killed, nil
		}
	}
	return killed, fmt.Errorf("sweep processes of %s: cannot end %v", tag, left)
}

// Alive reports whether the process exists, is the one that started at start,
// and has not ended.
func Alive(pid int, start int64) bool {
	now, ok := Identify(pid)
	return ok && now == start
}

// Kill kills the process that started at start, and its group if it leads one,
// and waits until it is gone. It is not an error if it is gone already. start
// counts from boot: after a reboot the pair may identify another process, so the
// caller must know that it is from this boot.
func Kill(pid int, start int64) error {
	e, ok := readEntry(pid)
	if !ok || e.start != start || e.isDead() {
		return nil
	}
	if e.group == pid {
		unix.Kill(-pid, unix.SIGKILL)
	}
	err := signalExactly(e, unix.SIGKILL)
	if err != nil && err != unix.ESRCH {
		return fmt.Errorf("kill process %d: %w", pid, err)
	}
	for end := time.Now().Add(killWait); Alive(pid, start); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			return fmt.Errorf("kill process %d: still there after %v", pid, killWait)
		}
	}
	return nil
}

// BecomeSubreaper makes this process the parent of the orphans among its
// descendants, so that Run can reap those it kills. Call it once, from main.
func BecomeSubreaper() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become subreaper: %w", err)
	}
	return nil
}
